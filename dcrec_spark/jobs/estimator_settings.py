"""Configuration of both stages as Params of their estimators, for ratings in the form of ``validate``."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from dcrec_spark.config import EngineConfig, ExposureConfig, OutcomeConfig
from dcrec_spark.settings.tables import SECTIONS, in_section


def exposure_params(
    exposure: ExposureConfig, engine: EngineConfig, seed: int, columns: Sequence[str]
) -> dict[str, Any]:
    """Return the Params of PoissonFactorization.

    Parameters
    ----------
    exposure, engine : sections of the configuration. seed : random seed.
    columns : names of the ratings' columns. A column ``count`` holds the exposure counts.
    """
    counts = "count" if "count" in columns else None
    return {**_common(engine, seed), **_params("exposure", exposure), "countCol": counts}


def outcome_params(outcome: OutcomeConfig, engine: EngineConfig, seed: int, columns: Sequence[str]) -> dict[str, Any]:
    """Return the Params of DeconfoundedMF, without initialModel and exposureModel.

    Settings at their defaults are left out, so that an outcome model that has no use for one may do without.

    Parameters
    ----------
    outcome, engine : sections of the configuration. seed : random seed.
    columns : names of the ratings' columns. A column ``propensity`` is used by adjustment=ipw.
    """
    weighs = outcome.adjustment == "ipw" and "propensity" in columns
    given = {"propensityCol": "propensity"} if weighs else {}
    return {**_common(engine, seed), **_params("outcome", outcome), **given}


def _common(engine: EngineConfig, seed: int) -> dict[str, Any]:
    return {"userCol": "user_id", "itemCol": "item_id", "seed": seed, **_params("engine", engine)}


def _params(name: str, section: BaseModel) -> dict[str, Any]:
    """Map the settings of a section that are not at their defaults to the names of Params."""
    settings = in_section(SECTIONS[name], name).values()
    values = [(setting, getattr(section, setting.name)) for setting in settings]
    return {setting.param: value for setting, value in values if value != setting.default}
