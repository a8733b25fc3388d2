"""Settings of ``jobs/simulate.py``: the paper's confounded world."""

from typing import ClassVar, Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.shared import JobConfig
from dcrec_spark.config.types import Natural, NonNegativeReal, Positive, PositiveReal, Share


class SimulationConfig(Section):
    """The world that is drawn, after the paper; its seed is run.seed."""

    n_users: Positive = Field(default=5000, description="number of users")
    n_items: Positive = Field(default=5000, description="number of items")
    n_factors: Positive = Field(default=10, description="K, the number of factors, which the paper does not give")
    confounding_preference: Share = Field(
        default=0.6, description="g_theta: how much of the preference is the confounder itself"
    )
    confounding_outcome: NonNegativeReal = Field(
        default=3.0, description="g_y: how much the confounder adds to the rating"
    )
    gamma_shape: PositiveReal = Field(default=0.3, description="shape of the Gamma distribution of all factors")
    gamma_spread: PositiveReal = Field(default=0.3, description="its scale or its rate, see gamma_reading")
    gamma_reading: Literal["rate", "scale"] = Field(
        default="scale",
        description="what gamma_spread is; scale: as in the authors' code, 7 % of the pairs are rated; rate: 90 % are",
    )
    test_pairs_per_user: Natural = Field(
        default=20, description="random items of each user whose potential rating is drawn"
    )
    test_pairs: Literal["all", "unseen", "withheld"] = Field(
        default="all",
        description="all: exposed pairs too; unseen: none of them; withheld: exposed pairs too, left out of the "
        "ratings",
    )


class SimulateConfig(JobConfig):
    """Everything that jobs/simulate.py can be given."""

    job: ClassVar[str] = "simulate"

    simulation: SimulationConfig = SimulationConfig()
