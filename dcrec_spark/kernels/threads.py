"""Ranges of rows on several threads.

What a range computes must not depend on where it begins and ends. The numbers are then the same on any number of
threads. Only work that releases the interpreter's lock gains: compiled loops, and NumPy on large arrays. Work must not
start ranges of its own, or it would wait for the threads that it occupies.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

# The variable that limits the threads of BLAS and OpenMP. Spark sets it for its workers.
VARIABLE = "OMP_NUM_THREADS"
# Ranges for each thread, so that none waits long for the last one.
RANGES = 4
# Below so many numbers, starting threads takes longer than the work.
MANY = 1 << 15
# Numbers of an array that are worked on at a time. They stay in the processor's cache.
PIECE = 1 << 15

Block = TypeVar("Block")
Work = Callable[..., Any]
Array = NDArray[Any]
Numbers = NDArray[np.floating]
Places = NDArray[np.integer]


def loop_input(array: Any, dtype: Any = None) -> Array:
    """Return an array in the one form that loops are compiled for: contiguous and read-only."""
    view: Array = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def loop_inputs(block: Block, dtype: Any = None) -> Block:
    """Return a named tuple whose arrays are loop inputs, its floating-point numbers of one type if so set."""
    values: Any = block
    arrays = {n: each for n, each in values._asdict().items() if isinstance(each, np.ndarray)}
    of = {n: loop_input(each, dtype if each.dtype.kind == "f" else None) for n, each in arrays.items()}
    replaced: Block = values._replace(**of)
    return replaced


def available() -> int:
    """Count the threads to use: those that the environment allows, else the cores of this process."""
    limit = os.environ.get(VARIABLE, "")
    if limit.isdecimal() and int(limit):
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """Limit BLAS to one thread. Its threads wait busily for some 25 ms after each product, and occupy our cores."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def over_rows(work: Work, row_ptr: NDArray[np.int64], *given: Any) -> None:
    """Call ``work(first, last, *given)`` for ranges of rows with about as many nonzeros each.

    BLAS runs on one thread in each range.
    """
    threads = available()
    at = np.linspace(0, row_ptr[-1], threads * RANGES + 1)
    with blas_on_one_thread():
        _run(work, np.searchsorted(row_ptr, at[1:-1]), len(row_ptr) - 1, threads, given)


def over(work: Work, n_rows: int, numbers: int, *given: Any) -> None:
    """Call ``work(first, last, *given)`` for ranges of as many rows each, for few numbers just once.

    Work that calls BLAS belongs to :func:`over_rows`.
    """
    threads = available() if numbers >= MANY else 1
    _run(work, np.linspace(0, n_rows, threads + 1)[1:-1].astype(np.int64), n_rows, threads, given)


def make_in_pieces(make: Callable[[slice], Array], length: int, dtype: Any) -> Array:
    """Make an array piece by piece, without BLAS, by a function of each piece's slice."""
    made = np.empty(length, dtype)

    def fill(first: int, last: int) -> None:
        made[first:last] = make(slice(first, last))

    bounds = [*range(0, length, PIECE), length] if length else [0, 0]
    run = map if length <= PIECE or available() == 1 else _pool(available()).map
    list(run(fill, bounds[:-1], bounds[1:]))
    return made


def _run(work: Work, inner: NDArray[np.int64], n_rows: int, threads: int, given: tuple[Any, ...]) -> None:
    if threads == 1:
        work(0, n_rows, *given)
        return
    bounds = sorted({0, *np.minimum(inner, n_rows).tolist(), n_rows})
    ranges = [_pool(threads).submit(work, first, last, *given) for first, last in pairwise(bounds)]
    wait(ranges)
    for done in ranges:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Keep the threads: starting them takes as long as many ranges do."""
    return ThreadPoolExecutor(threads, "rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of its parent's threads


@cache
def _controller() -> ThreadpoolController:
    """Find the libraries once: a search takes longer than many half-steps."""
    return ThreadpoolController()
