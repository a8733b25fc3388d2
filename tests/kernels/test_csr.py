"""Nonzeros in the order of rows: by comparison, and by counting, with the same result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.kernels.csr import by_row, grouped
from tests.kernels import ways

WAYS = pytest.mark.parametrize("way", [ways.numpy_only, ways.loops], ids=["numpy", "compiled"])


@WAYS
@given(st.lists(st.integers(0, 6), max_size=40))
def test_entries_of_a_group_stay_in_their_order(way: ways.Way, groups: list[int]) -> None:
    with way():
        begins, entries = grouped(np.array(groups, np.int64), 7)
    assert entries.tolist() == sorted(range(len(groups)), key=lambda entry: groups[entry])
    assert begins.tolist() == [sum(group < number for group in groups) for number in range(8)]


@WAYS
def test_entries_come_in_the_order_that_is_given(way: ways.Way) -> None:
    with way():
        begins, entries = grouped(np.array([1, 0, 1, 0]), 3, np.array([3, 2, 1, 0]))
    assert entries.tolist() == [3, 1, 2, 0]
    assert begins.tolist() == [0, 2, 4, 4]


@WAYS
@pytest.mark.parametrize("n_cols", [9, 1000], ids=["few columns", "more columns than nonzeros"])
def test_nonzeros_are_ordered_by_row_and_column(way: ways.Way, n_cols: int) -> None:
    rng = np.random.default_rng(0)
    row, col = rng.integers(0, 5, 60), rng.integers(0, n_cols, 60)
    with way():
        row_ptr, order = by_row(row, col, 7, n_cols)
    np.testing.assert_array_equal(order, np.lexsort((col, row)))
    np.testing.assert_array_equal(row_ptr, np.searchsorted(np.sort(row), np.arange(8)))
