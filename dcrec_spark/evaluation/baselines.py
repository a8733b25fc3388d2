"""Scores that need no model, which a model has to beat, as columns of the test ratings.

Frames have ``user_id, item_id, rating``. An item without training ratings has the mean of all, and popularity 0.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

RANDOM, GLOBAL_MEAN, ITEM_MEAN, POPULARITY = "random", "global mean", "item mean", "popularity"
BASELINES = (RANDOM, GLOBAL_MEAN, ITEM_MEAN, POPULARITY)
# These scores rank and are no ratings, so they have no errors.
RANK_ONLY = (RANDOM, POPULARITY)


def with_baselines(test: DataFrame, training: DataFrame, seed: int = 0) -> DataFrame:
    """Add a column for each of BASELINES.

    ``random`` is from 0 to 1, by the hash of (seed, user, item) and of nothing else; ``global mean`` and ``item mean``
    are of the training ratings; ``popularity`` is the number of training ratings of the item.

    Parameters
    ----------
    test, training : DataFrame
        user_id, item_id, rating.
    seed : int
        Of the random scores.

    Returns
    -------
    DataFrame
        The columns of ``test``, then ``random``, ``global mean``, ``item mean``, ``popularity``: double.
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
