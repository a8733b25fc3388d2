"""All jobs' configuration types, and the union of their settings that ``conf/base.yaml`` documents."""

from dcrec_spark.config.audit import RetrainAuditConfig, WithAudit
from dcrec_spark.config.evaluate import EvaluateConfig, EvaluationConfig
from dcrec_spark.config.exposure_check import ExposureCheckConfig
from dcrec_spark.config.retrain import RetrainConfig, RetrainInputConfig, WarmStartConfig
from dcrec_spark.config.serve import FoldInConfig, RecommendConfig, RecommendJobConfig
from dcrec_spark.config.shared import FittingConfig, JobConfig, ServedModelConfig
from dcrec_spark.config.tune import TuneConfig, TuningConfig
from dcrec_spark.config.warehouses import WithWarehouses

JOB_CONFIGS: tuple[type[JobConfig], ...] = (
    RetrainConfig,
    RecommendJobConfig,
    FoldInConfig,
    EvaluateConfig,
    TuneConfig,
)


class ModelConfig(WarmStartConfig, ServedModelConfig):
    """Saved models: the one that is served or judged, and the one that a fit starts from."""


class AllSettings(WithAudit, WithWarehouses, FittingConfig):
    """Every setting of every job: what a file that several jobs share may hold."""

    input: RetrainInputConfig = RetrainInputConfig()
    model: ModelConfig = ModelConfig()
    exposure_check: ExposureCheckConfig = ExposureCheckConfig()
    recommend: RecommendConfig = RecommendConfig()
    audit: RetrainAuditConfig = RetrainAuditConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tuning: TuningConfig = TuningConfig()
