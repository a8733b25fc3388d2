"""Every setting of both stages and of the engine, declared once, in the order of the constructors.

From these tables come the Params of the estimators with their validators, setters and getters, the configuration
sections ``exposure``, ``outcome`` and ``engine``, ``conf/base.yaml`` and the reference of all settings; that the
constructors' signatures agree with them, a test holds. After a change, ``python -m dcrec_spark.settings.generate``
writes anew what is generated.
"""

from dcrec_spark.settings.kinds import Choice, Column, Flag, Instance, Number
from dcrec_spark.settings.setting import Fixed, Setting

# With a smaller shape exp(E[log .]) underflows, and the responsibilities lose their meaning.
SMALLEST_SHAPE = 0.01
# The K x K normal equations of one row take 128 MiB at this rank.
LARGEST_RANK = 4096
# A weight of this size is far beyond what helps, and sums over ratings are still far from the end of float64.
LARGEST_WEIGHT = 1e6
# A prior of this precision leaves nothing to the data.
LARGEST_PRECISION = 1e12

_POSITIVE_COUNT = Number(int, 1, 1_000_000)
_SHAPE = Number(float, SMALLEST_SHAPE, 1e6)
_RATE = Number(float, 1e-6, 1e6)
_PRECISION = Number(float, 0, LARGEST_PRECISION)
_WEIGHT = Number(float, 0, LARGEST_WEIGHT)

# The outcome models: name -> what it stands for. Registering a family of models adds its name.
OUTCOMES: dict[str, str] = {
    "weighted": "over all pairs, the observed ones weighing 1 + alpha * rating",
    "probabilistic": "over the observed pairs",
    "poisson": "over all pairs, an unrated one counts 0; its factors are posterior means",
}
_GAUSSIAN = {"outcome": ("weighted", "probabilistic")}
_POISSON = {"outcome": ("poisson",)}
_IPW = {"adjustment": ("ipw",)}
_DECONFOUNDED = {"adjustment": ("deconfounded",)}

IDS = (
    Setting("user_col", Column(), "user", "column of user ids: integers or strings", of_model=True),
    Setting("item_col", Column(), "item", "column of item ids: integers or strings", of_model=True),
)

RANK = Setting("rank", Number(int, 1, LARGEST_RANK), 10, "number of factors", "factors")
# Without iterations a fit is its start: of use to look at, not to be published by a job.
MAX_ITER = Setting(
    "max_iter", Number(int, 0, 1_000_000), 100, "iterations at most", "iterations", job_kind=_POSITIVE_COUNT
)
TOL = Setting(
    "tol",
    Number(float, 0, 1),
    1e-5,
    "relative change of the objective below which a fit ends",
    "share of the objective",
)
ACCELERATION = Setting(
    "acceleration", Flag(), True, "whether steps go beyond each side's optimum while the objective improves"
)
SEED = Setting("seed", Number(int, -(2**63), 2**63 - 1), 0, "what the start depends on, besides the ids")
RESTARTS = Setting(
    "restarts",
    Number(int, 1, 1000),
    1,
    "fits from so many seeds, of which the best is taken; those that go astray are left out",
    "fits",
)
VALIDATION = (
    Setting(
        "validation_indicator_col",
        Column(optional=True),
        None,
        "boolean column, true for held-out rows; a fit ends when their loss stops falling and keeps the best sweep",
    ),
    Setting("patience", _POSITIVE_COUNT, 3, "sweeps without a better held-out loss before a fit ends", "sweeps"),
)
INITIAL_MODEL = Setting(
    "initial_model",
    Instance("model", "a fitted model, or None"),
    None,
    "fitted model to start from: known ids at its factors, new ones from the seed; None: a cold start",
)


def _gamma_prior(of: str, shape: float, rate: float, whose: str) -> tuple[Setting, Setting]:
    """Shape and rate (never scale) of a Gamma prior."""
    return (
        Setting(f"{of}_shape_prior", _SHAPE, shape, f"shape of the Gamma prior of {whose}"),
        Setting(f"{of}_rate_prior", _RATE, rate, f"rate of the Gamma prior of {whose}"),
    )


GAMMA_PRIORS = (
    *_gamma_prior("user", 0.3, 0.3, "the users' factors"),
    *_gamma_prior("item", 0.3, 0.3, "the items' factors"),
)

ENGINE: tuple[Setting, ...] = (
    Setting(
        "num_user_blocks",
        Number(int, 1, 100_000, optional=True),
        None,
        "blocks of users; None: from the cores and the number of ratings",
        "blocks",
        section="engine",
    ),
    Setting(
        "num_item_blocks",
        Number(int, 1, 100_000, optional=True),
        None,
        "blocks of items; None: from the cores and the number of ratings",
        "blocks",
        section="engine",
    ),
    Setting(
        "exchange",
        Choice(
            {
                "auto": "local up to 2 million ratings, in local mode up to 200 million if memory has room for them; "
                "above, broadcast for a side with small factors, else blocks",
                "local": "in the driver's process, without the cluster",
                "broadcast": "from the driver to every worker",
                "blocks": "from block to block over the cluster",
            }
        ),
        "auto",
        "where a fit is computed, and how factors reach the blocks that need them",
        section="engine",
    ),
    Setting(
        "checkpoint_interval",
        _POSITIVE_COUNT,
        10,
        "iterations from one reliable checkpoint of the factors to the next",
        "iterations",
        section="engine",
    ),
    Setting(
        "precision",
        Choice({"float64": "", "float32": "half the memory, less work"}),
        "float64",
        "numbers that the factors are held in",
        section="engine",
    ),
)

EXPOSURE: tuple[Setting, ...] = (
    Setting(
        "kind",
        Choice(
            {
                "binary": "rated or not",
                "count": "input.columns.count, or the rating where validation.kind is counts",
            }
        ),
        "binary",
        "what an exposure counts",
        is_param=False,
        section="exposure",
    ),
    *IDS,
    Setting("count_col", Column(optional=True), None, "column of exposure counts; None: each pair counts once"),
    RANK.having(doc="number of exposure factors", section="exposure"),
    MAX_ITER.having(default=300, section="exposure"),
    TOL.having(section="exposure"),
    ACCELERATION.having(section="exposure"),
    *(prior.having(section="exposure") for prior in GAMMA_PRIORS),
    SEED,
    Setting("exposure_col", Column(), "a_hat", "output column: the reconstructed exposure a_hat", of_model=True),
    *ENGINE,
    *VALIDATION,
    RESTARTS.having(section="exposure"),
    INITIAL_MODEL,
)

OUTCOME: tuple[Setting, ...] = (
    *IDS,
    Setting("rating_col", Column(), "rating", "column of ratings"),
    Setting(
        "outcome",
        Choice(OUTCOMES),
        "weighted",
        "the outcome model, and the pairs that it is fitted to",
        section="outcome",
    ),
    Setting(
        "adjustment",
        Choice(
            {
                "deconfounded": "with the term gamma_u * a_hat_ui",
                "none": "the classical model",
                "ipw": "the classical model, the observed ratings weighted by inverse propensities",
            }
        ),
        "deconfounded",
        "what is done about confounding",
        section="outcome",
    ),
    Setting(
        "confounder_weight",
        Choice(
            {
                "user": "each user has a gamma",
                "global": "one gamma for all",
                "pooled": "one for all, and each user's departure from it",
            }
        ),
        "user",
        "whose weight of the confounder is fitted",
        concerns=_DECONFOUNDED,
        fixed={"poisson": Fixed("global", "which has no departures from a common gamma")},
        section="outcome",
    ),
    RANK.having(doc="number of preference factors", section="outcome"),
    Setting(
        "exposure_rank",
        Number(int, 1, LARGEST_RANK),
        10,
        "number of exposure factors, where {exposure_model} is None",
        "factors",
    ),
    Setting(
        "alpha",
        _WEIGHT,
        40.0,
        "how much an observed rating y weighs, 1 + alpha y; 40 suits counts, about 1 suits ratings of 1 to 5",
        "weight per rating",
        concerns={"outcome": ("weighted",)},
        section="outcome",
    ),
    Setting(
        "unobserved_weight",
        Number(float, 0, LARGEST_WEIGHT, optional=True),
        None,
        "weight w0 of a pair without a rating; None: 1 where such pairs take part in the model, else 0",
        "weight",
        section="outcome",
    ),
    *(
        Setting(
            f"{of}_reg",
            _PRECISION,
            1.0,
            f"1 / prior variance of {what}, with unit noise",
            "",
            "outcome",
            True,
            _GAUSSIAN,
        )
        for of, what in {
            "user": "the users' factors",
            "item": "the items' factors",
            "confounder": "gamma",
            "intercept": "the intercept",
        }.items()
    ),
    Setting(
        "global_confounder_reg",
        Number(float, 0, LARGEST_PRECISION, optional=True),
        None,
        "1 / prior variance of the gamma of all users; None: {confounder_reg} where it is their only one, else 0",
        concerns={**_GAUSSIAN, **_DECONFOUNDED, "confounder_weight": ("global", "pooled")},
        section="outcome",
    ),
    Setting(
        "confounder_link",
        Choice({"identity": "as it is", "sqrt": "its square root", "log": "its logarithm, an offset added"}),
        "identity",
        "what is made of a_hat; all but identity need {unobserved_weight}=0",
        concerns={**_GAUSSIAN, **_DECONFOUNDED},
        fixed={"poisson": Fixed("identity", "which has a_hat as it is")},
        section="outcome",
    ),
    Setting(
        "confounder_link_offset",
        # Next to 0 the logarithm's slope, squared, would leave no a_hat a weight beside its variance.
        Number(float, 1e-9, 1e6, optional=True),
        None,
        "what is added to a_hat before its logarithm is taken; None: the mean of all pairs",
        concerns={**_GAUSSIAN, **_DECONFOUNDED, "confounder_link": ("log",)},
        section="outcome",
    ),
    Setting(
        "standardize_confounder",
        Flag(),
        False,
        "whether the confounder is given mean 0 and spread 1",
        concerns={**_GAUSSIAN, **_DECONFOUNDED},
        fixed={"poisson": Fixed(False, "which has a_hat as it is")},
        section="outcome",
    ),
    Setting(
        "leave_one_out",
        Flag(),
        False,
        "whether a rated pair's own exposure is left out of its a_hat",
        concerns={**_GAUSSIAN, **_DECONFOUNDED},
        fixed={"poisson": Fixed(False, "which has a_hat as it is")},
        section="outcome",
    ),
    Setting(
        "confounder_variance",
        Flag(),
        False,
        "whether the variance of a_hat counts, and shrinks gamma",
        concerns={**_GAUSSIAN, **_DECONFOUNDED},
        fixed={"poisson": Fixed(False, "which has a_hat as it is")},
        section="outcome",
    ),
    Setting(
        "estimate_confounder_reg",
        Flag(),
        False,
        "whether the gammas' variance is estimated",
        concerns={**_GAUSSIAN, **_DECONFOUNDED},
        fixed={"poisson": Fixed(False, "which has a Gamma prior")},
        section="outcome",
    ),
    Setting(
        "fit_biases",
        Flag(),
        False,
        "whether each user and each item has a bias, part of the preference",
        concerns=_GAUSSIAN,
        fixed={"poisson": Fixed(False, "which has none")},
        section="outcome",
    ),
    *(
        Setting(
            f"{of}_bias_reg",
            _PRECISION,
            1.0,
            f"1 / prior variance of the {of}s' biases, with unit noise",
            concerns=_GAUSSIAN,
            section="outcome",
        )
        for of in ("user", "item")
    ),
    Setting(
        "reg_by_count",
        Flag(),
        False,
        "whether each row's number of ratings multiplies its regularisers",
        concerns=_GAUSSIAN,
        fixed={"poisson": Fixed(False, "which has no regularisers")},
        section="outcome",
    ),
    *(
        prior.having(concerns=_POISSON, section="outcome")
        for prior in (
            *GAMMA_PRIORS,
            *_gamma_prior("confounder", 1.0, 1.0, "gamma"),
            *_gamma_prior("intercept", 0.3, 0.3, "the intercept"),
        )
    ),
    Setting("fit_intercept", Flag(), True, "whether there is an intercept", section="outcome"),
    Setting(
        "propensity_col",
        Column(optional=True),
        None,
        "column of propensities, in (0, 1]; None: from the ratings",
        concerns=_IPW,
    ),
    Setting(
        "propensity_source",
        Choice(
            {
                "ratings": "the higher the rating, the more likely it is seen",
                "exposure": "1 - exp(-a_hat), by an exposure model without the pair's own vote",
            }
        ),
        "ratings",
        "what propensities come from, where there is no column of them",
        concerns=_IPW,
        section="outcome",
    ),
    Setting(
        "propensity_mean",
        Number(float, 1e-9, 1),
        0.05,
        "mean propensity of all pairs, where propensities come from the ratings",
        "probability",
        concerns=_IPW,
        section="outcome",
    ),
    Setting(
        "propensity_decay",
        Number(float, 1e-3, 1),
        0.25,
        "factor of the propensity for each rating step below {propensity_pivot}",
        "share per step",
        concerns=_IPW,
        section="outcome",
    ),
    Setting(
        "propensity_pivot",
        Number(float, -1e6, 1e6),
        4.0,
        "rating from which on the propensity is largest",
        "rating",
        concerns=_IPW,
        section="outcome",
    ),
    Setting(
        "weight_cap",
        Number(float, 1, 1e12, optional=True),
        None,
        "largest inverse propensity, before they are normalised to mean 1; None: no cap",
        "weight",
        concerns=_IPW,
        section="outcome",
    ),
    Setting(
        "refit",
        Choice(
            {
                "none": "no",
                "allPairs": "yes, rated ones have their ratings in the predictions' place",
                "doublyRobust": "yes, rated ones have the prediction and min(1 / p, cap) of what the rating differs",
            }
        ),
        "none",
        "whether a second fit follows, to the first one's predictions of all pairs",
    ),
    Setting(
        "refit_weight_cap",
        Number(float, 1, 1e12, optional=True),
        None,
        "largest 1 / p of a refit, p being 1 - exp(-a_hat); None: no cap",
        "weight",
        concerns={"refit": ("doublyRobust",)},
    ),
    Setting(
        "exposure_model",
        Instance("exposure", "a PoissonFactorization, or a model that it fitted, or None"),
        None,
        "fitted PoissonFactorizationModel, or a PoissonFactorization to fit first; None: from {exposure_rank}, or as "
        "that of {initial_model} was fitted",
        of_fit=True,
    ),
    MAX_ITER.having(default=20, section="outcome"),
    TOL.having(default=1e-4, section="outcome"),
    ACCELERATION.having(default=False, section="outcome"),
    Setting(
        "solver",
        Choice(
            {
                "cholesky": "to its end, by its normal equations",
                "cg": "some steps of conjugate gradients from where it is, cheaper at high ranks",
            }
        ),
        "cholesky",
        "how each row's least squares are solved in a sweep",
        concerns=_GAUSSIAN,
        fixed={"poisson": Fixed("cholesky", "which has no least squares")},
        section="outcome",
    ),
    Setting(
        "cg_steps",
        Number(int, 1, LARGEST_RANK),
        3,
        "steps of conjugate gradients that a row takes in a sweep",
        "steps",
        concerns={**_GAUSSIAN, "solver": ("cg",)},
        section="outcome",
    ),
    *VALIDATION,
    RESTARTS.having(section="outcome"),
    INITIAL_MODEL,
    SEED,
    Setting("prediction_col", Column(), "prediction", "output column: the potential rating", of_model=True),
    Setting(
        "preference_col",
        Column(optional=True),
        None,
        "output column: theta . beta and the biases, the preference; None: no such column",
        of_model=True,
    ),
    Setting(
        "confounder_col",
        Column(optional=True),
        None,
        "output column: gamma * a_hat, the confounder's part; None: no such column",
        of_model=True,
    ),
    Setting(
        "cold_start_strategy",
        Choice({"nan": "NaN", "drop": "the row is left out", "mean": "the mean rating"}),
        "nan",
        "what is predicted for unknown ids",
        of_model=True,
    ),
    *ENGINE,
)
SECTIONS = {"exposure": EXPOSURE, "outcome": OUTCOME, "engine": ENGINE}
