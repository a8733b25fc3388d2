"""The kernels of a half-step alone: in NumPy, and by compiled loops on one thread and on two; BLAS has one."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from dcrec_spark.kernels import compiled, threads
from dcrec_spark.kernels.cholesky import solve_rows
from dcrec_spark.kernels.conjugate import descend
from dcrec_spark.kernels.gamma import moments
from dcrec_spark.kernels.poisson import CountBlock, rates, update_shape
from dcrec_spark.kernels.ridge import users_system
from dcrec_spark.kernels.ridge_sums import item_sums
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared, System
from dcrec_spark.kernels.settle import settle_shape

WAYS = {"NumPy": (False, 1), "loops, 1 thread": (True, 1), "loops, 2 threads": (True, 2)}
# In NumPy rows take long to rest: one in so many does.
SETTLED = 20


def measure(path: Path, rank: int, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each kernel over all users, medians; of settling over some of them."""
    found: dict[str, dict[str, float]] = {}
    for name, kernel in _kernels(path, rank).items():
        turns = [{way: _timed(kernel, *settings) for way, settings in WAYS.items()} for _ in range(rounds + 1)][1:]
        found[name] = {way: round(1000 * median(turn[way] for turn in turns), 1) for way in WAYS}
    return found


def _kernels(path: Path, rank: int) -> dict[str, Callable[[], object]]:
    table = pq.read_table(path).sort_by([("user", "ascending"), ("item", "ascending")])
    user, item, rating = (table[name].to_numpy() for name in ("user", "item", "rating"))
    rng, n_users, n_items = np.random.default_rng(0), int(user.max()) + 1, int(item.max()) + 1
    row_ptr = np.searchsorted(user, np.arange(n_users + 1)).astype(np.int64)
    counts = CountBlock(row_ptr, item.astype(np.int32), np.ones(len(item)))
    users, items = (rng.gamma(0.5, 1.0, (n, rank)) + 0.05 for n in (n_users, n_items))
    few = _rows(counts, n_users // SETTLED)
    prior, rate = np.full(rank, 0.3), items.sum(axis=0)
    equal = 0.3 + np.diff(few.row_ptr)[:, None] / rank * np.ones(rank)
    design, none = Design(1.0, True), np.empty((n_users, 0))
    ratings = RatingBlock(row_ptr, counts.col, rating, 1.0 + 40.0 * rating, np.empty(0), none)
    sums, reg = item_sums(items, np.empty((n_items, 0)), design), Regulariser(1.0, 1.0, 1.0, 1.0)

    def equations() -> System:
        return users_system(ratings, items, sums, Shared(), design, reg)

    return {
        "Poisson update": partial(update_shape, 0.3, counts, users, items),
        "rates": partial(rates, counts, users, items),
        "moments of Gamma factors": partial(moments, users, rate, 0.3, 0.3),
        "rows brought to rest": partial(settle_shape, prior, few, equal, rate, items, 1e-6, 100),
        "ridge": lambda: solve_rows(ratings, equations()),
        "ridge, 3 conjugate gradients": lambda: descend(ratings, equations(), users, 3),
    }


def _rows(block: CountBlock, n: int) -> CountBlock:
    end = int(block.row_ptr[n])
    return block._replace(row_ptr=block.row_ptr[: n + 1], col=block.col[:end], counts=block.counts[:end])


def _timed(kernel: Callable[[], object], by_loops: bool, n_threads: int) -> float:
    with _way(by_loops, n_threads):
        start = time.perf_counter()
        kernel()
        return time.perf_counter() - start


@contextmanager
def _way(by_loops: bool, n_threads: int) -> Iterator[None]:
    environment = {threads.VARIABLE: str(n_threads)}
    with (
        patch.object(compiled, "has_numba", lambda: by_loops),
        patch.dict("os.environ", environment),
        threadpool_limits(1, "blas"),
    ):
        yield
