"""From an estimator's parameters to the steps of its outcome model."""

from dataclasses import replace

from pyspark.ml.param import Params

from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.ridge import Design, Regulariser
from dcrec_spark.models.families.gamma_poisson import GammaPoisson, GammaPrior
from dcrec_spark.models.families.gaussian import Gaussian
from dcrec_spark.models.fitting.layout import LaidOut
from dcrec_spark.models.fitting.restarts import restart_seed

OutcomeSteps = Gaussian | GammaPoisson


def require_consistent(params: Params) -> None:
    """Refuse settings that contradict each other.

    Raises
    ------
    ConfigError : names the settings.
    """
    get = params.getOrDefault
    if get("outcome") == "poisson" and get("unobservedWeight") not in (None, 1.0):
        raise ConfigError(
            f"unobservedWeight={get('unobservedWeight')} with outcome=poisson: an unrated pair counts 0 there, with "
            "weight 1; leave unobservedWeight out"
        )


def require_same_kind(params: Params, warm: Params) -> None:
    """Refuse to start from a model whose factors mean something else.

    Raises
    ------
    ConfigError : names the settings that differ.
    """
    names = ["outcome", "rank"]
    if params.getOrDefault("outcome") == "poisson":
        names += ["adjustment", "confounderWeight", "fitIntercept"]
    differing = [n for n in names if params.getOrDefault(n) != warm.getOrDefault(n)]
    if differing:
        found = ", ".join(f"{n}={warm.getOrDefault(n)!r} (here {params.getOrDefault(n)!r})" for n in differing)
        raise ConfigError(f"initialModel was fitted with {found}: a warm start needs the same")


def outcome_steps(params: Params, layout: LaidOut, again: int = 0) -> OutcomeSteps:
    """The steps of the model that the parameters name, on the blocks of ``layout``; ``again``: which restart."""
    steps = steps_for(params, layout.n_pairs, layout.held_out, again)
    if isinstance(steps, Gaussian) and steps.fit_intercept:
        return replace(steps, first_intercept=_first_intercept(steps, layout))
    return steps


def _first_intercept(steps: Gaussian, layout: LaidOut) -> float:
    """About where J is smallest while all factors are 0, every rating taken for a mean one.

    From 0 the factors and gamma take up the level of the ratings, and hand it over to the intercept only slowly: after
    20 sweeps of probabilistic MF, rank 10, on MovieLens 100K, J is 59,339 to 62,286 from 0 (three seeds), and 54,609 to
    54,719 from here. Not everywhere: of weighted MF with alpha = 1 J is 0.4 % larger from here.
    """
    mean = layout.means["rating"]
    observed = layout.nonzeros * (1.0 + steps.alpha * mean)
    unobserved = steps.design.unobserved * (layout.n_pairs - layout.nonzeros)
    return mean * observed / (observed + unobserved + steps.reg.intercept)


def steps_for(params: Params, n_pairs: float, validates: bool = False, again: int = 0) -> OutcomeSteps:
    """The same, for so many pairs (U x I) and with or without held-out ones."""
    get = params.getOrDefault
    seed = restart_seed(params, again)
    if get("outcome") == "poisson":
        return _poisson(params, n_pairs, seed, validates)
    weighted = get("outcome") == "weighted"
    return Gaussian(
        rank=get("rank"),
        design=Design(unobserved_weight(params), weighted, get("confounderWeight") == "user"),
        reg=Regulariser(get("userReg"), get("itemReg"), get("confounderReg"), get("interceptReg")),
        alpha=get("alpha") if weighted else 0.0,
        fit_intercept=get("fitIntercept"),
        seed=seed,
        n_pairs=n_pairs,
        precision=get("precision"),
        validates=validates,
    )


def unobserved_weight(params: Params) -> float:
    """w0 as given, else 1 where the unobserved pairs take part: in weighted MF, and where gamma is fitted to them."""
    given = params.getOrDefault("unobservedWeight")
    if given is not None:
        return float(given)
    takes_part = params.getOrDefault("outcome") == "weighted" or params.getOrDefault("adjustment") == "deconfounded"
    return 1.0 if takes_part else 0.0


def _poisson(params: Params, n_pairs: float, seed: int, validates: bool) -> GammaPoisson:
    get = params.getOrDefault

    def prior(name: str) -> GammaPrior:
        return GammaPrior(get(f"{name}ShapePrior"), get(f"{name}RatePrior"))

    return GammaPoisson(
        stage="outcome",
        count="rating",
        rank=get("rank"),
        user_prior=prior("user"),
        item_prior=prior("item"),
        seed=seed,
        precision=get("precision"),
        confounder=prior("confounder") if get("adjustment") == "deconfounded" else None,
        per_user=get("confounderWeight") == "user",
        intercept=prior("intercept") if get("fitIntercept") else None,
        n_pairs=n_pairs,
        validates=validates,
    )
