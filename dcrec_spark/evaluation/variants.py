"""What a model is compared with that was never fitted: scores from its vectors, changed, so that one code ranks all.

The vectors share the cached tables of the model that they come from, which has to outlive them.
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.outcome.vectors import ScoringVectors


def one_list_for_all(vectors: ScoringVectors, scores: DataFrame) -> ScoringVectors:
    """Return a model's users and items, ranked by a score of the items alone, plus the model's intercept.

    Parameters
    ----------
    scores : DataFrame[item_id, score]; an item that is not in it scores 0.
    """
    known = vectors.items.join(scores.select(F.col("item_id").alias("id"), "score"), "id", "left")
    preference = F.array(F.coalesce("score", F.lit(0.0)).cast("double"))
    return replace(
        vectors,
        users=_without_confounder(vectors.users).withColumn("preference", F.array(F.lit(1.0))),
        items=known.withColumn("preference", preference).select(*vectors.items.columns),
    )


def _without_confounder(users: DataFrame) -> DataFrame:
    return users.withColumn("confounder", F.transform("confounder", lambda x: x * 0.0))
