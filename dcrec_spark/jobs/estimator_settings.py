"""The settings of both stages as parameters of their estimators, for ratings as validation leaves them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from dcrec_spark.config import EngineConfig, ExposureConfig, OutcomeConfig


def exposure_params(
    exposure: ExposureConfig, engine: EngineConfig, seed: int, columns: Sequence[str]
) -> dict[str, Any]:
    """Of PoissonFactorization. columns : of the ratings."""
    counts = "count" if "count" in columns else "rating"
    counted = None if exposure.kind == "binary" else counts
    return {**_common(engine, seed), **_params(exposure, leave_out={"kind"}), "countCol": counted}


def outcome_params(outcome: OutcomeConfig, engine: EngineConfig, seed: int, columns: Sequence[str]) -> dict[str, Any]:
    """Of DeconfoundedMF, without a model to start from and without stage 1. columns : of the ratings."""
    weighs = outcome.adjustment == "ipw" and "propensity" in columns
    return {**_common(engine, seed), **_params(outcome), "propensityCol": "propensity" if weighs else None}


def _common(engine: EngineConfig, seed: int) -> dict[str, Any]:
    return {"userCol": "user_id", "itemCol": "item_id", "seed": seed, **_params(engine)}


def _params(section: BaseModel, leave_out: set[str] | None = None) -> dict[str, Any]:
    """user_reg -> userReg."""
    return {to_camel(name): value for name, value in section.model_dump(exclude=leave_out).items()}
