"""Audit of the tables of lists and of overlap before anyone reads them, and changes of lists since the run before."""

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import AuditError

_PAIR = ["user_id", "item_id"]


def audit_recommendations(
    table: DataFrame, seen: DataFrame | None, items: DataFrame | None = None, most: int | None = None
) -> None:
    """Refuse recommendations that break a promise to their readers.

    seen : user_id, item_id that were to be left out. None when seen items may be recommended.
    items : item_id (, category) on offer. most : of one category in a list. None: any.
    Raises AuditError: names each broken promise, with how many users, scores or rows break it.
    """
    numbers = [c for c in ("score", "preference", "confounder", "low", "high") if c in table.columns]
    # NaN is greater than every number in Spark.
    finite = reduce(and_, [F.coalesce(F.abs(c) < float("inf"), F.lit(False)) for c in numbers])
    per_user = table.groupBy("user_id").agg(
        F.count("*").alias("rows"),
        F.count_distinct("rank").alias("ranks"),
        F.max("rank").alias("last"),
        F.min("rank").alias("first"),
        F.count_distinct("item_id").alias("items"),
        F.count_if(~finite).alias("not_finite"),
    )
    contiguous = (F.col("first") == 1) & (F.col("last") == F.col("rows")) & (F.col("ranks") == F.col("rows"))
    breaches = per_user.agg(
        F.count("*").alias("users"),
        F.count_if(~F.coalesce(contiguous, F.lit(False))).alias("users whose ranks do not run from 1 without gaps"),
        F.count_if(F.col("items") < F.col("rows")).alias("users with an item twice, or missing"),
        F.coalesce(F.sum("not_finite"), F.lit(0)).alias("scores that are null, NaN or infinite"),
    ).collect()[0].asDict()  # fmt: skip
    if breaches.pop("users") == 0:
        raise AuditError(
            "the recommendations are empty: every user has seen every item, or none was ranked. "
            "recommend.exclude_seen=false recommends seen items too. Where everybody has rated everything, nothing "
            "confounds: outcome.adjustment=none (adjustment='none' in Python) fits without an exposure model"
        )
    if seen is not None:
        pairs = seen.select(*_PAIR)
        breaches["recommended items that the user has seen"] = table.join(pairs, _PAIR, "left_semi").count()
    if items is not None:
        foreign = table.join(items.select("item_id"), "item_id", "left_anti").count()
        breaches["recommended items that are not on offer"] = foreign
    if items is not None and most is not None:
        alike = table.join(items, "item_id").where("category is not null").groupBy("user_id", "category").count()
        over = alike.where(F.col("count") > most).select("user_id").distinct().count()
        breaches[f"users with more than {most} items of one category"] = over
    broken = [f"{count} {promise}" for promise, count in breaches.items() if count]
    if broken:
        raise AuditError(f"the recommendations were not published: {'; '.join(broken)}")


def audit_overlap(table: DataFrame, side: str) -> None:
    """Refuse a table of overlap that breaks a promise. One without rows will do: its users may have rated nothing.

    Raises AuditError: names each broken promise, with how many rows break it.
    """
    ratings, worth, p = F.col("ratings"), F.col("effective_ratings"), F.col("smallest_propensity")
    low, mean, high = F.col("mean_low"), F.col("mean_rating"), F.col("mean_high")
    rounding = 1e-9 * F.greatest(F.lit(1.0), F.abs(low), F.abs(high))
    promises = {
        f"{side}s that are worth less than one rating, or more than they have": (
            (worth >= 1 - 1e-9) & (worth <= ratings * (1 + 1e-9))
        ),
        "propensities that are no probabilities": p.between(0.0, 1.0),
        "means that are not between their bounds, or infinite": (
            (low <= mean + rounding) & (mean <= high + rounding) & (F.abs(low) < float("inf")) & (high < float("inf"))
        ),
    }
    counts = [F.count_if(~F.coalesce(keeps, F.lit(False))).alias(promise) for promise, keeps in promises.items()]
    twice = (F.count("*") - F.count_distinct(f"{side}_id")).alias(f"rows beyond one for each {side}")
    breaches = table.agg(twice, *counts).collect()[0].asDict()
    broken = [f"{count} {promise}" for promise, count in breaches.items() if count]
    if broken:
        raise AuditError(f"the table {side}_overlap was not published: {'; '.join(broken)}")


def turnover(before: DataFrame, after: DataFrame) -> tuple[int, int]:
    """Count the places of the users of both tables, and those that hold another item than before."""
    both = after.join(before.select("user_id").distinct(), "user_id", "left_semi")
    rows = both.join(before.select(*_PAIR, F.lit(True).alias("known")), _PAIR, "left")
    places, new = rows.agg(F.count("*"), F.count_if(F.col("known").isNull())).collect()[0]
    return int(places), int(new)


def changes(before: DataFrame | None, after: DataFrame) -> DataFrame:
    """List the rows that came, went, or are at another rank. Without a run before, every row is added.

    Returns user_id, item_id, change (added, removed or moved), rank_before, rank: null where the pair has none.
    """
    new = after.select(*_PAIR, F.col("rank"))
    old = new.limit(0) if before is None else before.select(*_PAIR, "rank")
    joined = old.withColumnRenamed("rank", "rank_before").join(new, _PAIR, "full")
    change = F.when(F.col("rank_before").isNull(), "added").when(F.col("rank").isNull(), "removed").otherwise("moved")
    differs = ~F.col("rank_before").eqNullSafe(F.col("rank"))
    return joined.where(differs).select(*_PAIR, change.alias("change"), "rank_before", "rank")
