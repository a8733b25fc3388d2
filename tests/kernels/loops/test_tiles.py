"""Products that are added up in vector registers: those of NumPy, in the rows and columns that are asked for."""

import numpy as np
import pytest

from dcrec_spark.kernels.cholesky import solve_rows
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.loops.tiles import BEYOND, ROWS, add_products, whole_lines
from dcrec_spark.kernels.ridge_terms import RatingBlock, System
from tests.kernels import ways
from tests.kernels.loops.problems import counts_of, system_of

COLUMNS = 60


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("end", [9, 12, 13, 17, 24, 25, 33, 41, 52])
def test_four_rows_of_a_product_are_added_from_the_diagonal_on(end: int, sign: float, dtype: str) -> None:
    """As many vectors of columns as there are from 8 to ``end``, in threes, pairs and one alone."""
    rng, row, length = np.random.default_rng(end), 8, 7
    left, right, target = (rng.standard_normal((n, COLUMNS)).astype(dtype) for n in (9, 9, 20))
    expected = target.copy()
    rows, columns = slice(row, row + ROWS), slice(row, end)
    expected[rows, columns] += sign * (left[:length, rows].T @ right[:length, columns])
    added, near = target.copy(), dict.fromkeys(("rtol", "atol"), 1e-5 if dtype == "float32" else 1e-13)
    add_products(added, row, end, sign, left, right, length)
    np.testing.assert_allclose(added[:, :end], expected[:, :end], **near)
    np.testing.assert_array_equal(added[:, end + BEYOND :], target[:, end + BEYOND :])


def test_nothing_is_added_by_matrices_without_rows() -> None:
    target = np.ones((8, 24))
    add_products(target, 4, 20, 1.0, target, target, 0)
    np.testing.assert_array_equal(target, 1.0)


@pytest.mark.parametrize(("columns", "size", "width"), [(1, 8, 8), (8, 8, 8), (9, 8, 24), (17, 8, 24), (17, 4, 48)])
def test_rows_are_an_odd_number_of_cache_lines(columns: int, size: int, width: int) -> None:
    assert whole_lines(columns, size) == width


def problem(width: int, bordered: bool = False) -> tuple[RatingBlock, System]:
    counts = counts_of(0, 30, 40, 0.9, "float64", terms=True)
    a_hat = counts.a_hat if bordered else counts.a_hat[:0]
    block = RatingBlock(counts.row_ptr, counts.col, counts.counts, counts.counts, a_hat, np.empty((30, 0)))
    return block, system_of(3, counts, 40, width, bordered)


@pytest.mark.parametrize("bordered", [False, True])
@pytest.mark.parametrize("width", range(1, 15))
def test_rows_of_every_width_and_of_more_pairs_than_are_gathered_at_once(width: int, bordered: bool) -> None:
    """A row has 36 of 40 pairs, and one has all."""
    block, system = problem(width, bordered)
    with ways.loops():
        compiled = solve_rows(block, system)
    with ways.numpy_only():
        expected = solve_rows(block, system)
    np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("what", ["curvature", "pull", "a_hat"])
@pytest.mark.parametrize("width", [9, 10, 11, 12])
def test_a_row_without_a_solution_leaves_those_after_it_alone(width: int, what: str) -> None:
    """On one thread, so that all rows after it are worked on where it was."""
    block, system = problem(width, bordered=True)
    ridge = system.ridge.copy()
    ridge[7] = -1e6
    broken_system, broken_block = system._replace(ridge=ridge), block
    if what == "a_hat":
        broken_block = block._replace(a_hat=_with_nan(block.a_hat, block.row_ptr[4]))
    else:
        broken_system = broken_system._replace(**{what: _with_nan(getattr(system, what), block.row_ptr[4])})
    with ways.loops(1):
        whole, broken = solve_rows(block, system), solve_rows(broken_block, broken_system)
    others = np.delete(np.arange(30), [4, 7])
    assert np.isnan(broken[[4, 7]]).all()
    np.testing.assert_array_equal(broken[others], whole[others])


def _with_nan(values: Floats, place: int) -> Floats:
    changed = values.copy()
    changed[place] = np.nan
    return changed
