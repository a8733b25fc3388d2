"""Configuration sections of both stages and of the engine, whose values and texts come from the tables of settings."""

from typing import Any, Literal

from dcrec_spark.config.types import OutcomeName, Real, Section, Whole, setting
from dcrec_spark.settings.domains import Number
from dcrec_spark.settings.tables import SECTIONS, in_section


def _of(section: str, name: str) -> Any:
    """Return the field of a setting: its default, its limits and its meaning."""
    declared = in_section(SECTIONS[section], section)[name]
    domain = declared.job_domain or declared.domain
    limits: dict[str, Any] = {"ge": domain.low, "le": domain.high} if isinstance(domain, Number) else {}
    return setting(declared.default, declared.explain(as_param=False), **limits)


class ExposureConfig(Section):
    """Stage 1, Poisson factorization of the exposures."""

    rank: Whole = _of("exposure", "rank")
    max_iter: Whole = _of("exposure", "max_iter")
    tol: Real = _of("exposure", "tol")


class OutcomeConfig(Section):
    """Stage 2, the rating model with the substitute confounder."""

    outcome: OutcomeName = _of("outcome", "outcome")
    adjustment: Literal["deconfounded", "none", "ipw"] = _of("outcome", "adjustment")
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
    weight_cap: Real | None = _of("outcome", "weight_cap")
    max_iter: Whole = _of("outcome", "max_iter")
    tol: Real = _of("outcome", "tol")
    solver: Literal["cholesky", "cg"] = _of("outcome", "solver")


class EngineConfig(Section):
    """Distribution of the work: it decides speed and memory. Results agree beyond rounding."""

    num_blocks: Whole | None = _of("engine", "num_blocks")
    exchange: Literal["auto", "local", "broadcast", "blocks"] = _of("engine", "exchange")
    checkpoint_interval: Whole = _of("engine", "checkpoint_interval")
    precision: Literal["float64", "float32"] = _of("engine", "precision")
