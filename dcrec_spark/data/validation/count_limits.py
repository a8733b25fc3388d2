"""Rules about how many ratings a user or an item has.

All limits are applied at once, to the rows that are good in themselves, before anything is left out: where leaving out
an item brings a user below the minimum, that user stays. Several rows of one user and item count as one rating.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.config import ValidationConfig
from dcrec_spark.data.columns import no_reasons

TOO_FEW_USER = "too_few_ratings_user"
TOO_FEW_ITEM = "too_few_ratings_item"
TOO_MANY_USER = "too_many_ratings_user"
LIMITS = (TOO_FEW_USER, TOO_FEW_ITEM, TOO_MANY_USER)


def has_limits(config: ValidationConfig) -> bool:
    """Whether the configuration leaves out ratings by their number."""
    fewest = max(config.min_ratings_per_user, config.min_ratings_per_item)
    return fewest > 1 or config.max_ratings_per_user is not None


def apply_limits(checked: DataFrame, config: ValidationConfig, seed: int) -> DataFrame:
    """Add the reasons of :data:`LIMITS` to good rows.

    A cap leaves each user the most recent ratings. Those of one time, or all where there are no times, are ordered by
    a hash of (seed, user, item), so that the choice is the same on every run and on every cluster.

    checked : from :func:`~dcrec_spark.data.validation.row_rules.check_rows`. The columns stay the same.
    """
    recency = F.max("timestamp") if "timestamp" in checked.columns else F.lit(None).cast("long")
    good = F.size("reasons") == 0
    pairs = checked.filter(good).groupBy("user_id", "item_id").agg(recency.alias("recency"))
    labelled = checked.withColumn("limits", no_reasons())
    if config.min_ratings_per_user > 1:
        few = _sizes(pairs, "user_id").filter(F.col("size") < config.min_ratings_per_user)
        labelled = _label(labelled, few, ["user_id"], TOO_FEW_USER)
    if config.min_ratings_per_item > 1:
        few = _sizes(pairs, "item_id").filter(F.col("size") < config.min_ratings_per_item)
        labelled = _label(labelled, few, ["item_id"], TOO_FEW_ITEM)
    if config.max_ratings_per_user is not None:
        many = _sizes(pairs, "user_id").filter(F.col("size") > config.max_ratings_per_user)
        beyond = _beyond_the_cap(pairs.join(many, "user_id"), config.max_ratings_per_user, seed)
        labelled = _label(labelled, beyond, ["user_id", "item_id"], TOO_MANY_USER)
    reasons = F.when(good, F.col("limits")).otherwise(F.col("reasons"))
    return labelled.withColumn("reasons", reasons).drop("limits")


def _sizes(pairs: DataFrame, side: str) -> DataFrame:
    return pairs.groupBy(side).agg(F.count(F.lit(1)).alias("size"))


def _beyond_the_cap(pairs: DataFrame, cap: int, seed: int) -> DataFrame:
    hashed = F.xxhash64(F.lit(seed), F.col("user_id"), F.col("item_id"))
    newest_first = Window.partitionBy("user_id").orderBy(F.desc_nulls_last("recency"), hashed, "item_id")
    return pairs.withColumn("place", F.row_number().over(newest_first)).filter(F.col("place") > cap)


def _label(frame: DataFrame, named: DataFrame, keys: list[str], reason: str) -> DataFrame:
    mark = named.select(*keys, F.array(F.lit(reason)).alias("mark"))
    limits = F.concat("limits", F.coalesce("mark", no_reasons()))
    return frame.join(mark, keys, "left").withColumn("limits", limits).drop("mark")
