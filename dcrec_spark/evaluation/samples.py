"""A few users, always the same ones, with what is recommended to them and why."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.explain.text import reasons_text, with_titles
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

_PARTS = ["user_id", "rank", "item_id", "score", "preference", "confounder"]


def sample_lists(ranked: DataFrame, n_users: int, n_items: int, seed: int) -> DataFrame:
    """First places of a few users: those with the smallest hashes of (seed, user).

    Parameters
    ----------
    ranked : DataFrame
        Recommendations: user_id, rank, item_id, score, preference, confounder.
    n_users, n_items : int
        Users chosen, and places of each one's list.
    seed : int
        Another one chooses other users.

    Returns
    -------
    DataFrame
        The columns of ``ranked``.
    """
    users = ranked.select("user_id").distinct()
    chosen = users.orderBy(F.xxhash64(F.lit(seed).cast("long"), F.col("user_id").cast("string")), "user_id")
    rows = ranked.join(F.broadcast(chosen.limit(n_users)), "user_id", "left_semi")
    return rows.where(F.col("rank") <= n_items).select(*_PARTS)


def reasons_for(
    model: DeconfoundedMFModel, lists: DataFrame, ratings: DataFrame, titles: DataFrame | None, n: int
) -> pd.DataFrame:
    """Ratings that carry each score, in words.

    Parameters
    ----------
    model : DeconfoundedMFModel
        The model that ranked the lists.
    lists : DataFrame
        user_id, item_id.
    ratings : DataFrame
        Those of the fit, under the names that the model knows.
    titles : DataFrame, optional
        item_id, title; without them items are called by their ids.
    n : int
        Ratings named for each item.

    Returns
    -------
    pandas.DataFrame
        user_id, item_id, reasons_text.

    Raises
    ------
    DataError
        The ratings are not those of the fit.
    """
    names = {"user_id": model.getOrDefault("userCol"), "item_id": model.getOrDefault("itemCol")}
    explained = model.explain(lists.select(*names).withColumnsRenamed(names), ratings, n)
    try:
        named = explained if titles is None else with_titles(explained, titles)
        name = "item_id" if titles is None else "title"
        return named.select("user_id", "item_id", reasons_text(name=name)).toPandas()
    finally:
        explained.unpersist()
