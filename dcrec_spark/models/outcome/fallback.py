"""One list for whoever has no ratings: the items that all users together would like best.

    score_i = mean over users of the potential rating y_ui(1) = E[theta] . beta_i + E[gamma pi] . lambda_i + intercept

Everybody's potential rating counts, not only those of the users who were shown the item, so what is merely seen most
does not come first.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError
from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.outcome.rank import Ranking, rank
from dcrec_spark.models.outcome.vectors import Offer, ScoringVectors


def fallback(vectors: ScoringVectors, n: int, offer: Offer | None) -> DataFrame:
    """Rank the items by their mean potential rating.

    Returns
    -------
    DataFrame[rank, item_id, score, preference, confounder]

    Raises
    ------
    ValueError : n is no whole number >= 1. ConfigError : the confounder is a link of a_hat: the mean of its products is
        not the product of means.
    """
    require_number("n", n)
    if not vectors.form.is_low_rank:
        raise ConfigError(
            f"a list for users without ratings needs confounderLink=identity; this model has {vectors.form.link}"
        )
    spark = vectors.users.sparkSession
    mean = [0, *(_mean(vectors.users, part) for part in ("preference", "confounder"))]
    everybody = spark.createDataFrame([mean], "idx long, preference array<double>, confounder array<double>")
    items = vectors.items if offer is None else offer.of(vectors.items)
    most = None if offer is None else offer.most
    ranked = rank(Ranking(everybody, items.drop("id"), 1, vectors.n_items, vectors.intercept, most=most), n, None)
    ids = vectors.items.select(F.col("idx").alias("col_idx"), F.col("id").alias("item_id"))
    return ranked.join(ids, "col_idx").select("rank", "item_id", "score", "preference", "confounder")


def _mean(users: DataFrame, part: str) -> list[float]:
    """Average vectors, number by number."""
    by_place = users.select(F.posexplode(part)).groupBy("pos").agg(F.avg("col").alias("mean"))
    return [float(row["mean"]) for row in by_place.orderBy("pos").collect()]
