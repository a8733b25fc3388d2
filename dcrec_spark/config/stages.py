"""Configuration sections of both stages, and of the engine that fits them.

Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited.
"""

from typing import Annotated, Literal

from pydantic import Field

from dcrec_spark.config.section import Section
from dcrec_spark.config.types import OutcomeName, Real, Whole


class ExposureConfig(Section):
    """Stage 1, Poisson factorization of who was exposed to what."""

    kind: Literal["binary", "count"] = Field(
        default="binary",
        description="what an exposure counts. binary: rated or not; count: input.columns.count, or the rating where "
        "validation.kind is counts",
    )
    rank: Annotated[Whole, Field(ge=1, le=4096)] = Field(
        default=10,
        description="number of exposure factors",
    )
    max_iter: Annotated[Whole, Field(ge=1, le=1000000)] = Field(
        default=300,
        description="iterations at most",
    )
    tol: Annotated[Real, Field(ge=0, le=1)] = Field(
        default=1e-05,
        description="relative change of the objective below which a fit ends",
    )
    acceleration: bool = Field(
        default=True,
        description="whether steps go beyond each side's optimum while the objective improves",
    )
    user_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=0.3,
        description="shape of the Gamma prior of the users' factors",
    )
    user_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=0.3,
        description="rate of the Gamma prior of the users' factors",
    )
    item_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=0.3,
        description="shape of the Gamma prior of the items' factors",
    )
    item_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=0.3,
        description="rate of the Gamma prior of the items' factors",
    )
    restarts: Annotated[Whole, Field(ge=1, le=1000)] = Field(
        default=1,
        description="fits from so many seeds, of which the best is taken; those that go astray are left out",
    )


class OutcomeConfig(Section):
    """Stage 2, the rating model that conditions on the substitute confounder."""

    outcome: OutcomeName = Field(
        default="weighted",
        description="the outcome model, and the pairs that it is fitted to. weighted: over all pairs, the observed "
        "ones weighing 1 + alpha * rating; probabilistic: over the observed pairs; poisson: over all "
        "pairs, an unrated one counts 0; its factors are posterior means",
    )
    adjustment: Literal["deconfounded", "none", "ipw"] = Field(
        default="deconfounded",
        description="what is done about confounding. deconfounded: with the term gamma_u * a_hat_ui; none: the "
        "classical model; ipw: the classical model, the observed ratings weighted by inverse propensities",
    )
    confounder_weight: Literal["user", "global", "pooled"] = Field(
        default="user",
        description="whose weight of the confounder is fitted (adjustment=deconfounded). user: each user has a gamma; "
        "global: one gamma for all; pooled: one for all, and each user's departure from it",
    )
    rank: Annotated[Whole, Field(ge=1, le=4096)] = Field(
        default=10,
        description="number of preference factors",
    )
    alpha: Annotated[Real, Field(ge=0, le=1000000.0)] = Field(
        default=40.0,
        description="how much an observed rating y weighs, 1 + alpha y; 40 suits counts, about 1 suits ratings of 1 "
        "to 5 (outcome=weighted)",
    )
    unobserved_weight: Annotated[Real, Field(ge=0, le=1000000.0)] | None = Field(
        default=None,
        description="weight w0 of a pair without a rating; null: 1 where such pairs take part in the model, else 0",
    )
    user_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of the users' factors, with unit noise (outcome=weighted or probabilistic)",
    )
    item_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of the items' factors, with unit noise (outcome=weighted or probabilistic)",
    )
    confounder_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of gamma, with unit noise (outcome=weighted or probabilistic)",
    )
    intercept_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of the intercept, with unit noise (outcome=weighted or probabilistic)",
    )
    global_confounder_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] | None = Field(
        default=None,
        description="1 / prior variance of the gamma of all users; null: confounder_reg where it is their only one, "
        "else 0 (outcome=weighted or probabilistic, adjustment=deconfounded, confounder_weight=global or "
        "pooled)",
    )
    confounder_link: Literal["identity", "sqrt", "log"] = Field(
        default="identity",
        description="what is made of a_hat; all but identity need unobserved_weight=0 (outcome=weighted or "
        "probabilistic, adjustment=deconfounded). identity: as it is; sqrt: its square root; log: its "
        "logarithm, an offset added",
    )
    confounder_link_offset: Annotated[Real, Field(ge=1e-09, le=1000000.0)] | None = Field(
        default=None,
        description="what is added to a_hat before its logarithm is taken; null: the mean of all pairs "
        "(outcome=weighted or probabilistic, adjustment=deconfounded, confounder_link=log)",
    )
    standardize_confounder: bool = Field(
        default=False,
        description="whether the confounder is given mean 0 and spread 1 (outcome=weighted or probabilistic, "
        "adjustment=deconfounded)",
    )
    leave_one_out: bool = Field(
        default=False,
        description="whether a rated pair's own exposure is left out of its a_hat (outcome=weighted or probabilistic, "
        "adjustment=deconfounded)",
    )
    confounder_variance: bool = Field(
        default=False,
        description="whether the variance of a_hat counts, and shrinks gamma (outcome=weighted or probabilistic, "
        "adjustment=deconfounded)",
    )
    estimate_confounder_reg: bool = Field(
        default=False,
        description="whether the gammas' variance is estimated (outcome=weighted or probabilistic, "
        "adjustment=deconfounded)",
    )
    fit_biases: bool = Field(
        default=False,
        description="whether each user and each item has a bias, part of the preference (outcome=weighted or "
        "probabilistic)",
    )
    user_bias_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of the users' biases, with unit noise (outcome=weighted or probabilistic)",
    )
    item_bias_reg: Annotated[Real, Field(ge=0, le=1000000000000.0)] = Field(
        default=1.0,
        description="1 / prior variance of the items' biases, with unit noise (outcome=weighted or probabilistic)",
    )
    reg_by_count: bool = Field(
        default=False,
        description="whether each row's number of ratings multiplies its regularisers (outcome=weighted or "
        "probabilistic)",
    )
    user_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=0.3,
        description="shape of the Gamma prior of the users' factors (outcome=poisson)",
    )
    user_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=0.3,
        description="rate of the Gamma prior of the users' factors (outcome=poisson)",
    )
    item_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=0.3,
        description="shape of the Gamma prior of the items' factors (outcome=poisson)",
    )
    item_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=0.3,
        description="rate of the Gamma prior of the items' factors (outcome=poisson)",
    )
    confounder_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=1.0,
        description="shape of the Gamma prior of gamma (outcome=poisson)",
    )
    confounder_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=1.0,
        description="rate of the Gamma prior of gamma (outcome=poisson)",
    )
    intercept_shape_prior: Annotated[Real, Field(ge=0.01, le=1000000.0)] = Field(
        default=0.3,
        description="shape of the Gamma prior of the intercept (outcome=poisson)",
    )
    intercept_rate_prior: Annotated[Real, Field(ge=1e-06, le=1000000.0)] = Field(
        default=0.3,
        description="rate of the Gamma prior of the intercept (outcome=poisson)",
    )
    fit_intercept: bool = Field(
        default=True,
        description="whether there is an intercept",
    )
    propensity_source: Literal["ratings", "exposure"] = Field(
        default="ratings",
        description="what propensities come from, where there is no column of them (adjustment=ipw). ratings: the "
        "higher the rating, the more likely it is seen; exposure: 1 - exp(-a_hat), by an exposure model "
        "without the pair's own vote",
    )
    propensity_mean: Annotated[Real, Field(ge=1e-09, le=1)] = Field(
        default=0.05,
        description="mean propensity of all pairs, where propensities come from the ratings (adjustment=ipw)",
    )
    propensity_decay: Annotated[Real, Field(ge=0.001, le=1)] = Field(
        default=0.25,
        description="factor of the propensity for each rating step below propensity_pivot (adjustment=ipw)",
    )
    propensity_pivot: Annotated[Real, Field(ge=-1000000.0, le=1000000.0)] = Field(
        default=4.0,
        description="rating from which on the propensity is largest (adjustment=ipw)",
    )
    weight_cap: Annotated[Real, Field(ge=1, le=1000000000000.0)] | None = Field(
        default=None,
        description="largest inverse propensity, before they are normalised to mean 1; null: no cap (adjustment=ipw)",
    )
    max_iter: Annotated[Whole, Field(ge=1, le=1000000)] = Field(
        default=20,
        description="iterations at most",
    )
    tol: Annotated[Real, Field(ge=0, le=1)] = Field(
        default=0.0001,
        description="relative change of the objective below which a fit ends",
    )
    acceleration: bool = Field(
        default=False,
        description="whether steps go beyond each side's optimum while the objective improves",
    )
    solver: Literal["cholesky", "cg"] = Field(
        default="cholesky",
        description="how each row's least squares are solved in a sweep (outcome=weighted or probabilistic). "
        "cholesky: to its end, by its normal equations; cg: some steps of conjugate gradients from where "
        "it is, cheaper at high ranks",
    )
    cg_steps: Annotated[Whole, Field(ge=1, le=4096)] = Field(
        default=3,
        description="steps of conjugate gradients that a row takes in a sweep (outcome=weighted or probabilistic, "
        "solver=cg)",
    )
    restarts: Annotated[Whole, Field(ge=1, le=1000)] = Field(
        default=1,
        description="fits from so many seeds, of which the best is taken; those that go astray are left out",
    )


class EngineConfig(Section):
    """How the work is cut up: speed and memory only, the answer is the same beyond rounding."""

    num_user_blocks: Annotated[Whole, Field(ge=1, le=100000)] | None = Field(
        default=None,
        description="blocks of users; null: from the cores and the number of ratings",
    )
    num_item_blocks: Annotated[Whole, Field(ge=1, le=100000)] | None = Field(
        default=None,
        description="blocks of items; null: from the cores and the number of ratings",
    )
    exchange: Literal["auto", "local", "broadcast", "blocks"] = Field(
        default="auto",
        description="where a fit is computed, and how factors reach the blocks that need them. auto: local up to 2 "
        "million ratings, in local mode up to 200 million if memory has room for them; above, broadcast "
        "for a side with small factors, else blocks; local: in the driver's process, without the cluster; "
        "broadcast: from the driver to every worker; blocks: from block to block over the cluster",
    )
    checkpoint_interval: Annotated[Whole, Field(ge=1, le=1000000)] = Field(
        default=10,
        description="iterations from one reliable checkpoint of the factors to the next",
    )
    precision: Literal["float64", "float32"] = Field(
        default="float64",
        description="numbers that the factors are held in. float64; float32: half the memory, less work",
    )
