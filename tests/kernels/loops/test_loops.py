"""Compiled loops match dense references on blocks of some size, and give the same bits on any number of threads."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import dcrec_spark
from dcrec_spark.kernels import ridge_sums, threads
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.gamma import geometric_mean, moments, over_relax
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma
from dcrec_spark.kernels.poisson import converge_shape, update_shape
from dcrec_spark.kernels.ridge import ratings_and_weights
from dcrec_spark.kernels.ridge_terms import RowSystems, Shared
from dcrec_spark.kernels.solvers import descend, solve_rows
from tests.kernels.problems import (
    LARGE,
    counts_of,
    equations_of,
    factors_of,
    g,
    poisson_problem,
    problem_of,
    row_equations,
)
from tests.reference import poisson
from tests.reference.poisson import Array

ROWS, COLS, WIDTH = 90, 300, 13
Kernel = Callable[[str], list[Array]]


def equations(dtype: str, width: int, bordered: bool, has_bias: bool = False) -> RowSystems:
    """Row 1 has no pairs, row 2 has all 300."""
    system = equations_of(3, counts_of(0, ROWS, COLS, 0.1, dtype, terms=True), COLS, width, bordered)
    return system._replace(rank=system.rank - has_bias)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 8, 13, 50, 62, 63, 64, 65, 130])
def test_rows_of_any_width_are_solved_as_by_a_dense_solver(width: int, dtype: str) -> None:
    for bordered in (False, True):
        system = equations(dtype, width, bordered, has_bias=width > 2)
        expected = [np.linalg.solve(*row) for row in row_equations(system)]
        solved = solve_rows(system)
        assert solved.dtype == dtype
        np.testing.assert_allclose(solved, expected, **near(dtype, 1e-9, 2e-3))


@pytest.mark.parametrize("broken", ["curvature", "pull", "a_hat"])
@pytest.mark.parametrize("width", [9, 12])
def test_a_row_without_a_solution_is_nan_alone(width: int, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN in the pairs of row 4, no positive definite matrix of row 7, on one thread: the others come after them."""
    monkeypatch.setenv(threads.VARIABLE, "1")
    system = equations("float64", width, bordered=True)
    ridge, numbers = system.ridge.copy(), getattr(system, broken).copy()
    ridge[7] = -1e6
    numbers[system.row_ptr[4]] = np.nan
    found = solve_rows(system._replace(ridge=ridge, **{broken: numbers}))
    others = np.delete(np.arange(ROWS), [4, 7])
    assert np.isnan(found[[4, 7]]).all()
    np.testing.assert_array_equal(found[others], solve_rows(system)[others])


def near(dtype: str, double: float, single: float) -> dict[str, float]:
    tolerance = double if dtype == "float64" else single
    return {"rtol": tolerance, "atol": tolerance}


@pytest.mark.parametrize("stored", ["uint8", "float32"])
def test_weights_are_1_plus_alpha_y_times_the_factor(stored: str) -> None:
    rng = np.random.default_rng(6)
    given, factor = rng.integers(0, 6, 1001).astype(stored), rng.uniform(0.1, 3.0, 1001)
    for of_pairs in (factor, factor[:0]):
        rating, weight = ratings_and_weights(given, of_pairs, 40.0, "float32")
        np.testing.assert_array_equal(rating, given)
        np.testing.assert_allclose(weight, (1 + 40.0 * given) * (factor if len(of_pairs) else 1.0), rtol=2e-7)


def converged_shapes(dtype: str) -> list[Array]:
    block, cols = counts_of(0, ROWS, COLS, 0.3, dtype, terms=True), factors_of(2, COLS, 3, dtype)
    prior = np.array([0.3, 0.3, 0.3, 1.0], dtype)
    start = np.tile(prior + np.array(1.0, dtype), (ROWS, 1))
    return [converge_shape(prior, block, start, cols.sum(axis=0)[[0, 1, 2, 2]], cols, 1e-9, 100)]


def solved_rows(dtype: str) -> list[Array]:
    system = equations(dtype, WIDTH, bordered=True)
    return [solve_rows(system), descend(system, factors_of(1, ROWS, WIDTH, dtype), 3)]


def gamma_factors(dtype: str) -> list[Array]:
    shape, rate, prior = factors_of(1, ROWS, WIDTH, dtype), factors_of(2, 1, WIDTH, dtype), np.full(WIDTH, 0.01, dtype)
    means, far = moments(shape, rate[0], 0.3, 0.7)
    relaxed = over_relax(prior + shape, prior + shape[::-1], prior, 1.9)
    return [geometric_mean(shape, rate[0]), means, np.array(far), relaxed]


def pair_sums(dtype: str) -> list[Array]:
    p = problem_of(0, "pooled-everywhere", LARGE, WIDTH)
    p = p.narrowed() if dtype == "float32" else p
    users, items = (rows.astype(dtype) for rows in p.rows(p.start))
    sums = ridge_sums.observed_sums(p.users, users, items, Shared(0.4, -0.7), p.design, True)
    system = p.users_system(p.start)
    return [system.curvature, system.pull, *sums.values()]


def count_sums(dtype: str) -> list[Array]:
    block = counts_of(0, ROWS, COLS, 0.3, dtype, terms=True)
    own, cols = factors_of(1, ROWS, WIDTH + 1, dtype), factors_of(2, COLS, WIDTH, dtype)
    return [update_shape(0.3, block, own, cols), inner_products(block.row_ptr, block.col, own[:, :WIDTH], cols)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("confounder", ["user", "global"])
def test_shapes_and_products_of_long_rows_match_the_dense_reference(confounder: str, dtype: str) -> None:
    p = poisson_problem(0, confounder, (40, 280), WIDTH)
    block, prior, *users = p.users()
    block = block._replace(**{name: getattr(block, name).astype(dtype) for name in ("counts", "a_hat", "offset")})
    own, cols = g(*users).astype(dtype), g(p.state.item_shape, p.state.item_rate).astype(dtype)
    shape, expected = update_shape(prior.astype(dtype), block, own, cols), poisson.update_users(p.state, p.data)
    np.testing.assert_allclose(shape[:, :WIDTH], expected.user_shape, **near(dtype, 1e-10, 2e-5))
    if confounder == "user":
        np.testing.assert_allclose(shape[:, WIDTH], expected.confounder_shape, **near(dtype, 1e-10, 2e-5))
    products = inner_products(block.row_ptr, block.col, own[:, :WIDTH], cols)
    np.testing.assert_allclose(products, (own[:, :WIDTH] @ cols.T)[p.observed], **near(dtype, 1e-11, 2e-5))


@pytest.mark.parametrize("kernel", [solved_rows, converged_shapes, gamma_factors, pair_sums, count_sums])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_number_of_threads_changes_no_bit(kernel: Kernel, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MANY", 0)
    found = []
    for n_threads in ("1", "2", "5"):
        monkeypatch.setenv(threads.VARIABLE, n_threads)
        found.append(kernel(dtype))
    for several in found[1:]:
        for one, other in zip(found[0], several, strict=True):
            np.testing.assert_array_equal(other, one)


def test_special_functions_to_the_last_digits() -> None:
    """An exponential below normal numbers is the smallest of them. The logarithm of an infinity is NaN."""
    x = np.concatenate([np.geomspace(1e-6, 1e6, 2_000), np.linspace(0.9, 2.1, 500), [1.0, 2.0, 10.0]])
    np.testing.assert_allclose([digamma(each) for each in x], special.digamma(x), rtol=4e-14, atol=4e-14)
    np.testing.assert_allclose([log_gamma(each) for each in x], special.gammaln(x), rtol=4e-14, atol=4e-14)
    wide = np.concatenate([np.geomspace(1e-300, 1e300, 2_000), np.linspace(0.5, 2.0, 500)])
    np.testing.assert_allclose([log(each) for each in wide], np.log(wide), rtol=1e-15, atol=1e-15)
    powers = np.linspace(-700.0, 700.0, 2_000)
    np.testing.assert_allclose([exp(each) for each in powers], np.exp(powers), rtol=4e-13)
    assert exp(-1e4) == exp(-708.0) > 0.0
    assert exp(1e4) == exp(709.0) < np.inf
    assert np.isnan([log(np.inf), log(np.nan)]).all()


def test_a_process_that_may_write_no_cache_compiles_in_memory(tmp_path: Path) -> None:
    """Spark ships packages as archives, and an executor may have no home folder."""
    root = Path(dcrec_spark.__file__).parents[1]
    package = shutil.make_archive(str(tmp_path / "package"), "zip", root, "dcrec_spark")
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/proc/nowhere")
    code = "from dcrec_spark.kernels.gamma import *; print(geometric_mean(np.ones(1), np.ones(1))[0])"
    environment = nowhere | {"PYTHONPATH": package}
    found = subprocess.check_output([sys.executable, "-c", code], env=environment, cwd="/", text=True)
    assert float(found) == pytest.approx(np.exp(-np.euler_gamma))
