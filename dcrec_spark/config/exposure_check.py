"""Settings of the predictive check that a retraining makes before it publishes."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import Countable, Real


def _word(value: Any) -> Any:
    """Take YAML's bare ``off``, which is read as false, for the word."""
    return "off" if value is False else value


class ExposureCheckConfig(Section):
    """The predictive check of the exposure model before anything is published, and what follows where it fails."""

    action: Annotated[Literal["off", "warn", "refuse"], BeforeValidator(_word)] = Field(
        default="off",
        description="off: no check; warn: check, and publish with a warning where the exposures don't look like draws "
        "from the model; refuse: end with exit code 4 there, and keep the tables of before",
    )
    held_out_share: Annotated[Real, Field(gt=0, lt=1)] = Field(
        default=0.2, description="of the exposures that the check holds out"
    )
    replications: Annotated[Countable, Field(ge=20)] = Field(
        default=100, description="draws from the model that the real exposures are compared with"
    )
