"""Training, validation and test parts, chosen by hashes of (seed, ids): never by partition, order, or luck.

| | a pair's part depends on | shares | exchange |
| --- | --- | --- | --- |
| split_pairs | seed, user, item | in expectation | none |
| split_within_users | seed, and the user's own ratings | exact for each user, rounded to whole ratings | by user |
| split_by_time | all times, or those of the user | exact, up to equal times | none, or by user |
| hold_out_users | seed, user, and the held-out user's own ratings | users in expectation, his ratings exact | by user |

Each part is a lazy frame with the columns of the input. Where reading or exchanging that is dear, persist it first.
Null ids hash like any other. Validate first. An id hashes as its text, so that 7 and "7" go the same way.

To split a part again, take another seed: with the same one, its pairs all hash to where they were before.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegralType, TimestampType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.measures import PLAIN_COLUMNS, Columns

_PART = "__part"
_HASH_BITS = 53  # what a double holds exactly
# The search for a cut in time counts the ratings of so many spans, and brings the counts to the driver.
_SPANS = 1 << 14


class HeldOut(NamedTuple):
    """Ratings split by user, for users that the model never saw (strong generalisation).

    train : all ratings of the other users. fold_in, test : two parts of the ratings of the users held out.

    Examples
    --------
    >>> rows = [(user, item, 3.0) for user in range(10) for item in range(4)]
    >>> split = hold_out_users(spark.createDataFrame(rows, "user int, item int, rating double"), 0.3)
    >>> split.train.count() + split.fold_in.count() + split.test.count()
    40
    >>> split.train.join(split.test, "user").count()
    0
    """

    train: DataFrame
    fold_in: DataFrame
    test: DataFrame


def split_pairs(
    ratings: DataFrame, shares: Sequence[float], seed: int = 0, columns: Columns = PLAIN_COLUMNS
) -> list[DataFrame]:
    """Split pairs of a user and an item, each by its hash alone.

    ratings : has the columns of ids.
    shares : of each part, such as (0.8, 0.2), in expectation.
    seed : of the hash.
    columns : names of the columns.

    Returns a part for each share, with the columns of ``ratings``.
    Raises ConfigError: shares are not positive or do not add up to 1.

    Examples
    --------
    >>> train, test = split_pairs(ratings, (0.8, 0.2), seed=1)
    >>> train.count() + test.count() == ratings.count()
    True
    """
    uniform = _uniform(seed, columns.user, columns.item)
    part = _count_passed(uniform, [F.lit(bound) for bound in _bounds(shares)])
    return _parts(ratings.withColumn(_PART, part), len(shares))


def split_within_users(
    ratings: DataFrame, shares: Sequence[float], seed: int = 0, columns: Columns = PLAIN_COLUMNS
) -> list[DataFrame]:
    """Split each user's ratings at exact counts, in the order of their hashes.

    Of a user's n ratings the first parts together have round(n * the sum of their shares). A user with one rating has
    it in the first part if that takes half or more.

    ratings, shares, seed, columns : as for :func:`split_pairs`, with the same result and errors.

    Examples
    --------
    >>> train, test = split_within_users(ratings, (0.75, 0.25), seed=1)
    >>> train.where("user = 0").count(), test.where("user = 0").count()
    (3, 1)
    """
    return _parts(_ranked_parts(ratings, [], shares, seed, columns), len(shares))


def split_by_time(
    ratings: DataFrame,
    shares: Sequence[float],
    timestamp: str = "timestamp",
    within_users: bool = False,
    seed: int = 0,
    columns: Columns = PLAIN_COLUMNS,
) -> list[DataFrame]:
    """Split into parts that follow each other in time, the oldest first.

    ratings, shares, seed, columns : as for :func:`split_pairs`, with the same result and errors.
    timestamp : a column of timestamps, dates or whole numbers.
    within_users : whether each user's ratings are cut for themselves, at exact counts, equal times in the order of
        their hash. Otherwise everything is cut at the same moments, and equal times stay together.

    Raises DataError: the column is missing, of another type, or has nulls (in the frame's first action when
    ``within_users``, else at once).

    Examples
    --------
    >>> dated = spark.createDataFrame([("u", "a", 1), ("u", "b", 2)], "user string, item string, timestamp long")
    >>> older, newer = split_by_time(dated, (0.5, 0.5))
    >>> newer.first().item
    'b'
    """
    time = _time(ratings, timestamp)
    if within_users:
        known = F.when(time.isNull(), F.raise_error(F.lit(f"column {timestamp!r} has nulls"))).otherwise(time)
        return _parts(_ranked_parts(ratings, [known], shares, seed, columns), len(shares))
    times = ratings.select(time.alias("time"))
    rows, n, first, last = times.agg(F.count("*"), F.count("time"), F.min("time"), F.max("time")).collect()[0]
    if n < rows or not rows:
        raise DataError(f"column {timestamp!r} has {rows - n} nulls in {rows} rows; expected a time in every row")
    places = [math.floor(n * bound + 0.5) for bound in _bounds(shares)]
    cuts = [last + 1 if place >= n else _moment(times, place, first, last) for place in places]
    return _parts(ratings.withColumn(_PART, _count_passed(time, [F.lit(cut) for cut in cuts])), len(shares))


def hold_out_users(
    ratings: DataFrame, share: float, fold_in: float = 0.8, seed: int = 0, columns: Columns = PLAIN_COLUMNS
) -> HeldOut:
    """Take a share of the users out of training. Some of their ratings are for folding in, the others for the test.

    ratings, seed, columns : as for :func:`split_pairs`.
    share : of the users, held out. In expectation.
    fold_in : share of a held-out user's ratings that the model gets to see in the end. At exact counts.

    Raises ConfigError: a share is not between 0 and 1.
    """
    _bounds([fold_in, 1 - fold_in])
    held_out = is_held_out(columns.user, share, seed)
    known, unknown = split_within_users(ratings.where(held_out), [fold_in, 1 - fold_in], seed, columns)
    return HeldOut(ratings.where(~held_out), known, unknown)


def is_held_out(user_column: str, share: float, seed: int = 0) -> Column:
    """Condition by which ``hold_out_users`` takes its users, for test sets that come as a table of their own."""
    _bounds([share, 1 - share])
    return _uniform(seed, user_column) < share


def _hash(seed: int, *id_columns: str) -> Column:
    return F.xxhash64(F.lit(seed), *(quoted(name).cast("string") for name in id_columns))


def _uniform(seed: int, *id_columns: str) -> Column:
    """Hash ids to a number in [0, 1)."""
    return F.shiftrightunsigned(_hash(seed, *id_columns), 64 - _HASH_BITS) * F.lit(2.0**-_HASH_BITS)


def _bounds(shares: Sequence[float]) -> list[float]:
    """End of each part but the last, as a share of all."""
    if len(shares) < 2 or min(shares) <= 0 or not math.isclose(sum(shares), 1, rel_tol=1e-9):
        raise ConfigError(f"shares: found {list(shares)}, expected two or more above 0 that add up to 1")
    return list(accumulate(shares))[:-1]


def _count_passed(value: Column, bounds: Sequence[Column]) -> Column:
    return sum((F.when(value >= bound, 1).otherwise(0) for bound in bounds), F.lit(0))


def _parts(numbered: DataFrame, n_parts: int) -> list[DataFrame]:
    return [numbered.where(F.col(_PART) == number).drop(_PART) for number in range(n_parts)]


def _ranked_parts(
    ratings: DataFrame, first: Sequence[Column], shares: Sequence[float], seed: int, columns: Columns
) -> DataFrame:
    """Each user's ratings numbered in the order of ``first``, then of their hashes, then of the item ids."""
    of_user = Window.partitionBy(quoted(columns.user))
    order = [*first, _hash(seed, columns.user, columns.item), quoted(columns.item)]
    place = F.row_number().over(of_user.orderBy(*order)) - 1
    n = F.count(F.lit(1)).over(of_user)
    bounds = [F.floor(n * F.lit(bound) + 0.5) for bound in _bounds(shares)]
    return ratings.withColumn(_PART, _count_passed(place, bounds))


def _time(ratings: DataFrame, column: str) -> Column:
    if column not in ratings.columns:
        found = ", ".join(ratings.columns)
        raise DataError(f"column {column!r} is missing: the input has {found}; expected one with times")
    kind, value = ratings.schema[column].dataType, quoted(column)
    if isinstance(kind, TimestampType):
        return F.unix_micros(value)
    if isinstance(kind, DateType):
        return F.unix_date(value).cast("long")
    if isinstance(kind, IntegralType):
        return value.cast("long")
    raise DataError(f"column {column!r} is of type {kind.simpleString()}, expected timestamps, dates or whole numbers")


def _moment(times: DataFrame, before: int, low: int, high: int) -> int:
    """Time in place ``before`` (from 0) of all sorted times.

    The range that it lies in is counted in spans, and becomes the one span that holds it, until a single time is left:
    exact, and no sort of everything. A range of 50 years in microseconds takes four rounds.
    """
    while low < high:
        width = -(-(high - low + 1) // _SPANS)
        span = F.expr(f"(time - {low}L) div {width}L").alias("span")
        inside = times.where(F.col("time").between(low, high))
        spans, counts = np.array(sorted(map(tuple, inside.groupBy(span).count().collect()))).T
        ends = np.cumsum(counts)
        at = int(np.searchsorted(ends, before, side="right"))
        before -= int(ends[at] - counts[at])
        low, high = low + int(spans[at]) * width, min(high, low + (int(spans[at]) + 1) * width - 1)
    return low
