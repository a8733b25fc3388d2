"""Ratings checked before they are laid out: ids in every row, finite values, something to fit to."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import DataError


class Checked(NamedTuple):
    """What is known of ratings that can be fitted.

    rows : all of them. nonzeros : those of the fit, which are not held out. means : of each value over these.
    """

    rows: int
    nonzeros: int
    means: dict[str, float]


def require_usable(pairs: DataFrame, values: list[str], columns: dict[str, str]) -> Checked:
    """Refuse pairs that can't be used: each has to have two ids, and finite values that are not negative.

    Parameters
    ----------
    columns : what each column of ``pairs`` is called in the input.

    Raises
    ------
    DataError : there are no rows, or it names the column and how many rows can't be used.
    """
    bad = {f"{columns[c]} is null": F.col(c).isNull() for c in ("user_id", "item_id", *values)}
    bad |= {f"{columns[c]} is NaN or infinite": F.isnan(c) | (F.abs(c) == float("inf")) for c in values}
    bad |= {f"{columns[c]} is negative": F.col(c) < 0 for c in values}
    fitted = ~F.col("held_out") if "held_out" in pairs.columns else F.lit(True)
    means = [F.avg(F.when(fitted, F.col(c))).alias(f"mean {c}") for c in values]
    counts = [F.count_if(condition).alias(reason) for reason, condition in bad.items()]
    row = pairs.agg(F.count("*").alias("rows"), F.count_if(fitted).alias("fitted"), *counts, *means).collect()[0]
    rows = int(row["rows"])
    if rows == 0:
        raise DataError("the input has no rows: at least a few ratings of two users and two items are needed")
    for reason in bad:
        if row[reason]:
            raise DataError(f"{row[reason]} of {rows} rows cannot be used: {reason}; drop or mend them first")
    if row["fitted"] in (0, rows) and "held_out" in pairs.columns:
        which = "held out" if row["fitted"] == 0 else "for training"
        raise DataError(
            f"all {rows} rows are {which}: validationIndicatorCol has to be true for some rows, not for all"
        )
    return Checked(rows, int(row["fitted"]), {c: float(row[f"mean {c}"]) for c in values})


def require_two(rows: Mapping[str, int]) -> None:
    """Refuse ratings that are all of one user, or all of one item.

    Parameters
    ----------
    rows : "user" and "item" -> how many there are.

    Raises
    ------
    DataError : names the side.
    """
    for name, count in rows.items():
        if count < 2:
            raise DataError(f"all ratings are of one {name}: a factor model needs at least two users and two items")


def duplicate_pair(user: object, item: object) -> DataError:
    """Return the error of a pair that is given twice: the fit would count it twice."""
    return DataError(
        f"user {user!r} has more than one rating of item {item!r}: every (user, item) pair may occur once; "
        "keep one (the last, the mean, the sum) before the fit"
    )


def unknown_side(nonzeros: int, name: str) -> DataError:
    """Return the error of ratings none of which has a known id of a side: they point to other ids, not to new ones."""
    return DataError(f"none of the {nonzeros} rows has a known {name} id: are they those of the training?")
