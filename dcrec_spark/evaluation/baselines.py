"""Scores that need no model, which a model has to beat, as columns of the test ratings.

Frames have ``user_id, item_id, rating``. An item without training ratings has the mean of all, and popularity 0.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.outcome.vectors import ScoringVectors

RANDOM, GLOBAL_MEAN, ITEM_MEAN, POPULARITY = "random", "global mean", "item mean", "popularity"
BASELINES = (RANDOM, GLOBAL_MEAN, ITEM_MEAN, POPULARITY)
# These scores rank and are no ratings, so they have no errors.
RANK_ONLY = (RANDOM, POPULARITY)


def with_baselines(test: DataFrame, training: DataFrame, seed: int = 0) -> DataFrame:
    """Add a column for each of BASELINES.

    ``random`` is from 0 to 1, by the hash of (seed, user, item) and of nothing else. ``global mean`` and ``item mean``
    are of the training ratings. ``popularity`` is the number of training ratings of the item.
    """
    mean = training.agg(F.avg("rating").alias("__mean"))
    ids = [F.col(name).cast("string") for name in ("user_id", "item_id")]
    uniform = F.shiftrightunsigned(F.xxhash64(F.lit(seed).cast("long"), *ids), 11) * F.lit(2.0**-53)
    of_items = training.groupBy("item_id").agg(F.count("*").alias("ratings"), F.avg("rating").alias("mean_rating"))
    joined = test.join(of_items, "item_id", "left").crossJoin(F.broadcast(mean))
    return joined.select(
        *test.columns,
        uniform.alias(RANDOM),
        F.col("__mean").alias(GLOBAL_MEAN),
        F.coalesce("mean_rating", "__mean").alias(ITEM_MEAN),
        F.coalesce("ratings", F.lit(0)).cast("double").alias(POPULARITY),
    )


def rank_by_popularity(vectors: ScoringVectors, training: DataFrame) -> ScoringVectors:
    """Rank a model's items by their training ratings, for all of its users alike. Scores have the intercept added.

    The vectors share the cached tables of the model, which has to outlive them.
    """
    users = vectors.users.withColumns(
        {"preference": F.array(F.lit(1.0)), "confounder": F.transform("confounder", lambda x: x * 0.0)}
    )
    counts = training.groupBy(F.col("item_id").alias("id")).agg(F.count("*").alias("ratings"))
    preference = F.array(F.coalesce("ratings", F.lit(0)).cast("double"))
    known = vectors.items.join(counts, "id", "left").withColumn("preference", preference)
    items = known.select(*vectors.items.columns)
    return replace(vectors, users=users, items=items, exposure_weight=0.0)
