"""Ratings to measure with: MovieLens 1M from the data folder, and synthetic ones of any size, cached as Parquet."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(tempfile.gettempdir()) / "dcrec-benchmarks"
_AT_ONCE, _LEFT = 5_000_000, 0.01
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
    """Distinct pairs, users and items of unequal activity (log-normal), ratings 1 to 5.

    There may be a few pairs less than ``nonzeros``: no user has rated more than half of the items.
    """
    path = CACHE / f"drawn-{n_users}-{n_items}-{nonzeros}-{seed}.parquet"
    if not path.exists():
        rng = np.random.default_rng(seed)
        activity, popularity = rng.lognormal(0, 1, n_users), rng.lognormal(0, 1.2, n_items)
        wanted = np.minimum(rng.multinomial(nonzeros, activity / activity.sum()), n_items // 2)
        share = np.cumsum(popularity) / popularity.sum()
        # Some users at a time: a hundred million pairs at once would take minutes to sort.
        ends = np.searchsorted(np.cumsum(wanted), np.arange(_AT_ONCE, nonzeros, _AT_ONCE)) + 1
        pairs = np.concatenate([_drawn(rng, users, wanted, share) for users in np.split(np.arange(n_users), ends)])
        _write(path, pairs // n_items, pairs % n_items, rng.integers(1, 6, len(pairs)))
    return path


def _drawn(rng: np.random.Generator, users: np.ndarray, wanted: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Draw so many distinct items for each of these users, by popularity: ``user * n_items + item``, sorted.

    Who wants many draws the popular ones again and again: a hundredth of all pairs may stay undrawn.
    """
    n_items, missing = len(share), wanted[users]
    pairs = np.empty(0, np.int64)
    while missing.sum() > _LEFT * wanted[users].sum():
        user = np.repeat(users, missing)
        item = np.minimum(np.searchsorted(share, rng.random(len(user))), n_items - 1)
        pairs = np.union1d(pairs, user * n_items + item)
        missing = wanted[users] - np.bincount(pairs // n_items - users[0], minlength=len(users))
    return pairs


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
    user, item = (_dense(ids) for ids in (user, item))
    table = pa.table({"user": user, "item": item, "rating": rating.astype(np.float64)})
    pq.write_table(table, path, row_group_size=1 << 18)


def _dense(ids: np.ndarray) -> np.ndarray:
    """Number the ids that occur from 0 on, in their order."""
    occurs = np.bincount(ids) > 0
    return (np.cumsum(occurs) - 1).astype(np.int32)[ids]
