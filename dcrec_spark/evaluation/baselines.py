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

    test, training : user_id, item_id, rating. seed : Of the random scores.
    Returns the columns of ``test``, then ``random``, ``global mean``, ``item mean``, ``popularity``: double.
    """
    mean = training.agg(F.avg("rating").alias("__mean"))
    ids = [F.col(name).cast("string") for name in ("user_id", "item_id")]
    uniform = F.shiftrightunsigned(F.xxhash64(F.lit(seed).cast("long"), *ids), 11) * F.lit(2.0**-53)
    joined = test.join(item_statistics(training), "item_id", "left").crossJoin(F.broadcast(mean))
    return joined.select(
        *test.columns,
        uniform.alias(RANDOM),
        F.col("__mean").alias(GLOBAL_MEAN),
        F.coalesce("mean_rating", "__mean").alias(ITEM_MEAN),
        F.coalesce("ratings", F.lit(0)).cast("double").alias(POPULARITY),
    )


def item_statistics(training: DataFrame) -> DataFrame:
    """Count and average each item's training ratings: item_id, ratings: long, mean_rating: double."""
    return training.groupBy("item_id").agg(F.count("*").alias("ratings"), F.avg("rating").alias("mean_rating"))


def one_list_for_all(vectors: ScoringVectors, scores: DataFrame) -> ScoringVectors:
    """Rank a model's users and items by a score of the items alone.

    The vectors share the cached tables of the model, which has to outlive them.

    scores : item_id, score. An item that is missing scores 0. The result's score has the model's intercept added.
    """
    users = vectors.users.withColumns(
        {"preference": F.array(F.lit(1.0)), "confounder": F.transform("confounder", lambda x: x * 0.0)}
    )
    known = vectors.items.join(scores.select(F.col("item_id").alias("id"), "score"), "id", "left")
    preference = F.array(F.coalesce("score", F.lit(0.0)).cast("double"))
    items = known.withColumn("preference", preference).select(*vectors.items.columns)
    return replace(vectors, users=users, items=items, exposure_weight=0.0)
