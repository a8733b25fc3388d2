"""The parameters that the estimators share, each with its range, and checked when it is set."""

import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasSeed, HasTol

Converter = Callable[[Any], Any]


def number(name: str, kind: type, low: float, open_low: bool = False, optional: bool = False) -> Converter:
    """A converter to ``int`` or ``float`` that refuses what lies outside [low, inf) or, open, (low, inf)."""

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
        if not number or kind(value) != value or value < low or (open_low and value == low):
            bound = f"> {low:g}" if open_low else f">= {low:g}"
            raise TypeError(f"{name}: found {value!r}, expected a finite {kind.__name__} {bound}")
        return kind(value)

    return convert


def choice(name: str, *options: str) -> Converter:
    """A converter that accepts one of ``options``."""

    def convert(value: Any) -> str:
        if value not in options:
            raise TypeError(f"{name}: found {value!r}, expected one of {', '.join(options)}")
        return str(value)

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


def declare(name: str, doc: str, converter: Converter) -> Any:
    """A Param to stand in a class body; pyspark.ml replaces its parent for each instance."""
    return Param(Params._dummy(), name, doc, converter)


def initialise(estimator: Params) -> None:
    """Defaults from the signature of the constructor, the one place where they stand; then what was given."""
    signature = inspect.signature(type(estimator).__init__)
    keyword = inspect.Parameter.KEYWORD_ONLY
    estimator._setDefault(**{n: p.default for n, p in signature.parameters.items() if p.kind is keyword})
    estimator._set(**estimator._input_kwargs)  # type: ignore[attr-defined]


class HasIds(Params):
    """The columns that name users and items: any integer or string type."""

    userCol = declare("userCol", "column of user ids: integers or strings", text("userCol"))
    itemCol = declare("itemCol", "column of item ids: integers or strings", text("itemCol"))


class HasBlocks(HasCheckpointInterval):
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


class Iterates(HasMaxIter, HasTol, HasSeed):
    """Iterations, the relative change of the objective that ends them, and the seed of the start."""

    maxIter = declare("maxIter", "iterations at most", number("maxIter", int, 0))
    tol = declare("tol", "relative change of the objective below which a fit ends", number("tol", float, 0))
    rank = declare("rank", "number of factors", number("rank", int, 1))


class OutcomeParams(HasIds, HasBlocks, Iterates):
    """Parameters of the outcome models, and of how they answer."""

    ratingCol = declare("ratingCol", "column of ratings", text("ratingCol"))
    outcome = declare(
        "outcome",
        "weighted: all pairs, the observed ones weighing 1 + alpha * rating; probabilistic: the observed ones",
        choice("outcome", "weighted", "probabilistic"),
    )
    adjustment = declare(
        "adjustment",
        "deconfounded: with the term gamma_u * a_hat_ui; none: the classical model",
        choice("adjustment", "deconfounded", "none"),
    )
    exposureRank = declare("exposureRank", "factors of the exposure model", number("exposureRank", int, 1))
    alpha = declare("alpha", "how much an observed rating weighs (weighted)", number("alpha", float, 0))
    unobservedWeight = declare(
        "unobservedWeight",
        "weight w0 of the unobserved pairs; None: 1 where they take part in the model, else 0",
        number("unobservedWeight", float, 0, optional=True),
    )
    userReg = declare("userReg", "1 / prior variance of user features", number("userReg", float, 0))
    itemReg = declare("itemReg", "1 / prior variance of item features", number("itemReg", float, 0))
    confounderReg = declare("confounderReg", "1 / prior variance of gamma", number("confounderReg", float, 0))
    interceptReg = declare("interceptReg", "1 / prior variance of the intercept", number("interceptReg", float, 0))
    fitIntercept = declare("fitIntercept", "whether there is an intercept", flag("fitIntercept"))
    exposureModel = declare(
        "exposureModel",
        "a fitted PoissonFactorizationModel, or a PoissonFactorization to fit first; None: from exposureRank",
        lambda model: model,
    )
    preferenceCol = declare("preferenceCol", "output column: theta . beta", text("preferenceCol", True))
    confounderCol = declare("confounderCol", "output column: gamma * a_hat", text("confounderCol", True))
    coldStartStrategy = declare(
        "coldStartStrategy",
        "unknown ids: nan, drop the row, or mean",
        choice("coldStartStrategy", "nan", "drop", "mean"),
    )
