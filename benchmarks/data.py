"""Ratings to measure with: MovieLens 1M from the data folder, and synthetic ones of any size, cached as Parquet."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(tempfile.gettempdir()) / "dcrec-benchmarks"
DATA = Path(os.environ.get("DCREC_DATA", Path(__file__).parents[2] / "shared" / "data"))


def movielens_1m() -> Path:
    """``user, item, rating`` of MovieLens 1M, with dense integer ids, as MLlib wants them."""
    path = CACHE / "movielens-1m.parquet"
    if not path.exists():
        lines = (DATA / "ml-1m" / "ratings.dat").read_text().splitlines()
        user, item, rating = np.array([line.split("::")[:3] for line in lines], np.int64).T
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


def _write(path: Path, user: np.ndarray, item: np.ndarray, rating: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    user, item = (np.unique(ids, return_inverse=True)[1].astype(np.int32) for ids in (user, item))
    table = pa.table({"user": user, "item": item, "rating": rating.astype(np.float64)})
    pq.write_table(table, path, row_group_size=1 << 18)
