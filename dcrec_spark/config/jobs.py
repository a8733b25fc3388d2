"""Configuration types of all jobs, and the union of their settings that ``conf/base.yaml`` documents."""

from typing import ClassVar, Self

from pydantic import model_validator

from dcrec_spark.config.evaluate import EvaluateConfig, EvaluationConfig
from dcrec_spark.config.sections import (
    AuditConfig,
    FittingConfig,
    JobConfig,
    ListsConfig,
    PlacesConfig,
    RankingConfig,
    RecommendConfig,
    RelevanceConfig,
    RetrainAuditConfig,
    RetrainInputConfig,
    ServedModelConfig,
    ServingConfig,
    WarmStartConfig,
)
from dcrec_spark.config.tune import TuneConfig, TuningConfig


class RetrainConfig(FittingConfig, PlacesConfig):
    """The settings of ``jobs/retrain.py``."""

    job: ClassVar[str] = "retrain"

    input: RetrainInputConfig = RetrainInputConfig()
    model: WarmStartConfig = WarmStartConfig()
    recommend: ListsConfig = ListsConfig()
    audit: RetrainAuditConfig = RetrainAuditConfig()
    evaluation: RelevanceConfig = RelevanceConfig()

    @model_validator(mode="after")
    def _lists_depend_on_the_ratings_alone(self) -> Self:
        others = [name for name in ("catalogue", "exclude") if getattr(self.recommend, name) is not None]
        if self.input.unchanged == "skip" and others:
            raise ValueError(
                f"input.unchanged run where recommend.{others[0]} is set: lists change with it, whatever the ratings do"
            )
        return self

    @model_validator(mode="after")
    def _scores_are_products(self) -> Self:
        link = self.outcome.confounder_link
        if self.outcome.adjustment == "deconfounded" and link != "identity":
            for extra in {"vectors", "fallback"} & set(self.recommend.extra):
                raise ValueError(
                    f"recommend.extra without {extra} for outcome.confounder_link={link}: {extra} needs scores that "
                    "are inner products"
                )
        return self


class RecommendJobConfig(ServingConfig, PlacesConfig):
    """The settings of ``jobs/recommend.py``."""

    job: ClassVar[str] = "recommend"

    recommend: RecommendConfig = RecommendConfig()
    audit: AuditConfig = AuditConfig()


class FoldInConfig(ServingConfig):
    """The settings of ``jobs/fold_in.py``."""

    job: ClassVar[str] = "fold_in"

    recommend: RankingConfig = RankingConfig()


JOB_CONFIGS: tuple[type[JobConfig], ...] = (RetrainConfig, RecommendJobConfig, FoldInConfig, EvaluateConfig, TuneConfig)


class ModelConfig(WarmStartConfig, ServedModelConfig):
    """Saved models, start of the fit, and resumption."""


class AllSettings(FittingConfig, PlacesConfig):
    """Every setting of every job: what a file that several jobs share may hold."""

    job: ClassVar[str] = ""

    input: RetrainInputConfig = RetrainInputConfig()
    model: ModelConfig = ModelConfig()
    recommend: RecommendConfig = RecommendConfig()
    audit: RetrainAuditConfig = RetrainAuditConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tuning: TuningConfig = TuningConfig()
