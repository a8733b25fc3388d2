"""Compiled loops do what NumPy does, but for rounding, and the same to the last bit on any number of threads."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from dcrec_spark.kernels import settle
from dcrec_spark.kernels.cholesky import solve_rows
from dcrec_spark.kernels.conjugate import descend
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.gamma import geometric_mean, moments
from dcrec_spark.kernels.loops import settle as loops_settle
from dcrec_spark.kernels.loops.compiling import compiled
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma
from dcrec_spark.kernels.poisson import update_shape
from dcrec_spark.kernels.relax import over_relaxed
from dcrec_spark.kernels.ridge_terms import RatingBlock, System
from dcrec_spark.kernels.settle import settle_shape
from tests.kernels import ways
from tests.kernels.loops.problems import counts_of, factors_of, system_of
from tests.reference.poisson import Array

ROWS, COLS, WIDTH = 90, 70, 13


def products(dtype: str) -> Array:
    block = counts_of(0, ROWS, COLS, 0.3, dtype)
    return inner_products(
        block.row_ptr, block.col, factors_of(1, ROWS, WIDTH, dtype), factors_of(2, COLS, WIDTH, dtype)
    )


def shapes(dtype: str) -> Array:
    block = counts_of(0, ROWS, COLS, 0.3, dtype)
    return update_shape(0.3, block, factors_of(1, ROWS, WIDTH, dtype), factors_of(2, COLS, WIDTH, dtype))


def shapes_with_terms(dtype: str) -> Array:
    block = counts_of(0, ROWS, COLS, 0.3, dtype, terms=True)
    return update_shape(0.3, block, factors_of(1, ROWS, WIDTH + 1, dtype), factors_of(2, COLS, WIDTH, dtype))


def settled_shapes(dtype: str) -> Array:
    block, cols = counts_of(0, ROWS, COLS, 0.3, dtype, terms=True), factors_of(2, COLS, 3, dtype)
    prior = np.array([0.3, 0.3, 0.3, 1.0], dtype)
    start = np.tile(prior + np.array(1.0, dtype), (ROWS, 1))
    return settle_shape(prior, block, start, cols.sum(axis=0)[[0, 1, 2, 2]], cols, 1e-9, 1000)


def system(dtype: str, bordered: bool) -> tuple[RatingBlock, System]:
    counts = counts_of(0, ROWS, COLS, 0.3, dtype, terms=True)
    a_hat = counts.a_hat if bordered else counts.a_hat[:0]
    none = np.empty((ROWS, 0), dtype)
    block = RatingBlock(counts.row_ptr, counts.col, counts.counts, counts.counts, a_hat, none)
    return block, system_of(3, counts, COLS, WIDTH, bordered)


def solved(dtype: str) -> Array:
    return solve_rows(*system(dtype, bordered=False))


def solved_with_border(dtype: str) -> Array:
    return solve_rows(*system(dtype, bordered=True))


def descended(dtype: str) -> Array:
    return descend(*system(dtype, bordered=False), factors_of(1, ROWS, WIDTH, dtype), 3)


def descended_with_border(dtype: str) -> Array:
    return descend(*system(dtype, bordered=True), factors_of(1, ROWS, WIDTH, dtype), 3)


def means_of_one_rate(dtype: str) -> Array:
    return geometric_mean(factors_of(1, ROWS, WIDTH, dtype), factors_of(2, 1, WIDTH, dtype)[0])


def means_and_divergence(dtype: str) -> Array:
    """The divergence at the end of each row of means."""
    means, far = moments(factors_of(1, ROWS, WIDTH, dtype), factors_of(2, ROWS, WIDTH, dtype), 0.3, 0.7)
    return np.column_stack([means, np.full(ROWS, far, dtype)])


def longer_steps(dtype: str) -> Array:
    prior = np.full(WIDTH, 0.02, dtype)
    updated = prior + factors_of(2, ROWS, WIDTH, dtype)
    updated[3] = prior
    return over_relaxed(prior + factors_of(1, ROWS, WIDTH, dtype), updated, prior, 1.9)


KERNELS = [
    products,
    means_of_one_rate,
    means_and_divergence,
    longer_steps,
    shapes,
    shapes_with_terms,
    settled_shapes,
    solved,
    solved_with_border,
    descended,
    descended_with_border,
]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)


@kernels
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 2e-4)])
def test_loops_do_what_numpy_does(kernel: Callable[[str], Array], dtype: str, rtol: float) -> None:
    with ways.numpy_only():
        expected = kernel(dtype)
    with ways.loops():
        found = kernel(dtype)
    assert found.dtype == expected.dtype
    loose = 1e4 if kernel is settled_shapes else 1.0  # where rows rest is known as well as the tolerance says
    np.testing.assert_allclose(found, expected, rtol=rtol * loose, atol=rtol)


@kernels
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_number_of_threads_changes_no_bit(kernel: Callable[[str], Array], dtype: str) -> None:
    found = []
    for n_threads in (1, 2, 5):
        with ways.loops(n_threads):
            found.append(kernel(dtype))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_a_row_longer_than_a_piece_and_one_that_is_not_positive_definite() -> None:
    """Row 2 has 700 nonzeros; row 0 curves the wrong way, and comes back as NaN, alone."""
    counts = counts_of(0, 4, 700, 0.2)
    block = RatingBlock(counts.row_ptr, counts.col, counts.counts, counts.counts, np.empty(0), np.empty((4, 0)))
    system = system_of(3, counts, 700, WIDTH, bordered=False)
    system.curvature[: counts.row_ptr[1]] = -50.0
    with ways.numpy_only():
        expected = solve_rows(block, system)
    with ways.loops():
        found = solve_rows(block, system)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_loops_guess_as_far_as_numpy_does() -> None:
    assert (loops_settle.STRETCH, loops_settle.LARGEST) == (settle.STRETCH, settle.LARGEST)


def test_special_functions_to_the_last_digits() -> None:
    x = np.concatenate([np.geomspace(1e-6, 1e6, 2_000), np.linspace(0.9, 2.1, 500), [1.0, 2.0, 10.0]])
    np.testing.assert_allclose([digamma(each) for each in x], special.digamma(x), rtol=4e-14, atol=4e-14)
    np.testing.assert_allclose([log_gamma(each) for each in x], special.gammaln(x), rtol=4e-14, atol=4e-14)
    wide = np.concatenate([np.geomspace(1e-300, 1e300, 2_000), np.linspace(0.5, 2.0, 500)])
    np.testing.assert_allclose([log(each) for each in wide], np.log(wide), rtol=1e-15, atol=1e-15)
    powers = np.linspace(-700.0, 700.0, 2_000)
    np.testing.assert_allclose([exp(each) for each in powers], np.exp(powers), rtol=4e-13)


def test_special_functions_at_the_ends_of_the_range() -> None:
    """An exponential that is no normal number is the next one that is; what is not finite has no logarithm."""
    assert exp(-1e4) == exp(-708.0) > 0.0
    assert exp(1e4) == exp(709.0) < np.inf
    assert np.isnan([log(np.inf), log(np.nan)]).all()


def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same() -> None:
    """A function without a file has no place in a cache, like one in a process that may write nowhere."""
    names: dict[str, Callable[[float], float]] = {}
    exec("def doubled(x): return 2.0 * x", names)
    assert compiled(names["doubled"])(4.0) == 8.0
