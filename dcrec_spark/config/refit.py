"""Settings of the second fit of a retraining: to the first model's predictions of all pairs, put right by ratings."""

from typing import Annotated, Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import Real, Whole

# Bounds are those of the estimator, which must not refuse a setting after the first fit.
Regulariser = Annotated[Real, Field(ge=0, le=1e12)]


class RefitConfig(Section):
    """A second fit, of a classical model with biases to the first one's predictions of all pairs; it is published."""

    kind: Literal["all_pairs", "doubly_robust"] | None = Field(
        default=None,
        description="what a rated pair is to come to; the others come to the first model's prediction. all_pairs: "
        "its rating; doubly_robust: the prediction, and min(1 / p, refit.weight_cap) of what the rating differs from "
        "it, p by the exposure model; null: no refit, the first model is published (outcome.confounder_link=identity)",
    )
    rank: Annotated[Whole, Field(ge=1, le=4096)] = Field(default=10, description="number of factors")
    weight_cap: Annotated[Real, Field(ge=1, le=1e12)] | None = Field(
        default=None,
        description="largest 1 / p; without a small one, such as 4, a few pairs decide; null: no cap "
        "(kind=doubly_robust)",
    )
    user_reg: Regulariser = Field(
        default=1.0,
        description="1 / prior variance of the users' factors; all pairs weigh 1, so that what suits the first fit may "
        "be too little",
    )
    item_reg: Regulariser = Field(default=1.0, description="1 / prior variance of the items' factors")
    user_bias_reg: Regulariser = Field(default=1.0, description="1 / prior variance of the users' biases")
    item_bias_reg: Regulariser = Field(default=1.0, description="1 / prior variance of the items' biases")
    max_iter: Annotated[Whole, Field(ge=1, le=1_000_000)] = Field(default=20, description="iterations at most")
    tol: Annotated[Real, Field(ge=0, le=1)] = Field(
        default=1e-4, description="relative change of the objective below which the refit ends"
    )
