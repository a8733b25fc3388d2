"""Changes between two tables of recommendations, row by row and in a few figures.

Both have ``user_id, item_id, rank, score``.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_PAIR = ["user_id", "item_id"]


class Lists(NamedTuple):
    """Figures of one table: lists, rows, different items, short lists, mean and spread of the scores."""

    users: int
    rows: int
    items: int
    short: int
    mean: float
    spread: float


class Turnover(NamedTuple):
    """rows : in the new lists of users who had one before. new : those whose item is new to the list."""

    rows: int
    new: int


def lists_of(table: DataFrame, length: int) -> Lists:
    """Sum up one table. ``length``: rows of a list that is not short."""
    per_user = table.groupBy("user_id").count().agg(F.count("*"), F.count_if(F.col("count") < length)).collect()[0]
    rows, items, mean, spread = table.agg(
        F.count("*"), F.count_distinct("item_id"), F.avg("score"), F.stddev_pop("score")
    ).collect()[0]
    return Lists(int(per_user[0]), int(rows), int(items), int(per_user[1]), float(mean or 0.0), float(spread or 0.0))


def turnover(before: DataFrame, after: DataFrame) -> Turnover:
    """Count how many places of the users of both tables hold another item than before."""
    both = after.join(before.select("user_id").distinct(), "user_id", "left_semi")
    known = before.select(*_PAIR, F.lit(True).alias("known"))
    rows = both.join(known, _PAIR, "left")
    places, new = rows.agg(F.count("*"), F.count_if(F.col("known").isNull())).collect()[0]
    return Turnover(int(places), int(new))


def changes(before: DataFrame | None, after: DataFrame) -> DataFrame:
    """List the rows that came, went, or are at another rank.

    Parameters
    ----------
    before : the table of the run before. None: there is none, and every row is added.
    after : the table of this run.

    Returns
    -------
    DataFrame[user_id, item_id, change, rank_before, rank]
        change : added, removed or moved. A rank is null where the pair has none.
    """
    new = after.select(*_PAIR, F.col("rank"))
    old = new.limit(0) if before is None else before.select(*_PAIR, "rank")
    joined = old.withColumnRenamed("rank", "rank_before").join(new, _PAIR, "full")
    change = F.when(F.col("rank_before").isNull(), "added").when(F.col("rank").isNull(), "removed").otherwise("moved")
    differs = ~F.col("rank_before").eqNullSafe(F.col("rank"))
    return joined.where(differs).select(*_PAIR, change.alias("change"), "rank_before", "rank")
