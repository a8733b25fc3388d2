"""Ranges of rows: together all rows, each once; as many threads as the environment says."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from threadpoolctl import threadpool_info

from dcrec_spark.kernels import threads
from dcrec_spark.kernels.threads import PIECE, make_in_pieces, over, over_rows


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 5))
def test_every_row_is_worked_on_once(lengths: list[int], n_threads: int) -> None:
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(threads.VARIABLE, str(n_threads))
        for run in (lambda work: over_rows(work, row_ptr), lambda work: over(work, len(lengths), threads.MANY)):
            times = np.zeros(len(lengths), int)

            def work(first: int, last: int, times: np.ndarray = times) -> None:
                times[first:last] += 1

            run(work)
            assert (times == 1).all()


def test_ranges_have_about_as_many_nonzeros_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """However unequal the rows: the first of these has half of all nonzeros."""
    monkeypatch.setenv(threads.VARIABLE, "2")
    row_ptr = np.concatenate([[0, 8000], 8000 + np.arange(1, 8001)])
    found: list[int] = []
    over_rows(lambda first, last: found.append(int(row_ptr[last] - row_ptr[first])), row_ptr)
    assert sorted(found)[-1] == 8000
    assert sorted(found)[:-1] == [2000] * 4


def test_ranges_run_side_by_side_and_blas_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranges that wait for each other come to an end."""
    monkeypatch.setenv(threads.VARIABLE, "2")
    threads._controller.cache_clear()  # libraries that other tests have loaded since are none of ours
    both = threading.Barrier(2, timeout=30)
    blas: list[set[int]] = []

    def work(first: int, last: int) -> None:
        """Note how many threads the BLAS of NumPy and SciPy would take; that of faiss counts by OpenMP, for itself."""
        both.wait()
        libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
        blas.append({library["num_threads"] for library in libraries if library["threading_layer"] == "pthreads"})

    over_rows(work, np.array([0, 1, 2]))
    assert blas == [{1}, {1}]


@pytest.mark.parametrize("length", [0, 1, PIECE, 3 * PIECE + 5])
def test_arrays_in_pieces_are_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    numbers = np.random.default_rng(0).random(length)
    for n_threads in ("1", "2", "5"):
        monkeypatch.setenv(threads.VARIABLE, n_threads)
        made = make_in_pieces(lambda at: 2 * numbers[at], length, np.float32)
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made, (2 * numbers).astype(np.float32))


def test_the_environment_limits_the_threads(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """A task of Spark has one: the other cores have tasks of their own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4}, raising=False)
    for limit, expected in (("3", 3), ("1", 1), ("0", 5), ("", 5), ("many", 5)):
        monkeypatch.setenv(threads.VARIABLE, limit)
        assert threads.available() == expected
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: threads.available()).collect() == [1]


def test_an_error_in_a_range_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(threads.VARIABLE, "2")

    def work(first: int, last: int) -> None:
        raise ZeroDivisionError(f"{first} to {last}")

    with pytest.raises(ZeroDivisionError, match="0 to 2"):
        over(work, 4, threads.MANY)
