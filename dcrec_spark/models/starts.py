"""How fits begin and which of several is kept: what both estimators share around the loop."""

from collections.abc import Callable

from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StringType

from dcrec_spark.data.names import quoted
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.sweeps import Fit, Stopping


def stopping(estimator: Params) -> Stopping:
    """When a fit ends, by an estimator's parameters."""
    get = estimator.getOrDefault
    return Stopping(get("maxIter"), get("tol"), get("patience"), get("checkpointInterval"), get("precision"))


def best_of(restarts: int, fit: Callable[[int], Fit], rises: bool) -> Fit:
    """The fit with the best held-out loss, else with the best objective; the others are let go.

    fit : called with 0, 1, ...; each number stands for a seed.
    """
    best = fit(0)
    for again in range(1, restarts):
        other = fit(again)
        better, worse = (other, best) if _score(other, rises) < _score(best, rises) else (best, other)
        worse.release()
        best = better
    return best


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
