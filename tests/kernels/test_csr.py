"""Nonzeros sorted by row and column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.kernels.csr import by_row, group_values


@given(st.lists(st.integers(0, 6), max_size=40))
def test_values_of_a_group_stay_in_their_order(groups: list[int]) -> None:
    begins, values = group_values(np.array(groups, np.int64), 7, 10 * np.arange(len(groups)))
    assert values.tolist() == [10 * place for place in sorted(range(len(groups)), key=lambda place: groups[place])]
    assert begins.tolist() == [sum(group < number for group in groups) for number in range(8)]


@pytest.mark.parametrize("n_cols", [9, 1000], ids=["few columns", "more columns than nonzeros"])
def test_nonzeros_are_ordered_by_row_and_column(n_cols: int) -> None:
    rng = np.random.default_rng(0)
    row, col = rng.integers(0, 5, 60), rng.integers(0, n_cols, 60)
    row_ptr, order = by_row(row, col, 7, n_cols)
    np.testing.assert_array_equal(order, np.lexsort((col, row)))
    np.testing.assert_array_equal(row_ptr, np.searchsorted(np.sort(row), np.arange(8)))


@pytest.mark.parametrize("group", [-1, 7])
def test_a_value_of_no_group_is_refused(group: int) -> None:
    with pytest.raises(IndexError, match="not below the number of groups"):
        group_values(np.array([0, group]), 7, np.arange(2))
