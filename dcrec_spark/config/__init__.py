"""Typed configuration of a job: what can be set, how it is read, how it is recorded.

Each job has a type of its own, ``RetrainConfig`` and so on, made of sections that jobs share. ``conf/base.yaml``
documents every setting of every job with its choices and its default.
"""

from dcrec_spark.errors import require_extra

require_extra("jobs")

from dcrec_spark.config.audit import AuditConfig, RetrainAuditConfig, WithAudit
from dcrec_spark.config.evaluate import EvaluateConfig, EvaluationConfig
from dcrec_spark.config.exposure_check import ExposureCheckConfig
from dcrec_spark.config.jobs import JOB_CONFIGS, AllSettings, ModelConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.config.record import config_hash, resolved
from dcrec_spark.config.retrain import RetrainConfig, WarmStartConfig
from dcrec_spark.config.secrets import forget_secrets, mask_known, mask_secrets, masked_all
from dcrec_spark.config.serve import FoldInConfig, RecommendConfig, RecommendJobConfig
from dcrec_spark.config.shared import (
    ColumnNames,
    FittingConfig,
    InputConfig,
    JobConfig,
    ListLengthConfig,
    ListsConfig,
    MetricsConfig,
    OutputConfig,
    RankingConfig,
    ReadingConfig,
    RunSection,
    ServedModelConfig,
    ServingConfig,
    SparkConfig,
    ValidationConfig,
)
from dcrec_spark.config.space import Range
from dcrec_spark.config.stages import EngineConfig, ExposureConfig, OutcomeConfig
from dcrec_spark.config.tune import TuneConfig, TuningConfig
from dcrec_spark.config.warehouses import WarehousesConfig, WithWarehouses

__all__ = [
    "JOB_CONFIGS",
    "AllSettings",
    "AuditConfig",
    "ColumnNames",
    "EngineConfig",
    "EvaluateConfig",
    "EvaluationConfig",
    "ExposureCheckConfig",
    "ExposureConfig",
    "FittingConfig",
    "FoldInConfig",
    "InputConfig",
    "JobConfig",
    "ListLengthConfig",
    "ListsConfig",
    "MetricsConfig",
    "ModelConfig",
    "OutcomeConfig",
    "OutputConfig",
    "Range",
    "RankingConfig",
    "ReadingConfig",
    "RecommendConfig",
    "RecommendJobConfig",
    "RetrainAuditConfig",
    "RetrainConfig",
    "RunSection",
    "ServedModelConfig",
    "ServingConfig",
    "SparkConfig",
    "TuneConfig",
    "TuningConfig",
    "ValidationConfig",
    "WarehousesConfig",
    "WarmStartConfig",
    "WithAudit",
    "WithWarehouses",
    "config_hash",
    "forget_secrets",
    "load_config",
    "mask_known",
    "mask_secrets",
    "masked_all",
    "resolved",
]
