"""The classical weighted model by Cholesky's method, and by three conjugate gradients: kernels alone, on one thread.

Seconds are the processor's: other programs do not count.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from benchmarks.speed import Seconds
from dcrec_spark.kernels import ridge_sums, threads
from dcrec_spark.kernels.cholesky import solve_rows
from dcrec_spark.kernels.conjugate import descend
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge import items_system, users_system
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared, System

DESIGN, REG, STEPS = Design(1.0, True), Regulariser(1.0, 1.0, 1.0, 1.0), 3
Solver = Callable[[RatingBlock, System, Floats], Floats]


def by_cholesky(block: RatingBlock, system: System, before: Floats) -> Floats:
    return solve_rows(block, system)


def by_gradients(block: RatingBlock, system: System, before: Floats) -> Floats:
    return descend(block, system, before, STEPS)


class State(NamedTuple):
    """Factors of both sides, and the intercept."""

    users: Floats
    items: Floats
    shared: Shared


def measure(path: Path, ranks: tuple[int, ...], sweeps: int) -> dict[str, object]:
    """For each rank: seconds of a sweep, J after as many sweeps, and J after as many seconds as Cholesky's take."""
    table = pq.read_table(path)
    pairs = np.array([table[name].to_numpy() for name in ("user", "item", "rating")])
    sides = _block(pairs[0], pairs[1], pairs[2]), _block(pairs[1], pairs[0], pairs[2])
    with patch.dict(os.environ, {threads.VARIABLE: "1"}), threadpool_limits(1, "blas"):
        for solver in (by_cholesky, by_gradients):
            _swept(*sides, 4, solver, 1, float("inf"))  # compiles
        return {f"rank {rank}": _compared(*sides, rank, sweeps) for rank in ranks}


def _compared(users: RatingBlock, items: RatingBlock, rank: int, sweeps: int) -> dict[str, object]:
    cholesky = _swept(users, items, rank, by_cholesky, sweeps, float("inf"))
    end = sum(seconds for seconds, _ in cholesky)
    gradients = _swept(users, items, rank, by_gradients, sweeps, end)
    in_time = np.cumsum([seconds for seconds, _ in gradients]) <= end
    each = [round(median(seconds for seconds, _ in swept), 3) for swept in (cholesky, gradients)]
    found = {
        "seconds_of_a_sweep": {"cholesky": each[0], "cg": each[1]},
        "ratio": round(each[1] / each[0], 3),
        "objective_after_the_sweeps": {"cholesky": round(cholesky[-1][1], 1), "cg": round(gradients[sweeps - 1][1], 1)},
        "cg_in_the_seconds_of_cholesky": {
            "sweeps": int(in_time.sum()),
            "objective": round(gradients[int(in_time.sum()) - 1][1], 1) if in_time.any() else None,
        },
    }
    print(rank, found, flush=True)
    return found


def _swept(
    users: RatingBlock, items: RatingBlock, rank: int, solver: Solver, sweeps: int, enough: Seconds
) -> list[tuple[Seconds, float]]:
    """Seconds and J of each sweep: so many, and more until ``enough`` seconds are spent, unless that is infinite."""
    start = 0.1 * np.random.default_rng(0).standard_normal((len(items.row_ptr) - 1, rank))
    state, seen = State(np.zeros((len(users.row_ptr) - 1, rank)), start, Shared()), []
    spent = 0.0
    while len(seen) < sweeps or (np.isfinite(enough) and spent < enough):
        begin = time.process_time()
        state, objective = _sweep(users, items, state, solver)
        seen.append((time.process_time() - begin, objective))
        spent += seen[-1][0]
    return seen


def _sweep(users: RatingBlock, items: RatingBlock, now: State, solver: Solver) -> tuple[State, float]:
    of_items = ridge_sums.item_sums(now.items, items.exposure, DESIGN)
    theta = solver(users, users_system(users, now.items, of_items, now.shared, DESIGN, REG), now.users)
    of_users = ridge_sums.user_sums(theta, users.exposure, DESIGN)
    of_users |= ridge_sums.penalty(theta, users, True, now.shared, DESIGN, REG)
    beta = solver(items, items_system(items, theta, of_users, now.shared, DESIGN, REG), now.items)
    of_items = ridge_sums.item_sums(beta, items.exposure, DESIGN)
    of_items |= ridge_sums.penalty(beta, items, False, now.shared, DESIGN, REG)
    of_items |= ridge_sums.observed_sums(items, beta, theta, now.shared, DESIGN)
    shared, objective = ridge_sums.shared_and_objective(of_users, of_items, now.shared, DESIGN, REG, True)
    return State(theta, beta, shared), objective


def _block(row: Floats, col: Floats, rating: Floats) -> RatingBlock:
    order = np.lexsort((col, row))
    row_ptr = np.searchsorted(row[order], np.arange(int(row.max()) + 2)).astype(np.int64)
    values = rating[order].astype(np.float64)
    none = np.empty((len(row_ptr) - 1, 0))
    return RatingBlock(row_ptr, col[order].astype(np.int32), values, 1.0 + 40.0 * values, np.empty(0), none)
