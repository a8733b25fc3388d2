"""Typed configuration of a run: what can be set, how it is read, how it is recorded.

``conf/base.yaml`` documents every setting with its unit, its choices and its default.
"""

from dcrec_spark.config.load import load_config
from dcrec_spark.config.record import config_hash, mask_secrets, resolved
from dcrec_spark.config.sections import (
    ColumnNames,
    EngineConfig,
    EvaluationConfig,
    ExposureConfig,
    InputConfig,
    ModelConfig,
    OutcomeConfig,
    OutputConfig,
    RecommendConfig,
    RunConfig,
    RunSection,
    SparkConfig,
    TuningConfig,
    ValidationConfig,
)
from dcrec_spark.config.space import Range

__all__ = [
    "ColumnNames",
    "EngineConfig",
    "EvaluationConfig",
    "ExposureConfig",
    "InputConfig",
    "ModelConfig",
    "OutcomeConfig",
    "OutputConfig",
    "Range",
    "RecommendConfig",
    "RunConfig",
    "RunSection",
    "SparkConfig",
    "TuningConfig",
    "ValidationConfig",
    "config_hash",
    "load_config",
    "mask_secrets",
    "resolved",
]
