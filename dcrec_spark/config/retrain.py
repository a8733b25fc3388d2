"""Settings of ``jobs/retrain.py``: ratings -> both stages -> recommendations."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from dcrec_spark.config.audit import RetrainAuditConfig, WithAudit
from dcrec_spark.config.exposure_check import ExposureCheckConfig
from dcrec_spark.config.section import Section
from dcrec_spark.config.shared import FittingConfig, InputConfig, ListsConfig
from dcrec_spark.config.types import Natural, Place
from dcrec_spark.config.warehouses import WithWarehouses


class RetrainInputConfig(InputConfig):
    """Where the ratings are, how they are laid out, and what follows when they are those of the run before."""

    unchanged: Literal["run", "skip"] = Field(
        default="run",
        description="what retrain does where ratings, settings and version are those of the current run under "
        "output.path; skip: it ends with 0, and that run stays, at once where the input is an Iceberg or Delta table, "
        "else when the ratings are validated",
    )
    count_news: bool = Field(
        default=False,
        description="whether retrain counts the pairs that are new, changed and gone since the current run under "
        "output.path, where both read snapshots of one Iceberg or Delta table; both are read once more for that",
    )


class WarmStartConfig(Section):
    """The saved model that a fit starts from, and how it goes on when it is interrupted."""

    warm_start: Place | None = Field(
        default=None,
        description="a saved model to start from, found as model.path is, or previous: the model of the current run "
        "under output.path, if there is one; null: a cold start",
    )
    checkpoint_seconds: Natural = Field(
        default=300,
        description="seconds from one checkpoint of a fit to the next, under output.path: an interrupted run goes on "
        "from the last one when it is run again; 0: none",
    )


class RetrainConfig(WithAudit, WithWarehouses, FittingConfig):
    """Everything that jobs/retrain.py can be given."""

    job: ClassVar[str] = "retrain"

    input: RetrainInputConfig = RetrainInputConfig()
    model: WarmStartConfig = WarmStartConfig()
    exposure_check: ExposureCheckConfig = ExposureCheckConfig()
    recommend: ListsConfig = ListsConfig()
    audit: RetrainAuditConfig = RetrainAuditConfig()

    @model_validator(mode="after")
    def _lists_are_of_the_ratings_alone(self) -> Self:
        others = [name for name in ("catalogue", "exclude") if getattr(self.recommend, name) is not None]
        if self.input.unchanged == "skip" and others:
            raise ValueError(
                f"input.unchanged run where recommend.{others[0]} is set: lists change with it, whatever the ratings do"
            )
        return self

    @model_validator(mode="after")
    def _scores_are_products(self) -> Self:
        link = self.outcome.confounder_link
        if self.recommend.vectors and self.outcome.adjustment == "deconfounded" and link != "identity":
            raise ValueError(
                f"recommend.vectors false for outcome.confounder_link={link}: a link of an inner product is none"
            )
        return self

    @model_validator(mode="after")
    def _fallback_has_a_mean(self) -> Self:
        link = self.outcome.confounder_link
        if self.recommend.fallback and self.outcome.adjustment == "deconfounded" and link != "identity":
            raise ValueError(
                f"recommend.fallback false for outcome.confounder_link={link}: the mean of a link over all users is no "
                "product of means"
            )
        return self
