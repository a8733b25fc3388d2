"""How fits begin and which of several is kept: what both estimators share around the loop."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.ascent import Fit, Stopping
from dcrec_spark.errors import ConfigError, FitError

_log = logging.getLogger(__name__)


def stopping(estimator: Params) -> Stopping:
    """When a fit ends, by an estimator's parameters."""
    get = estimator.getOrDefault
    return Stopping(get("maxIter"), get("tol"), get("patience"), get("checkpointInterval"), get("precision"))


def restart_seed(estimator: Params, again: int) -> int:
    """The seed of restart ``again``; every other one, since users and items start from a seed each."""
    return int(estimator.getOrDefault("seed")) + 2 * again


def best_of(estimator: Params, fit: Callable[[int], Fit], rises: bool) -> Fit:
    """Of the estimator's restarts the fit with the smallest held-out loss, without held-out pairs the one with the best
    objective; the others are let go.

    fit : called with 0, 1, ..., the number of the restart. One that goes astray is left out, and a warning says so.

    Raises
    ------
    FitError : all went astray; that of the last.
    """
    fits = _sound(estimator, fit)
    best = next(fits)
    with ExitStack() as unless_done:
        unless_done.callback(lambda: best.discard())
        for other in fits:
            better, worse = (other, best) if _score(other, rises) < _score(best, rises) else (best, other)
            worse.discard()
            best = better
        unless_done.pop_all()
    return best


def _sound(estimator: Params, fit: Callable[[int], Fit]) -> Iterator[Fit]:
    restarts, left_out = estimator.getOrDefault("restarts"), 0
    for again in range(restarts):
        try:
            found = fit(again)
        except FitError as error:
            left_out += 1
            if left_out == restarts:
                raise
            seed = restart_seed(estimator, again)
            _log.warning("seed %d, one of %d restarts, is left out: %s", seed, restarts, error)
        else:
            yield found


def _score(fit: Fit, rises: bool) -> float:
    if fit.held_out:
        return min(fit.held_out)
    last = fit.objective[-1] if fit.objective else 0.0
    return -last if rises else last


def require_same_ids(name: str, ids: DataFrame, factors: DataFrame) -> None:
    """Refuse to match ids of different kinds, which Spark would cast to one another in silence.

    Raises
    ------
    ConfigError : names the side and both types.
    """
    found, expected = ids.schema["id"].dataType, factors.schema["id"].dataType
    if _is_text(found) != _is_text(expected):
        raise ConfigError(
            f"{name} ids are {found.simpleString()} here and {expected.simpleString()} in the given model: "
            "cast them alike"
        )


def require_ids_alike(dataset: DataFrame, names: tuple[str, str], factors: tuple[DataFrame, DataFrame]) -> None:
    """:func:`require_same_ids` of a frame's users and items, whose columns ``names`` has."""
    for side, name, table in zip(("user", "item"), names, factors, strict=True):
        require_same_ids(side, dataset.select(quoted(name).alias("id")), table)


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)
