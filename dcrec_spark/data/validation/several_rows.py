"""Rules about several rows: how many ratings a user or an item has, and duplicates.

All limits are applied at once, to the rows that are good in themselves, before anything is left out: where leaving out
an item brings a user below the minimum, that user stays. Several rows of one user and item count as one rating.
Duplicates are an error, or one rating is made of them.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.config.sections import ValidationConfig
from dcrec_spark.data.columns import NUMBERS, no_reasons
from dcrec_spark.errors import ConfigError, DataError, cut

KEY = ["user_id", "item_id"]
TOO_FEW_USER = "too_few_ratings_user"
TOO_FEW_ITEM = "too_few_ratings_item"
TOO_MANY_USER = "too_many_ratings_user"
LIMITS = (TOO_FEW_USER, TOO_FEW_ITEM, TOO_MANY_USER)


def require_none(good: DataFrame) -> None:
    """Refuse ratings in which a pair has several rows. Raises DataError: names their numbers, and one of them."""
    several = good.groupBy(*KEY).agg(F.count(F.lit(1)).alias("rows")).filter(F.col("rows") > 1)
    pairs, rows, first = several.agg(F.count("*"), F.sum("rows"), F.min(F.struct(*KEY, "rows"))).collect()[0]
    if not pairs:
        return
    raise DataError(
        f"{pairs} pairs of user and item have more than one row ({rows} rows in all), for "
        f"example user {cut(first['user_id'])} and item {cut(first['item_id'])} with {first['rows']} rows; "
        "expected one row each. Clean the input, or set validation.duplicates to last, mean or sum"
    )


def merge(good: DataFrame, config: ValidationConfig) -> DataFrame:
    """Make one row per user and item, with ``rows``, the number of rows that it was made of.

    ``duplicates = last`` takes the row with the latest timestamp, and of equal times the larger rating, then count.
    ``mean`` and ``sum`` are of ratings and of counts, with the mean propensity and the latest timestamp.

    Raises ConfigError: ``last`` without timestamps.
    """
    values = [name for name in NUMBERS if name in good.columns]
    has_time = "timestamp" in good.columns
    if config.duplicates == "last":
        if not has_time:
            raise ConfigError(
                "setting validation.duplicates: found 'last', but the input has no timestamp; set "
                "input.columns.timestamp, or choose mean, sum or error"
            )
        latest = F.max(F.struct("timestamp", *values))
        merged = [latest[name].alias(name) for name in values]
    else:
        means = values if config.duplicates == "mean" else ["propensity"]
        merged = [_in_order(name, mean=name in means).alias(name) for name in values]
    if has_time:
        merged.append(F.max("timestamp").alias("timestamp"))
    return good.groupBy(*KEY).agg(*merged, F.count(F.lit(1)).alias("rows"))


def _in_order(name: str, mean: bool) -> Column:
    """Sum or mean, added up smallest first: rows come in any order, and the last digits of a sum depend on it."""
    numbers = F.array_sort(F.collect_list(F.col(name).cast("double")))
    total = F.when(F.size(numbers) > 0, F.aggregate(numbers, F.lit(0.0), lambda a, b: a + b))
    return total / F.size(numbers) if mean else total


def apply_limits(checked: DataFrame, config: ValidationConfig, seed: int) -> DataFrame:
    """Add the reasons of :data:`LIMITS` to good rows. The columns stay the same.

    A cap leaves each user the most recent ratings. Those of one time, or all where there are no times, are ordered by
    a hash of (seed, user, item), so that the choice is the same on every run and on every cluster.
    """
    recency = F.max("timestamp") if "timestamp" in checked.columns else F.lit(None).cast("long")
    good = F.size("reasons") == 0
    pairs = checked.filter(good).groupBy("user_id", "item_id").agg(recency.alias("recency"))
    labelled = checked.withColumn("limits", no_reasons())
    for side, fewest, reason in (
        ("user_id", config.min_ratings_per_user, TOO_FEW_USER),
        ("item_id", config.min_ratings_per_item, TOO_FEW_ITEM),
    ):
        if fewest > 1:
            labelled = _label(labelled, _sizes(pairs, side).filter(F.col("size") < fewest), [side], reason)
    if config.max_ratings_per_user is not None:
        many = _sizes(pairs, "user_id").filter(F.col("size") > config.max_ratings_per_user)
        hashed = F.xxhash64(F.lit(seed), F.col("user_id"), F.col("item_id"))
        newest_first = Window.partitionBy("user_id").orderBy(F.desc_nulls_last("recency"), hashed, "item_id")
        placed = pairs.join(many, "user_id").withColumn("place", F.row_number().over(newest_first))
        beyond = placed.filter(F.col("place") > config.max_ratings_per_user)
        labelled = _label(labelled, beyond, ["user_id", "item_id"], TOO_MANY_USER)
    reasons = F.when(good, F.col("limits")).otherwise(F.col("reasons"))
    return labelled.withColumn("reasons", reasons).drop("limits")


def _sizes(pairs: DataFrame, side: str) -> DataFrame:
    return pairs.groupBy(side).agg(F.count(F.lit(1)).alias("size"))


def _label(frame: DataFrame, named: DataFrame, keys: list[str], reason: str) -> DataFrame:
    mark = named.select(*keys, F.array(F.lit(reason)).alias("mark"))
    limits = F.concat("limits", F.coalesce("mark", no_reasons()))
    return frame.join(mark, keys, "left").withColumn("limits", limits).drop("mark")
