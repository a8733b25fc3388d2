"""Checks of a user's frame before anything is computed: columns, types, values, ids that match a model's."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from dcrec_spark.data.ids import IDS, can_be_id
from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError, DataError, cut


def require_columns(df: DataFrame, ids: Sequence[str], numbers: Sequence[str], flags: Sequence[str] = ()) -> None:
    """Refuse a frame that lacks a column or has one of the wrong type. Raises TypeError: it is no frame of Spark."""
    if not hasattr(df, "schema"):
        raise TypeError(
            f"found a {type(df).__module__.partition('.')[0]} {type(df).__name__}, expected a DataFrame of Spark; "
            "spark.createDataFrame(...) makes one of a pandas DataFrame or an Arrow table"
        )
    types = {field.name: field.dataType for field in df.schema.fields}
    if len(set(ids)) < len(ids):
        raise DataError(f"userCol and itemCol both name column {ids[0]!r}: users and items need a column each")
    missing = [c for c in (*ids, *numbers, *flags) if c not in types]
    if missing:
        raise DataError(
            f"column {missing[0]!r} is missing: the input has {', '.join(types) or 'no columns'}; "
            "map the names with userCol, itemCol, ratingCol or countCol"
        )
    for names, is_one, expected in (
        (ids, can_be_id, f": ids are {IDS}; cast it"),
        (numbers, lambda stored: isinstance(stored, NumericType), ", expected numbers; cast it (try_cast)"),
        (flags, lambda stored: isinstance(stored, BooleanType), ", expected true or false"),
    ):
        for name in names:
            if not is_one(types[name]):
                raise DataError(f"column {name!r} is of type {types[name].simpleString()}{expected}")


def require_new_columns(df: DataFrame, outputs: Mapping[str, str]) -> None:
    """Refuse outputs under names that are taken: two columns of one name can't be distinguished afterwards."""
    taken = set(df.columns)
    for param, name in outputs.items():
        if name in taken:
            raise DataError(
                f"column {name!r} is there already, and {param} adds one of that name: set {param} to another name, or "
                "drop the column first"
            )
        taken.add(name)


def observed(df: DataFrame, held_out_col: str | None) -> DataFrame:
    """Return the rows that are not held out, where the frame says which."""
    if held_out_col not in df.columns:
        return df
    require_columns(df, [], [], [held_out_col])
    return df.where(f"not coalesce(`{held_out_col}`, false)")


def require_same_ids(name: str, ids: DataFrame, factors: DataFrame) -> None:
    """Refuse to match ids of different kinds, which Spark would cast to one another in silence."""
    given, expected = ids.schema["id"].dataType, factors.schema["id"].dataType
    if isinstance(given, StringType) != isinstance(expected, StringType):
        raise ConfigError(
            f"{name} ids are {given.simpleString()} here and {expected.simpleString()} in the given model: "
            "cast them alike"
        )


def require_ids_alike(dataset: DataFrame, names: tuple[str, str], factors: tuple[DataFrame, DataFrame]) -> None:
    """Refuse a frame whose users or items, in the columns ``names``, are of another kind than those of a model."""
    for side, name, table in zip(("user", "item"), names, factors, strict=True):
        require_same_ids(side, dataset.select(quoted(name).alias("id")), table)


def start_from_strangers(ids: tuple[DataFrame, DataFrame], factors: tuple[DataFrame, DataFrame]) -> str | None:
    """Say so if a fit starts from a model that knows none of its users, or none of its items. None if it knows some.

    ids : users and items, as ``id``. factors : the tables of the model.
    """
    for side, rows, table in zip(("user", "item"), ids, factors, strict=True):
        if rows.join(table.select("id"), "id", "left_semi").isEmpty():
            return f"a cold start: the model to start from knows no {side} of the ratings; are its ids theirs?"
    return None


def require_all_known(ids: DataFrame, factors: DataFrame, name: str) -> None:
    """Refuse ids without factors in the fitted exposure model."""
    missing = ids.join(factors, "id", "left_anti")
    count = missing.count()
    if count:
        example = missing.orderBy("idx").first()
        raise DataError(
            f"{count} {name} ids, such as {cut(example['id'] if example else None)}, are not in the fitted exposure "
            "model: fit it on the same ratings, or fold them in first"
        )


def require_number(name: str, n: object, of: str = "recommendations") -> None:
    """Refuse a length of lists, or a limit within them, that is none."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"{name}: found {n!r}, expected a whole number of {of} >= 1")


class Checked(NamedTuple):
    """What is known of ratings that can be fitted.

    rows : all of them. nonzeros : those of the fit, which are not held out. means : of each value over these.
    """

    rows: int
    nonzeros: int
    means: dict[str, float]


def require_usable(pairs: DataFrame, values: list[str], columns: Mapping[str, str], signed: bool = False) -> Checked:
    """Refuse pairs that can't be used: each has to have two ids, and finite values that are not negative.

    columns : what each column of ``pairs`` is called in the input. signed : whether ratings may be negative.
    """
    bad = {_missing(c, columns): F.col(c).isNull() for c in ("user_id", "item_id", *values)}
    bad |= {f"{columns[c]} is NaN or infinite": F.isnan(c) | (F.abs(c) == float("inf")) for c in values}
    bad |= {f"{columns[c]} is negative": F.col(c) < 0 for c in values if not (signed and c == "rating")}
    fitted = ~F.col("held_out") if "held_out" in pairs.columns else F.lit(True)
    means = [F.avg(F.when(fitted, F.col(c))).alias(f"mean {c}") for c in values]
    counts = [F.count_if(condition).alias(reason) for reason, condition in bad.items()]
    row = pairs.agg(F.count("*").alias("rows"), F.count_if(fitted).alias("fitted"), *counts, *means).collect()[0]
    in_means = {c: row[f"mean {c}"] for c in values}
    reasons = {reason: int(row[reason]) for reason in bad}
    return _usable(int(row["rows"]), int(row["fitted"]), reasons, in_means, "held_out" in pairs.columns)


def require_usable_here(
    pairs: pa.Table, values: list[str], columns: Mapping[str, str], signed: bool = False
) -> Checked:
    """Refuse pairs in this process that can't be used, as :func:`require_usable` does, with the same errors."""
    bad = {_missing(c, columns): pairs[c].null_count for c in ("user_id", "item_id", *values)}
    bad |= {f"{columns[c]} is NaN or infinite": _count(pairs[c], lambda part: ~np.isfinite(part)) for c in values}
    unsigned = [c for c in values if not (signed and c == "rating")]
    bad |= {f"{columns[c]} is negative": _count(pairs[c], lambda part: part < 0) for c in unsigned}
    fitted = pairs.select(values)
    if "held_out" in pairs.column_names:
        fitted = fitted.filter(pc.invert(pairs["held_out"]))
    means = {c: pc.mean(fitted[c]).as_py() for c in values}
    return _usable(pairs.num_rows, fitted.num_rows, bad, means, "held_out" in pairs.column_names)


def _missing(name: str, columns: Mapping[str, str]) -> str:
    return f"{columns[name]} is null" + (", or no whole number" if name in ("user_id", "item_id") else "")


def _count(column: pa.ChunkedArray, condition: Callable[[NDArray[np.float64]], NDArray[np.bool_]]) -> int:
    """Count the numbers that meet a condition, as they were collected: a copy of all would take their room again."""
    return sum(int(condition(part.drop_null().to_numpy()).sum()) for part in column.chunks)


def _usable(
    rows: int, fitted: int, bad: Mapping[str, int], means: Mapping[str, float | None], holds_out: bool
) -> Checked:
    if rows == 0:
        raise DataError("the input has no rows: at least a few ratings of two users and two items are needed")
    for reason, many in bad.items():
        if many:
            raise DataError(f"{many} of {rows} rows cannot be used: {reason}; drop or mend them first")
    if fitted in (0, rows) and holds_out:
        which = "held out" if fitted == 0 else "for training"
        raise DataError(
            f"all {rows} rows are {which}: validationIndicatorCol has to be true for some rows, not for all"
        )
    return Checked(rows, fitted, {c: float(mean) for c, mean in means.items() if mean is not None})


def require_two(rows: Mapping[str, int]) -> None:
    """Refuse ratings that are all of one user, or all of one item."""
    for name, count in rows.items():
        if count < 2:
            raise DataError(f"all ratings are of one {name}: a factor model needs at least two users and two items")


def duplicate_pair(user: object, item: object) -> DataError:
    """Return the error of a pair that is given twice: the fit would count it twice."""
    return DataError(
        f"user {cut(user)} has more than one rating of item {cut(item)}: every (user, item) pair may occur once; "
        "keep one (the last, the mean, the sum) before the fit"
    )


def unknown_side(nonzeros: int, name: str) -> DataError:
    """Return the error of ratings none of which has a known id of a side: they point to other ids, not to new ones."""
    return DataError(f"none of the {nonzeros} rows has a known {name} id: are they those of the training?")
