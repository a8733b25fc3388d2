"""Items that are alike by their preference factors, each with those nearest to it.

cosine          beta_i . beta_j / (|beta_i| |beta_j|)      alike in kind, however much they are liked
inner_product   beta_i . beta_j                            alike in kind and strong: large factors come first

The confounder's factors have no part in it: they say who is shown an item, not what it is like.
"""

from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.outcome.rank import Ranking, rank
from dcrec_spark.models.outcome.vectors import Offer

Similarity = Literal["cosine", "inner_product"]


def similar(
    rows: DataFrame,
    n_rows: int,
    n: int,
    similarity: Similarity,
    offer: Offer | None,
    name: str = "item",
) -> DataFrame:
    """Rank the n rows of a side that are most like each of its rows.

    Parameters
    ----------
    rows : ``idx, id, features``. n_rows : of the side, those without factors too.
    offer : the rows that may be named as similar. All, if None.
    name : of the side, in the names of the columns.

    Returns
    -------
    DataFrame[{name}_id, rank, similar_{name}_id, similarity]

    Raises
    ------
    ValueError : n is no whole number >= 1, or there is no such similarity.
    """
    require_number("n", n)
    if similarity not in get_args(Similarity):
        raise ValueError(f"similarity: found {similarity!r}, expected {' or '.join(get_args(Similarity))}")
    vector = _unit(F.col("features")) if similarity == "cosine" else F.col("features")
    nothing = F.expr("cast(array() as array<double>)").alias("confounder")
    vectors = rows.select("idx", "id", vector.alias("preference"), nothing)
    cols = vectors if offer is None else offer.of(vectors)
    itself = vectors.select(F.col("idx").alias("row_idx"), F.col("idx").alias("col_idx"))
    most = None if offer is None else offer.most
    ranking = Ranking(vectors.drop("id"), cols.drop("id"), n_rows, n_rows, intercept=0.0, most=most)
    ranked = rank(ranking, n, itself)
    ids = {"row_idx": f"{name}_id", "col_idx": f"similar_{name}_id"}
    for idx, column in ids.items():
        ranked = ranked.join(rows.select(F.col("idx").alias(idx), F.col("id").alias(column)), idx)
    return ranked.select(ids["row_idx"], "rank", ids["col_idx"], F.col("score").alias("similarity"))


def _unit(vector: Column) -> Column:
    """Return the vector at length 1. One of zeros stays as it is, like nothing."""
    length = F.sqrt(F.aggregate(vector, F.lit(0.0), lambda total, x: total + x * x))
    return F.when(length > 0, F.transform(vector, lambda x: x / length)).otherwise(vector)
