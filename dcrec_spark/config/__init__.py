"""Typed configuration of the jobs.

Each job has a type of its own, such as ``RetrainConfig``, made of sections that jobs share. ``conf/base.yaml``
documents every setting of every job with its choices and its default.
"""

from dcrec_spark.errors import require_extra

require_extra("jobs")

from dcrec_spark.config.jobs import (
    JOB_CONFIGS,
    AllSettings,
    EvaluateConfig,
    FoldInConfig,
    RecommendJobConfig,
    RetrainConfig,
    TuneConfig,
)
from dcrec_spark.config.load import load_config
from dcrec_spark.config.record import config_hash, resolved
from dcrec_spark.config.secrets import forget_secrets, mask_known, mask_secrets, masked_all
from dcrec_spark.config.sections import (
    AuditConfig,
    ColumnNames,
    InputConfig,
    JobConfig,
    ListsConfig,
    PlacesConfig,
    RankingConfig,
    ReadingConfig,
    ServingConfig,
    ValidationConfig,
    WarehousesConfig,
)
from dcrec_spark.config.space import Range
from dcrec_spark.config.stages import EngineConfig, ExposureConfig, OutcomeConfig

__all__ = [
    "JOB_CONFIGS",
    "AllSettings",
    "AuditConfig",
    "ColumnNames",
    "EngineConfig",
    "EvaluateConfig",
    "ExposureConfig",
    "FoldInConfig",
    "InputConfig",
    "JobConfig",
    "ListsConfig",
    "OutcomeConfig",
    "PlacesConfig",
    "Range",
    "RankingConfig",
    "ReadingConfig",
    "RecommendJobConfig",
    "RetrainConfig",
    "ServingConfig",
    "TuneConfig",
    "ValidationConfig",
    "WarehousesConfig",
    "config_hash",
    "forget_secrets",
    "load_config",
    "mask_known",
    "mask_secrets",
    "masked_all",
    "resolved",
]
