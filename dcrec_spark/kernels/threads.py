"""Ranges of rows on several cores at once.

What a range computes must not depend on where it begins and ends: then the numbers are the same on any number of
threads. Only work that lets go of the interpreter's lock gains by it: compiled loops, and NumPy on large arrays. Work
must not hand out ranges in its turn: it would wait for the threads that it keeps busy.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

# The variable by which BLAS and OpenMP are told how many threads to use; Spark sets it for its workers.
VARIABLE = "OMP_NUM_THREADS"
# More ranges than threads, so that none waits long for the last one.
RANGES = 4
# So many logarithms take as long as threads to begin.
MANY = 1 << 15
# Numbers of an array that are worked on at a time: with what is made of them they stay in the processor's cache.
PIECE = 1 << 15

Work = Callable[[int, int], Any]
Array = NDArray[Any]


def available() -> int:
    """Count the threads to use: what the environment says, else the cores that this process may run on."""
    said = os.environ.get(VARIABLE, "")
    if said.isdecimal() and int(said):
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """Hold BLAS to one thread: its own wait busily after each product, for some 25 ms, where ours would work."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def over_rows(work: Work, row_ptr: NDArray[np.int64]) -> None:
    """Call ``work(first, last)`` for ranges of rows of about as many nonzeros each; together they are all rows.

    BLAS runs on one thread in each of ours, as it does in Spark's workers.
    """
    threads = available()
    at = np.linspace(0, row_ptr[-1], threads * RANGES + 1)
    with blas_on_one_thread():
        _run(work, np.searchsorted(row_ptr, at[1:-1]), len(row_ptr) - 1, threads)


def over(work: Work, n_rows: int, numbers: int) -> None:
    """Call ``work(first, last)`` for ranges of rows that are as long as one another; for few numbers just once.

    Work that calls BLAS belongs to :func:`over_rows`.
    """
    threads = available() if numbers >= MANY else 1
    _run(work, np.linspace(0, n_rows, threads + 1)[1:-1].astype(np.int64), n_rows, threads)


def in_pieces(work: Work, length: int) -> list[Any]:
    """Call ``work(first, last)`` for the pieces of long arrays, and return what it returns, in their order.

    Pieces depend on the length alone, and BLAS runs on one thread, for it adds up otherwise on several: so sums of
    theirs are the same on any number of threads.
    """
    with blas_on_one_thread():
        return _in_order(work, length)


def made_in_pieces(make: Callable[[slice], Array], length: int, dtype: Any) -> Array:
    """Make an array piece by piece, without BLAS, by a function of each piece's place in it."""
    made = np.empty(length, dtype)

    def fill(first: int, last: int) -> None:
        made[first:last] = make(slice(first, last))

    _in_order(fill, length)
    return made


def _in_order(work: Work, length: int) -> list[Any]:
    bounds = [*range(0, length, PIECE), length] if length else [0, 0]
    threads = available() if length > PIECE else 1
    run = map if threads == 1 else _pool(threads).map
    return list(run(work, bounds[:-1], bounds[1:]))


def _run(work: Work, inner: NDArray[np.int64], n_rows: int, threads: int) -> None:
    if threads == 1:
        work(0, n_rows)
        return
    bounds = sorted({0, *np.minimum(inner, n_rows).tolist(), n_rows})
    ranges = [_pool(threads).submit(work, first, last) for first, last in pairwise(bounds)]
    wait(ranges)
    for done in ranges:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Keep the threads: to start them takes as long as many a range does."""
    return ThreadPoolExecutor(threads, "rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads don't come along into a child


@cache
def _controller() -> ThreadpoolController:
    """Find the libraries once: looking for them takes longer than many a half-step."""
    return ThreadpoolController()
