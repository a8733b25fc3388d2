"""Configuration sections of both stages and of the engine by the tables of settings, and their Params."""

from collections.abc import Sequence
from typing import Any, Literal

from dcrec_spark.config.types import OutcomeName, Real, Section, Whole, setting
from dcrec_spark.settings.domains import Number
from dcrec_spark.settings.tables import SECTIONS, in_section


def _of(section: str, name: str) -> Any:
    declared = in_section(SECTIONS[section], section)[name]
    domain = declared.job_domain or declared.domain
    limits: dict[str, Any] = {"ge": domain.low, "le": domain.high} if isinstance(domain, Number) else {}
    return setting(declared.explain(as_param=False), declared.default, **limits)


class ExposureConfig(Section):
    """Stage 1, Poisson factorization of the exposures."""

    rank: Whole = _of("exposure", "rank")
    max_iter: Whole = _of("exposure", "max_iter")
    tol: Real = _of("exposure", "tol")


class OutcomeConfig(Section):
    """Stage 2, the rating model with the substitute confounder."""

    outcome: OutcomeName = _of("outcome", "outcome")
    adjustment: Literal["deconfounded", "none", "ipw"] = _of("outcome", "adjustment")
    confounder: Literal["reconstruction", "factors"] = _of("outcome", "confounder")
    confounder_weight: Literal["user", "global", "pooled"] = _of("outcome", "confounder_weight")
    confounder_link: Literal["identity", "log"] = _of("outcome", "confounder_link")
    leave_one_out: bool = _of("outcome", "leave_one_out")
    rank: Whole = _of("outcome", "rank")
    alpha: Real = _of("outcome", "alpha")
    unobserved_weight: Real | None = _of("outcome", "unobserved_weight")
    fit_biases: bool = _of("outcome", "fit_biases")
    fit_intercept: bool = _of("outcome", "fit_intercept")
    reg_param: Real = _of("outcome", "reg_param")
    bias_reg: Real = _of("outcome", "bias_reg")
    confounder_reg: Real = _of("outcome", "confounder_reg")
    reg_by_count: bool = _of("outcome", "reg_by_count")
    max_iter: Whole = _of("outcome", "max_iter")
    tol: Real = _of("outcome", "tol")


class EngineConfig(Section):
    """Distribution of the work: it decides speed and memory. Results agree beyond rounding."""

    num_blocks: Whole | None = _of("engine", "num_blocks")
    exchange: Literal["auto", "local", "broadcast", "blocks"] = _of("engine", "exchange")
    checkpoint_interval: Whole = _of("engine", "checkpoint_interval")
    precision: Literal["float32", "float64"] = _of("engine", "precision")


def exposure_params(
    exposure: ExposureConfig, engine: EngineConfig, seed: int, columns: Sequence[str]
) -> dict[str, Any]:
    """Return the Params of PoissonFactorization. A column ``count`` of the ratings holds the exposure counts."""
    counts = "count" if "count" in columns else None
    return {**_params("exposure", exposure, engine, seed), "countCol": counts}


def outcome_params(outcome: OutcomeConfig, engine: EngineConfig, seed: int, columns: Sequence[str]) -> dict[str, Any]:
    """Return the Params of DeconfoundedMF, without initialModel and exposureModel.

    Settings at their defaults are left out, so that an outcome model that has no use for one may do without.

    columns : names of the ratings' columns. A column ``propensity`` is used by adjustment=ipw.
    """
    weighs = outcome.adjustment == "ipw" and "propensity" in columns
    given = {"propensityCol": "propensity"} if weighs else {}
    return {**_params("outcome", outcome, engine, seed), **given}


def _params(name: str, section: Section, engine: EngineConfig, seed: int) -> dict[str, Any]:
    """Map the settings of a section and of the engine that are not at their defaults to the names of Params."""
    params: dict[str, Any] = {"userCol": "user_id", "itemCol": "item_id", "seed": seed}
    for place, given in (("engine", engine), (name, section)):
        values = [(one, getattr(given, one.name)) for one in in_section(SECTIONS[place], place).values()]
        params |= {one.param: value for one, value in values if value != one.default}
    return params
