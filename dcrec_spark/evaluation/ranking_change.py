"""Changes of the recommendations when another model makes them, or a part of the score is left out.

Both tables have ``user_id, item_id, rank`` from 1, for the same users, deeper than the ``k`` that is looked at.
"""

from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_PAIR = ["user_id", "item_id"]


@dataclass(frozen=True)
class RankingChange:
    """Changes from ``before`` to ``after``, in the first k places of each user.

    Parameters
    ----------
    k, depth : int
        Places that are compared, and depth of the old lists.
    users, places : int
        Lists compared, and their places.
    kept : float
        Share of these places that hold an item of the other list.
    replaced : pandas.DataFrame
        replaced, users: how many users have so many new items.
    moves : pandas.DataFrame
        move, n: by how many places items of the new lists rose (> 0) or fell.
    entered : int
        Items of the new lists that were not among the first ``depth``.
    popularity : (float, float)
        Mean number of training ratings of a listed item, before and after.
    items : pandas.DataFrame
        item_id, before, after (lists the item is in), ratings; those with the largest gains, then losses.
    """

    k: int
    depth: int
    users: int
    places: int
    kept: float
    replaced: pd.DataFrame
    moves: pd.DataFrame
    entered: int
    popularity: tuple[float, float]
    items: pd.DataFrame


def ranking_change(
    before: DataFrame, after: DataFrame, statistics: DataFrame, k: int, depth: int, shown: int = 8
) -> RankingChange:
    """Compare two tables of recommendations.

    Parameters
    ----------
    before, after : DataFrame
        user_id, item_id, rank from 1, for the same users.
    statistics : DataFrame
        item_id, ratings: how many each has in training.
    k, depth : int
        Places that are compared, and depth of the lists.
    shown : int
        Items with gains, and with losses, at most.

    Returns
    -------
    RankingChange
    """
    old = before.select(*_PAIR, F.col("rank").alias("old_rank"))
    listed = after.where(F.col("rank") <= k).select(*_PAIR, "rank").join(old, _PAIR, "left")
    moved = F.when(F.col("old_rank") <= depth, F.col("old_rank") - F.col("rank"))
    rows = listed.withColumn("move", moved).withColumn("is_new", F.coalesce(F.col("old_rank") > k, F.lit(True)))
    of_users = rows.groupBy("user_id").agg(F.count("*").alias("places"), F.count_if("is_new").alias("replaced"))
    replaced = of_users.groupBy("replaced").agg(F.count("*").alias("users"), F.sum("places").alias("places")).toPandas()
    moves = rows.groupBy("move").count().toPandas().rename(columns={"count": "n"})
    users, places = int(replaced.users.sum()), int(replaced.places.sum())
    by_item = _places_by_item(before, after, statistics, k)
    return RankingChange(
        k=k,
        depth=depth,
        users=users,
        places=places,
        kept=1.0 - float((replaced.replaced * replaced.users).sum()) / places,
        replaced=_filled(replaced.set_index("replaced").users, range(k + 1), "replaced", "users"),
        moves=moves[moves.move.notna()].astype("int64").sort_values("move", ignore_index=True),
        entered=int(moves.n[moves.move.isna()].sum()),
        popularity=_mean_popularity(by_item),
        items=_movers(by_item, shown),
    )


def _places_by_item(before: DataFrame, after: DataFrame, statistics: DataFrame, k: int) -> DataFrame:
    """Count the lists that each item is in: item_id, before, after, and ratings in training."""
    tables = [table.where(F.col("rank") <= k).select("item_id", F.lit(is_new).alias("is_new"))
              for table, is_new in ((before, False), (after, True))]  # fmt: skip
    places = tables[0].unionByName(tables[1]).groupBy("item_id")
    counts = places.agg(F.count_if(~F.col("is_new")).alias("before"), F.count_if("is_new").alias("after"))
    known = statistics.select("item_id", "ratings")
    return counts.join(known, "item_id", "left").fillna(0, ["ratings"])


def _mean_popularity(by_item: DataFrame) -> tuple[float, float]:
    sums = [F.sum(F.col(name) * F.col("ratings")) / F.sum(name) for name in ("before", "after")]
    before, after = by_item.agg(*sums).collect()[0]
    return float(before), float(after)


def _movers(by_item: DataFrame, shown: int) -> pd.DataFrame:
    gain = F.col("after") - F.col("before")
    gains = by_item.where(gain > 0).orderBy(gain.desc(), "item_id").limit(shown).toPandas()
    losses = by_item.where(gain < 0).orderBy(gain.asc(), "item_id").limit(shown).toPandas()
    return pd.concat([gains, losses], ignore_index=True)


def _filled(counts: "pd.Series[int]", index: range, name: str, value: str) -> pd.DataFrame:
    whole = counts.reindex(index, fill_value=0)
    return pd.DataFrame({name: list(index), value: whole.to_numpy()})
