"""Settings of ``jobs/tune.py``: ratings -> the settings of both stages that rank held-out ratings best."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from dcrec_spark.config.section import Section
from dcrec_spark.config.sections import FittingConfig, MetricsConfig
from dcrec_spark.config.space import Choices, Range, read_space
from dcrec_spark.config.stages import ExposureConfig, OutcomeConfig
from dcrec_spark.config.types import Metric, Part, Positive


class TuningConfig(Section):
    """Which settings of both stages are tried, how they are drawn, and by what they are chosen."""

    space: dict[str, Any] = Field(  # of Choices
        default={},
        description="settings and their choices, such as {exposure.rank: [5, 10], outcome.alpha: [1, 40]}; a random "
        "search takes ranges too: {outcome.rank: {low: 2, high: 50, log: true, int: true}}",
    )
    search: Literal["grid", "random"] = Field(
        default="grid", description="grid: every combination; random: a random choice of them"
    )
    trials: Positive = Field(default=30, description="number of trials of a random search, by run.seed")
    metric: Metric = Field(
        default="ndcg",
        description="ndcg, ndcg@k, recall@k, precision@k, map@k, mse, mae, item_mse or item_mae; errors are made small",
    )
    weights: Literal["none", "exposure"] = Field(
        default="none",
        description="exposure: in mse and mae a held-out rating weighs the inverse of its propensity, 1 - exp(-a_hat) "
        "by the exposure model that the section exposure describes: so they stand for random pairs",
    )
    split: Literal["within_users", "time"] = Field(
        default="within_users",
        description="what is held out; within_users: some of each user's ratings, by hash; time: the latest of all, "
        "by input.columns.timestamp",
    )
    validation_share: Part = Field(default=0.2, description="share of the ratings that is held out to choose by")

    @field_validator("space", mode="before")
    @classmethod
    def _choices(cls, given: Any) -> dict[str, Choices]:
        return read_space(given, {"exposure": ExposureConfig, "outcome": OutcomeConfig})

    @model_validator(mode="after")
    def _search_fits_its_space(self) -> Self:
        ranges = [name for name, choices in self.space.items() if isinstance(choices, Range)]
        if self.search == "grid" and ranges:
            raise ValueError(f"search=random for the range of {ranges[0]}: a grid is made of lists")
        if self.weights != "none" and self.metric not in ("mse", "mae"):
            raise ValueError(f"metric=mse or mae where weights={self.weights}: {self.metric} has no use for weights")
        return self


class TuneConfig(FittingConfig):
    """Everything that jobs/tune.py can be given."""

    job: ClassVar[str] = "tune"

    evaluation: MetricsConfig = MetricsConfig()
    tuning: TuningConfig = TuningConfig()
