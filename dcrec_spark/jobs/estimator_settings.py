"""The configuration of both stages as parameters of their estimators, for ratings as validation leaves them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from dcrec_spark.config import EngineConfig, ExposureConfig, OutcomeConfig
from dcrec_spark.settings.setting import in_section
from dcrec_spark.settings.tables import SECTIONS


def exposure_params(
    exposure: ExposureConfig, engine: EngineConfig, seed: int, columns: Sequence[str]
) -> dict[str, Any]:
    """Give the parameters of PoissonFactorization.

    Parameters
    ----------
    exposure, engine : the sections of the configuration.
    seed : what the start depends on, besides the ids.
    columns : names of the ratings' columns; a column ``count`` holds the exposure counts.
    """
    counts = "count" if "count" in columns else "rating"
    counted = None if exposure.kind == "binary" else counts
    return {**_common(engine, seed), **_params("exposure", exposure), "countCol": counted}


def outcome_params(outcome: OutcomeConfig, engine: EngineConfig, seed: int, columns: Sequence[str]) -> dict[str, Any]:
    """Give the parameters of DeconfoundedMF, without a model to start from and without stage 1.

    Parameters
    ----------
    outcome, engine : the sections of the configuration.
    seed : what the start depends on, besides the ids.
    columns : names of the ratings' columns; a column ``propensity`` is used where the adjustment is ipw.
    """
    weighs = outcome.adjustment == "ipw" and "propensity" in columns
    return {
        **_common(engine, seed),
        **_params("outcome", outcome),
        "propensityCol": "propensity" if weighs else None,
    }


def _common(engine: EngineConfig, seed: int) -> dict[str, Any]:
    return {"userCol": "user_id", "itemCol": "item_id", "seed": seed, **_params("engine", engine)}


def _params(name: str, section: BaseModel) -> dict[str, Any]:
    """Spell the settings of a section as the estimators do."""
    settings = (setting for setting in in_section(SECTIONS[name], name) if setting.is_param)
    return {setting.param: getattr(section, setting.name) for setting in settings}
