"""The rows that need no tuning, and MLlib's ALS, which every comparison shows beside the models."""

from collections.abc import Mapping
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine.cells import Array
from dcrec_spark.local.data import Parts

BASELINES = ("random", "global-mean", "item-mean", "popularity")
ALS_ROW = "mllib-als"
ALS_SETTINGS = [(rank, reg) for rank in (5, 20) for reg in (0.03, 0.1, 0.3)]
_ALS_SWEEPS = 15


def baselines(parts: Parts, fit: tuple[str, ...], predict: str, seed: int) -> dict[str, Array]:
    """Row -> scores of the pairs to predict, (n,). Popularity, a number of ratings, has no errors worth reading."""
    known, pairs = parts.ratings(*fit), parts.of[predict]
    count = np.bincount(known.item, minlength=len(parts.item_key)).astype(np.float64)
    total = np.bincount(known.item, known.rating, minlength=len(parts.item_key))
    mean = known.rating.mean()
    item_mean = np.divide(total, count, out=np.full(len(count), mean), where=count > 0)
    low, high = known.rating.min(), known.rating.max()
    return {
        "random": np.random.default_rng(seed).uniform(low, high, len(pairs["item"])),
        "global-mean": np.full(len(pairs["item"]), mean),
        "item-mean": item_mean[pairs["item"]],
        "popularity": count[pairs["item"]],
    }


def mllib_als(
    spark: SparkSession, parts: Parts, fit: tuple[str, ...], predict: str, of: tuple[int, float], seed: int
) -> Array:
    """Scores of MLlib's ALS with explicit ratings, (n,). of : rank and regParam."""
    rank, reg = of
    known = parts.ratings(*fit)
    train = _frame(spark, {"user": known.user, "item": known.item, "rating": known.rating})
    pairs = {**parts.of[predict], "place": np.arange(len(parts.of[predict]["user"]))}
    columns = {"userCol": "user", "itemCol": "item", "ratingCol": "rating"}
    als = ALS(rank=rank, regParam=reg, maxIter=_ALS_SWEEPS, seed=seed, **columns)  # type: ignore[arg-type]
    with TemporaryDirectory() as scratch:
        # Without checkpoints its lineage can overflow the JVM's stack.
        spark.sparkContext.setCheckpointDir(scratch)
        scored = als.fit(train).transform(_frame(spark, pairs)).select("place", "prediction").toArrow()
        scored = scored.sort_by("place")
    return np.asarray(scored["prediction"].to_numpy(), np.float64)


def _frame(spark: SparkSession, columns: Mapping[str, Array]) -> DataFrame:
    narrow = {n: c.astype(np.int32) if n in ("user", "item") else c for n, c in columns.items()}
    return spark.createDataFrame(pa.table(narrow))
