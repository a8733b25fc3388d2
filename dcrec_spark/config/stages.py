"""Settings of both stages and of the engine that fits them."""

from typing import Literal

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import AtLeastOne, NonNegativeReal, Positive, PositiveReal, Real, SomeShare


class ExposureConfig(Section):
    """Stage 1, Poisson factorization of who was exposed to what."""

    kind: Literal["binary", "count"] = "binary"
    rank: Positive = 10
    max_iter: Positive = 100
    tol: NonNegativeReal = 1e-5
    user_shape_prior: PositiveReal = 0.3
    user_rate_prior: PositiveReal = 0.3
    item_shape_prior: PositiveReal = 0.3
    item_rate_prior: PositiveReal = 0.3
    restarts: Positive = 1


class OutcomeConfig(Section):
    """Stage 2, the rating model that conditions on the substitute confounder."""

    outcome: Literal["weighted", "probabilistic", "poisson"] = "weighted"
    adjustment: Literal["deconfounded", "none", "ipw"] = "deconfounded"
    confounder_weight: Literal["user", "global"] = "user"
    rank: Positive = 10
    alpha: NonNegativeReal = 40.0
    unobserved_weight: NonNegativeReal | None = None
    user_reg: NonNegativeReal = 1.0
    item_reg: NonNegativeReal = 1.0
    confounder_reg: NonNegativeReal = 1.0
    intercept_reg: NonNegativeReal = 1.0
    fit_intercept: bool = True
    user_shape_prior: PositiveReal = 0.3
    user_rate_prior: PositiveReal = 0.3
    item_shape_prior: PositiveReal = 0.3
    item_rate_prior: PositiveReal = 0.3
    confounder_shape_prior: PositiveReal = 1.0
    confounder_rate_prior: PositiveReal = 1.0
    intercept_shape_prior: PositiveReal = 0.3
    intercept_rate_prior: PositiveReal = 0.3
    propensity_mean: SomeShare = 0.05
    propensity_decay: SomeShare = 0.25
    propensity_pivot: Real = 4.0
    weight_cap: AtLeastOne | None = None
    max_iter: Positive = 20
    tol: NonNegativeReal = 1e-4
    restarts: Positive = 1


class EngineConfig(Section):
    """How the work is cut up; changes speed and memory, never the answer beyond rounding."""

    num_user_blocks: Positive | None = None
    num_item_blocks: Positive | None = None
    exchange: Literal["auto", "broadcast", "blocks"] = "auto"
    checkpoint_interval: Positive = 10
    precision: Literal["float64", "float32"] = "float64"
