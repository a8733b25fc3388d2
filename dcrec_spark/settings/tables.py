"""Every setting of both stages and of the engine, declared once, in the order of the constructors.

The Params of the estimators and the configuration sections ``exposure``, ``outcome`` and ``engine`` come from these
tables. A test holds that the constructors' signatures agree with them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dcrec_spark.settings.domains import Choice, Column, Domain, Flag, Instance, Number

# Default precisions of the priors, with unit noise: constant, for factors and biases of both sides, and for gamma.
REG_PARAM, BIAS_REG, CONFOUNDER_REG = 12.0, 5.0, 100.0

# With a smaller shape exp(E[log .]) underflows, and the responsibilities lose their meaning.
SMALLEST_SHAPE = 0.01
# The K x K normal equations of one row take 128 MiB at this rank.
LARGEST_RANK = 4096
# A weight of this size is far beyond what helps, and sums over ratings are still far from the end of float64.
LARGEST_WEIGHT = 1e6
# A prior of this precision leaves nothing to the data.
LARGEST_PRECISION = 1e12

# The outcome models: name -> meaning. Registering a family of models adds its name.
OUTCOMES: dict[str, str] = {
    "weighted": "fitted to all pairs, a rating y has weight 1 + alpha * y",
    "probabilistic": "fitted to the rated pairs",
    "poisson": "Poisson factorization of all pairs, unrated ones count 0; its factors are posterior means",
}


def camel_case(name: str) -> str:
    """Spell ``reg_param`` as ``regParam``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True)
class Setting:
    """A setting of an estimator, of a configuration section, or of both.

    name : in configuration files, ``reg_param``. Estimators spell it :attr:`param`, ``regParam``.
    domain, default : its values, and the one that it has where none is given.
    doc : its meaning, in a phrase without a full stop. ``{other_setting}`` is spelled as its reader spells it.
    section : the configuration section that has it. Empty: only the estimators have it.
    concerns : setting -> the choices for which this one has an effect. Empty: always.
    of_model : whether a fitted model can be given another value.
    job_domain : the values that jobs take, if they take fewer.
    """

    name: str
    domain: Domain
    default: Any
    doc: str
    section: str = ""
    concerns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_model: bool = False
    job_domain: Domain | None = None

    @property
    def param(self) -> str:
        return camel_case(self.name)

    def explain(self, as_param: bool) -> str:
        """Explain its meaning, its choices, and where it has an effect, in one spelling of names."""

        def spell(name: str) -> str:
            return camel_case(name) if as_param else name

        text = re.sub(r"\{(\w+)\}", lambda name: spell(name[1]), self.doc)
        text = text if as_param else re.sub(r"\bNone\b", "null", text)
        where = [f"{spell(name)}={' or '.join(values)}" for name, values in self.concerns.items()]
        text += f" ({', '.join(where)})" if where else ""
        if not isinstance(self.domain, Choice):
            return text
        choices = [f"{name}: {meaning}" if meaning else name for name, meaning in self.domain.options.items()]
        return f"{text}. {'; '.join(choices)}"


def params(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Map the names of Params, ``regParam``, to their settings."""
    return {setting.param: setting for setting in settings}


def in_section(settings: Iterable[Setting], section: str) -> dict[str, Setting]:
    """Map the names in a configuration section to their settings."""
    return {setting.name: setting for setting in settings if setting.section == section}


# Outcomes with slopes, and those that are fitted to the rated pairs unless unrated ones are given a weight.
LEAST_SQUARES, OF_RATED_PAIRS = ("weighted", "probabilistic"), ("probabilistic",)
_LEAST_SQUARES = {"outcome": LEAST_SQUARES}
_POISSON = {"outcome": ("poisson",)}
_IPW = {"adjustment": ("ipw",)}
_DECONFOUNDED = {"adjustment": ("deconfounded",)}
_COUNT = Number(int, 1, 1_000_000)
_SHAPE, _RATE = Number(float, SMALLEST_SHAPE, 1e6), Number(float, 1e-6, 1e6)
_RANK, _PRECISION = Number(int, 1, LARGEST_RANK), Number(float, 0, LARGEST_PRECISION)

IDS = (
    Setting("user_col", Column(), "user", "column of user ids: integers or strings", of_model=True),
    Setting("item_col", Column(), "item", "column of item ids: integers or strings", of_model=True),
)
_SEED = Setting("seed", Number(int, -(2**63), 2**63 - 1), 0, "random seed of the start, hashed with each id")
# Without iterations a fit is its start. A job must not publish that.
_MAX_ITER = Setting("max_iter", Number(int, 0, 1_000_000), 300, "maximum number of iterations", job_domain=_COUNT)
_TOL = Setting("tol", Number(float, 0, 1), 1e-5, "a fit has converged when the objective changes by a smaller share")
_VALIDATION = (
    Setting(
        "validation_indicator_col",
        Column(optional=True),
        None,
        "boolean column, true for held-out rows; a fit stops when their loss stops falling, and keeps the best sweep",
    ),
    Setting("patience", _COUNT, 3, "sweeps without a better held-out loss before a fit stops"),
)
_INITIAL_MODEL = Setting(
    "initial_model",
    Instance("model", "a fitted model, or None"),
    None,
    "fitted model to start from: known ids at its factors, new ones from the seed; None: a cold start",
)

# Tables: a setting in two lines or three.
# fmt: off
ENGINE = (
    Setting("num_blocks", Number(int, 1, 100_000, optional=True), None,
            "number of blocks of users, and of items; None: from the cores and the number of ratings", "engine"),
    Setting("exchange",
            Choice({"auto": "local up to 2 million ratings, in local mode up to 200 million if memory has room for "
            "them; above, broadcast for a side with small factors, else blocks",
            "local": "in the driver's process, without the cluster", "broadcast": "from the driver to every worker",
            "blocks": "from block to block over the cluster"}), "auto",
            "where a fit is computed, and how factors reach the blocks that need them", "engine"),
    Setting("checkpoint_interval", _COUNT, 10, "iterations between two reliable checkpoints of the factors", "engine"),
    Setting("precision", Choice({"float32": "", "float64": "twice the memory, more work"}), "float32",
            "floating-point type of the factors", "engine"),
)

FIT = (_SEED, _MAX_ITER, _TOL, _INITIAL_MODEL, *_VALIDATION, *ENGINE)

EXPOSURE = (
    *IDS,
    Setting("count_col", Column(optional=True), None, "column of exposure counts; None: each pair counts once"),
    Setting("rank", _RANK, 5, "number of exposure factors", "exposure"),
    replace(_MAX_ITER, section="exposure"),
    replace(_TOL, section="exposure"),
    Setting("shape_prior", _SHAPE, 0.3, "shape of the Gamma prior of all factors"),
    Setting("rate_prior", _RATE, 0.3, "rate of the Gamma prior of all factors"),
    _SEED,
    Setting("exposure_col", Column(), "a_hat", "output column: the reconstructed exposure a_hat", of_model=True),
    *ENGINE,
    *_VALIDATION,
    _INITIAL_MODEL,
)

OUTCOME = (
    *IDS,
    Setting("rating_col", Column(), "rating", "column of ratings"),
    Setting("prediction_col", Column(), "prediction", "output column: the potential rating", of_model=True),
    Setting("cold_start_strategy", Choice({"nan": "NaN", "drop": "the row is dropped", "mean": "the mean rating"}),
            "nan", "prediction for unknown ids", of_model=True),
    _SEED,
    Setting("outcome", Choice(OUTCOMES), "probabilistic", "the rating model", "outcome"),
    Setting("adjustment", Choice({"deconfounded": "with the term gamma_u * a_hat_ui", "none": "without the confounder",
            "ipw": "without it, ratings weighted by inverse propensities"}), "deconfounded",
            "how confounding is adjusted for", "outcome"),
    Setting("confounder", Choice({"reconstruction": "a_hat alone, as in the paper",
            "factors": "a_hat, and the composition of exposures as covariates: each item has slopes on the users', "
            "each user on the items'"}), "factors",
            "what of the exposure model enters the rating model; for a fit to all pairs reconstruction by default",
            "outcome", {**_LEAST_SQUARES, **_DECONFOUNDED}),
    Setting("confounder_weight", Choice({"user": "a gamma for each user, as in the paper",
            "global": "one gamma for all users", "pooled": "one for all users, and each user's departure from it"}),
            "pooled", "weight gamma of the confounder; a Poisson outcome has user by default, and no pooled",
            "outcome", _DECONFOUNDED),
    Setting("confounder_link", Choice({"identity": "a_hat, as in the paper",
            "log": "log(a_hat + its mean), for an unobserved weight of 0"}), "log",
            "form in which a_hat enters the model; for a fit to all pairs identity by default", "outcome",
            {**_LEAST_SQUARES, **_DECONFOUNDED}),
    Setting("leave_one_out", Flag(), True, "whether a rated pair's own exposure is left out of its a_hat", "outcome",
            {**_LEAST_SQUARES, **_DECONFOUNDED}),
    Setting("rank", _RANK, 10, "number of preference factors", "outcome"),
    Setting("exposure_rank", _RANK, 5, "number of exposure factors if {exposure_model} is None"),
    Setting("alpha", Number(float, 0, LARGEST_WEIGHT), 1.0, "a rating y has weight 1 + alpha * y", "outcome",
            {"outcome": ("weighted",)}),
    Setting("unobserved_weight", Number(float, 0, LARGEST_WEIGHT, optional=True), None,
            "weight w0 of a pair without a rating; None: 0 for probabilistic, 1 for weighted and poisson", "outcome"),
    Setting("fit_biases", Flag(), True, "whether each user and each item has a bias, part of the preference",
            "outcome", _LEAST_SQUARES),
    Setting("fit_intercept", Flag(), True, "whether there is an intercept", "outcome"),
    Setting("reg_param", _PRECISION, REG_PARAM,
            "1 / prior variance of the factors of users and items, with unit noise", "outcome", _LEAST_SQUARES),
    Setting("bias_reg", _PRECISION, BIAS_REG, "1 / prior variance of the biases of users and items, with unit noise",
            "outcome", _LEAST_SQUARES),
    Setting("confounder_reg", _PRECISION, CONFOUNDER_REG,
            "1 / prior variance of gamma, with unit noise; if pooled, of the users' departures; and of slopes on "
            "covariates", "outcome", {**_LEAST_SQUARES, **_DECONFOUNDED}),
    Setting("reg_by_count", Flag(), False,
            "whether {reg_param} is multiplied by each row's number of ratings, as in MLlib's ALS; biases never are",
            "outcome", _LEAST_SQUARES),
    Setting("gamma_shape", _SHAPE, 0.3, "shape of the Gamma prior of all factors", concerns=_POISSON),
    Setting("gamma_rate", _RATE, 0.3, "rate of the Gamma prior of all factors", concerns=_POISSON),
    Setting("propensity_col", Column(optional=True), None,
            "column of propensities, in (0, 1]; None: as in the paper, a quarter for each step below 4", concerns=_IPW),
    Setting("weight_cap", Number(float, 1, 1e12, optional=True), None,
            "largest inverse propensity, before they are normalised to mean 1; None: no cap", concerns=_IPW),
    Setting("exposure_weight", Number(float, 0, 1), 0.0,
            "order of lists: 0 by potential rating, as in the paper; above, by (potential rating - user's baseline) "
            "* P(exposure)^{exposure_weight}, so that people also take up what they would like", of_model=True),
    Setting("exposure_model", Instance("exposure", "a PoissonFactorization, or a model that it fitted, or None"),
            None,
            "fitted PoissonFactorizationModel, or a PoissonFactorization to fit first; None: from {exposure_rank}, "
            "or like that of {initial_model}"),
    _INITIAL_MODEL,
    Setting("user_features", Instance("frame", "a DataFrame, or None"), None,
            "one row of numbers for each user, under {user_col}, on which each item has slopes; None: no features"),
    Setting("item_features", Instance("frame", "a DataFrame, or None"), None,
            "one row of numbers for each item, under {item_col}, on which each user has slopes; None: no features"),
    replace(_MAX_ITER, default=20, section="outcome"),
    replace(_TOL, default=1e-4, section="outcome"),
    *_VALIDATION,
    Setting("solver", Choice({"cholesky": "exactly, by its normal equations",
            "cg": "three steps of conjugate gradients from its last state, cheaper at high ranks"}), "cholesky",
            "how each row's least squares are solved in a sweep", concerns=_LEAST_SQUARES),
    *ENGINE,
)
# fmt: on
SECTIONS = {"exposure": EXPOSURE, "outcome": OUTCOME, "engine": ENGINE}

# Settings of the outcome for counts such as plays and clicks. ``run.preset`` names them in jobs.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "counts": {"outcome": "weighted", "alpha": 1.0, "reg_param": 10.0, "fit_biases": False}
}
