"""The parameters that the estimators share, each with its range, and checked when it is set."""

import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Self

from pyspark.ml import Model
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol

from dcrec_spark.models.families.registry import outcome_names

Converter = Callable[[Any], Any]
SMALLEST_SHAPE = 0.01  # below, exp(E[log .]) underflows and the responsibilities lose their meaning


def number(
    name: str, kind: type, low: float, open_low: bool = False, optional: bool = False, high: float = math.inf
) -> Converter:
    """A converter to ``int`` or ``float`` that refuses what lies outside [low, high] or, open, (low, high]."""

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
        if not number or kind(value) != value or not low <= value <= high or (open_low and value == low):
            bound = "" if low == -math.inf else f" > {low:g}" if open_low else f" >= {low:g}"
            bound += f" and <= {high:g}" if high < math.inf else ""
            raise TypeError(f"{name}: found {value!r}, expected a finite {kind.__name__}{bound}")
        return kind(value)

    return convert


def choice(name: str, *options: str) -> Converter:
    """A converter that accepts one of ``options``."""

    def convert(value: Any) -> str:
        if value not in options:
            raise TypeError(f"{name}: found {value!r}, expected one of {', '.join(options)}")
        return str(value)

    return convert


def one_of_registered(name: str, options: Callable[[], Sequence[str]]) -> Converter:
    """A converter that accepts one of what is registered when it is asked."""

    def convert(value: Any) -> str:
        return str(choice(name, *options())(value))

    return convert


def text(name: str, optional: bool = False) -> Converter:
    """A converter that accepts a non-empty string, the name of a column."""

    def convert(value: Any) -> str | None:
        if value is None and optional:
            return None
        if not isinstance(value, str) or not value:
            raise TypeError(f"{name}: found {value!r}, expected the name of a column")
        return value

    return convert


def flag(name: str) -> Converter:
    """A converter that accepts True and False only."""

    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name}: found {value!r}, expected True or False")
        return value

    return convert


def exposure_source(value: Any) -> Any:
    """A converter that accepts what an exposure model comes from: one that is fitted, its estimator, or None."""
    if value is not None and not isinstance(value, ExposureParams):
        raise TypeError(
            f"exposureModel: found {value!r}, expected a PoissonFactorization, or a model that it fitted, or None"
        )
    return value


def fitted_model(name: str) -> Converter:
    """A converter that accepts a fitted model, or None; of which class, the fit looks at."""

    def convert(value: Any) -> Any:
        if value is not None and not isinstance(value, Model):
            raise TypeError(f"{name}: found {value!r}, expected a fitted model, or None")
        return value

    return convert


def declare(name: str, doc: str, converter: Converter) -> Any:
    """A Param to stand in a class body; pyspark.ml replaces its parent for each instance."""
    return Param(Params._dummy(), name, doc, converter)


def initialise(estimator: Params) -> None:
    """Defaults from the signature of the constructor, the one place where they stand; then what was given."""
    signature = inspect.signature(type(estimator).__init__)
    keyword = inspect.Parameter.KEYWORD_ONLY
    estimator._setDefault(**{n: p.default for n, p in signature.parameters.items() if p.kind is keyword})
    estimator._set(**estimator._input_kwargs)  # type: ignore[attr-defined]


class Checked(Params):
    """Params of which None is refused unless it is among their values; pyspark.ml lets it pass for all."""

    def _set(self, **kwargs: Any) -> Self:
        for name in (name for name, value in kwargs.items() if value is None):
            try:
                self.getParam(name).typeConverter(None)
            except TypeError as error:
                raise TypeError(f'Invalid param value given for param "{name}". {error}') from None
        return super()._set(**kwargs)


class HasIds(Checked):
    """The columns that name users and items: any integer or string type."""

    userCol = declare("userCol", "column of user ids: integers or strings", text("userCol"))
    itemCol = declare("itemCol", "column of item ids: integers or strings", text("itemCol"))


class HasBlocks(Checked, HasCheckpointInterval):
    """How the work is laid over the cluster. None of these changes the result beyond rounding."""

    numUserBlocks = declare(
        "numUserBlocks", "blocks of users; None: from size", number("numUserBlocks", int, 1, optional=True)
    )
    numItemBlocks = declare(
        "numItemBlocks", "blocks of items; None: from size", number("numItemBlocks", int, 1, optional=True)
    )
    exchange = declare(
        "exchange",
        "how factors reach the blocks that need them: broadcast from the driver, blocks over the cluster, or auto: "
        "broadcast for a side whose factors are small",
        choice("exchange", "auto", "broadcast", "blocks"),
    )
    checkpointInterval = declare(
        "checkpointInterval",
        "iterations from one reliable checkpoint of the factors to the next",
        number("checkpointInterval", int, 1),
    )
    precision = declare(
        "precision",
        "float64, or float32: half the memory, less work",
        choice("precision", "float64", "float32"),
    )


class Iterates(Checked, HasMaxIter, HasTol, HasSeed):
    """Iterations, the relative change of the objective that ends them, and the seed of the start."""

    maxIter = declare("maxIter", "iterations at most", number("maxIter", int, 0))
    tol = declare("tol", "relative change of the objective below which a fit ends", number("tol", float, 0))
    rank = declare("rank", "number of factors", number("rank", int, 1))
    seed = declare("seed", "what the start depends on, besides the ids", number("seed", int, -math.inf))
    validationIndicatorCol = declare(
        "validationIndicatorCol",
        "boolean column, true for held-out rows; a fit ends when their loss stops falling, and keeps the best sweep",
        text("validationIndicatorCol", True),
    )
    patience = declare(
        "patience", "sweeps without a better held-out loss before a fit ends", number("patience", int, 1)
    )
    restarts = declare(
        "restarts",
        "fits from so many seeds; kept is the one with the smallest held-out loss or, without held-out rows, with the "
        "best objective; seeds whose fit goes astray are left out",
        number("restarts", int, 1),
    )
    initialModel = declare(
        "initialModel",
        "a fitted model to start from: known ids at its factors, new ones from the seed; None: a cold start",
        fitted_model("initialModel"),
    )


class HasGammaPriors(Checked):
    """Gamma priors of both sides' factors, shape and rate (rate, never scale)."""

    userShapePrior = declare(
        "userShapePrior", "shape of the users' Gamma prior", number("userShapePrior", float, SMALLEST_SHAPE)
    )
    userRatePrior = declare(
        "userRatePrior", "rate of the users' Gamma prior", number("userRatePrior", float, 0, open_low=True)
    )
    itemShapePrior = declare(
        "itemShapePrior", "shape of the items' Gamma prior", number("itemShapePrior", float, SMALLEST_SHAPE)
    )
    itemRatePrior = declare(
        "itemRatePrior", "rate of the items' Gamma prior", number("itemRatePrior", float, 0, open_low=True)
    )


class ExposureParams(HasIds, HasBlocks, Iterates, HasGammaPriors):
    """Parameters of the exposure model."""

    countCol = declare("countCol", "column of exposure counts; None: each pair counts once", text("countCol", True))
    exposureCol = declare("exposureCol", "output column: the reconstructed exposure a_hat", text("exposureCol"))


class HasPropensities(Checked):
    """Where inverse-propensity weights come from (adjustment = ipw)."""

    propensityCol = declare(
        "propensityCol", "column of propensities, in (0, 1]; None: from the ratings", text("propensityCol", True)
    )
    propensityMean = declare(
        "propensityMean",
        "mean propensity of all pairs, where it comes from the ratings",
        number("propensityMean", float, 0, open_low=True, high=1),
    )
    propensityDecay = declare(
        "propensityDecay",
        "factor of the propensity for each rating step below the pivot",
        number("propensityDecay", float, 0, open_low=True, high=1),
    )
    propensityPivot = declare(
        "propensityPivot", "rating from which on the propensity is largest", number("propensityPivot", float, -math.inf)
    )
    weightCap = declare(
        "weightCap",
        "largest inverse propensity, before they are normalised to mean 1; None: no cap",
        number("weightCap", float, 1, optional=True),
    )


class OutcomeParams(HasIds, HasBlocks, Iterates, HasGammaPriors, HasPropensities, HasPredictionCol):
    """Parameters of the outcome models, and of how they answer."""

    ratingCol = declare("ratingCol", "column of ratings", text("ratingCol"))
    outcome = declare(
        "outcome",
        "weighted: all pairs, the observed ones weighing 1 + alpha * rating; probabilistic: the observed ones; "
        "poisson: all pairs, an unrated one counts 0; its factors are posterior means",
        one_of_registered("outcome", outcome_names),
    )
    adjustment = declare(
        "adjustment",
        "deconfounded: with the term gamma_u * a_hat_ui; none: the classical model; ipw: the classical model, the "
        "observed ratings weighted by inverse propensities",
        choice("adjustment", "deconfounded", "none", "ipw"),
    )
    confounderWeight = declare(
        "confounderWeight",
        "user: each user has a gamma; global: one gamma for all",
        choice("confounderWeight", "user", "global"),
    )
    confounderShapePrior = declare(
        "confounderShapePrior",
        "shape of gamma's Gamma prior (poisson)",
        number("confounderShapePrior", float, SMALLEST_SHAPE),
    )
    confounderRatePrior = declare(
        "confounderRatePrior",
        "rate of gamma's Gamma prior (poisson)",
        number("confounderRatePrior", float, 0, open_low=True),
    )
    interceptShapePrior = declare(
        "interceptShapePrior",
        "shape of the intercept's Gamma prior (poisson)",
        number("interceptShapePrior", float, SMALLEST_SHAPE),
    )
    interceptRatePrior = declare(
        "interceptRatePrior",
        "rate of the intercept's Gamma prior (poisson)",
        number("interceptRatePrior", float, 0, open_low=True),
    )
    exposureRank = declare("exposureRank", "factors of the exposure model", number("exposureRank", int, 1))
    alpha = declare("alpha", "how much an observed rating weighs (weighted)", number("alpha", float, 0))
    unobservedWeight = declare(
        "unobservedWeight",
        "weight w0 of the unobserved pairs (not poisson); None: 1 where they take part in the model, else 0",
        number("unobservedWeight", float, 0, optional=True),
    )
    userReg = declare("userReg", "1 / prior variance of user features", number("userReg", float, 0))
    itemReg = declare("itemReg", "1 / prior variance of item features", number("itemReg", float, 0))
    confounderReg = declare("confounderReg", "1 / prior variance of gamma", number("confounderReg", float, 0))
    interceptReg = declare("interceptReg", "1 / prior variance of the intercept", number("interceptReg", float, 0))
    fitIntercept = declare("fitIntercept", "whether there is an intercept", flag("fitIntercept"))
    exposureModel = declare(
        "exposureModel",
        "a fitted PoissonFactorizationModel, or a PoissonFactorization to fit first; None: from exposureRank, "
        "or as that of initialModel was fitted",
        exposure_source,
    )
    predictionCol = declare("predictionCol", "output column: the potential rating", text("predictionCol"))
    preferenceCol = declare("preferenceCol", "output column: theta . beta", text("preferenceCol", True))
    confounderCol = declare("confounderCol", "output column: gamma * a_hat", text("confounderCol", True))
    coldStartStrategy = declare(
        "coldStartStrategy",
        "unknown ids: nan, drop the row, or mean",
        choice("coldStartStrategy", "nan", "drop", "mean"),
    )
