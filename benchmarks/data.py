"""Ratings to measure with: MovieLens 1M from the data folder, and synthetic ones of any size, cached as Parquet."""

import os
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.evaluation.splits import split_pairs

CACHE = Path(tempfile.gettempdir()) / "dcrec-benchmarks"
DATA = Path(os.environ.get("DCREC_DATA", Path(__file__).parents[2] / "shared" / "data"))


def movielens_1m() -> Path:
    """``user, item, rating`` of MovieLens 1M, with dense integer ids, as MLlib wants them."""
    return _movielens("movielens-1m", DATA / "ml-1m" / "ratings.dat", "::")


def movielens_100k() -> Path:
    """The same of MovieLens 100K."""
    return _movielens("movielens-100k", DATA / "ml-100k" / "u.data", "\t")


def _movielens(name: str, source: Path, separator: str) -> Path:
    path = CACHE / f"{name}.parquet"
    if not path.exists():
        lines = source.read_text().splitlines()
        user, item, rating = np.array([line.split(separator)[:3] for line in lines], np.int64).T
        _write(path, user, item, rating)
    return path


def synthetic(n_users: int, n_items: int, nonzeros: int, seed: int = 0) -> Path:
    """Distinct pairs, users and items of unequal activity (log-normal), ratings 1 to 5."""
    path = CACHE / f"synthetic-{n_users}-{n_items}-{nonzeros}-{seed}.parquet"
    if not path.exists():
        rng = np.random.default_rng(seed)
        activity, popularity = rng.lognormal(0, 1, n_users), rng.lognormal(0, 1.2, n_items)
        pairs = np.empty(0, np.int64)
        while len(pairs) < nonzeros:
            drawn = rng.choice(n_users, nonzeros, p=activity / activity.sum()) * n_items
            drawn += rng.choice(n_items, nonzeros, p=popularity / popularity.sum())
            pairs = np.union1d(pairs, drawn)
        pairs = rng.choice(pairs, nonzeros, replace=False)
        _write(path, pairs // n_items, pairs % n_items, rng.integers(1, 6, nonzeros))
    return path


def skewed(n_users: int, n_items: int, nonzeros: int) -> Path:
    """Distinct pairs as of :func:`synthetic`; 60 % of all users have rated item 0, and user 0 80 % of all items."""
    path = CACHE / f"skewed-{n_users}-{n_items}-{nonzeros}.parquet"
    if not path.exists():
        rng = np.random.default_rng(0)
        drawn = pq.read_table(synthetic(n_users, n_items, nonzeros)).to_pandas()
        pairs = drawn["user"].to_numpy(np.int64) * n_items + drawn["item"]
        hot_item = rng.choice(n_users, int(0.6 * n_users), replace=False) * np.int64(n_items)
        hot_user = rng.choice(n_items, int(0.8 * n_items), replace=False)
        pairs = np.unique(np.concatenate([pairs, hot_item, hot_user]))
        _write(path, pairs // n_items, pairs % n_items, rng.integers(1, 6, len(pairs)))
    return path


def _write(path: Path, user: np.ndarray, item: np.ndarray, rating: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    user, item = (np.unique(ids, return_inverse=True)[1].astype(np.int32) for ids in (user, item))
    table = pa.table({"user": user, "item": item, "rating": rating.astype(np.float64)})
    pq.write_table(table, path, row_group_size=1 << 18)


def coat(spark: SparkSession, folder: Path) -> list[DataFrame]:
    """Training, and a test of items drawn at random, without the 366 cells that are in both."""
    train, test = (_ratings(spark, "coat", folder / "coat" / f"{part}.ascii") for part in ("train", "test"))
    return [train, test.join(train, ["user", "item"], "left_anti")]


def movielens_100k_split(spark: SparkSession, folder: Path) -> list[DataFrame]:
    """Four fifths and one, by the hash of user and item."""
    return split_pairs(_ratings(spark, "movielens", folder / "ml-100k" / "u.data"), (0.8, 0.2))


def _ratings(spark: SparkSession, kind: Literal["coat", "movielens"], path: Path) -> DataFrame:
    raw = read_ratings(spark, InputConfig(format=kind, path=str(path)))
    ratings = validate(raw, ValidationConfig(scale_min=1, scale_max=5)).ratings
    return ratings.select(F.col("user_id").alias("user"), F.col("item_id").alias("item"), "rating")
