"""Explanations: exact sums, contributions of the dense references, the largest ones, the effect of a rating."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import explain, solvers
from dcrec_spark.kernels.explain import Explained, Wanted, explain_poisson, explain_ridge
from dcrec_spark.kernels.ridge_terms import RowSystems
from tests.kernels.problems import RidgeProblem, g, poisson_problem, problem_of
from tests.problems import assert_same
from tests.reference import explain as dense
from tests.reference import poisson, ridge
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=15)
kinds = pytest.mark.parametrize("kind", ["classical", "weighted", "weighted-user", "weighted-global", "probabilistic"])


Setup = tuple[RidgeProblem, ridge.Unknowns, RowSystems]


def setup(seed: int, kind: str) -> Setup:
    """A problem, unknowns to explain by, and the users' equations."""
    p = problem_of(seed, kind)
    x = replace(p.start, gamma=0.0 if p.design.per_user else 0.3)
    return p, x, p.users_system(x)


def explained(of: Setup, reasons: int = 99) -> Explained:
    p, x, system = of
    return explain_ridge(system, every_pair(*p.observed.shape, len(p.users.col), reasons), slice(x.beta.shape[1]))


def every_pair(n_users: int, n_items: int, nonzeros: int, reasons: int = 99) -> Wanted:
    """All items of all users, rated or not; of equal contributions the later one first."""
    col = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    return Wanted(np.arange(n_users + 1) * n_items, col, reasons, np.arange(nonzeros)[::-1])


def table_of(found: Explained, col: Array, shape: tuple[int, int]) -> Array:
    """(pairs, items) of contributions; NaN where there is none."""
    table = np.full((len(found.preference), shape[1]), np.nan)
    table[np.repeat(np.arange(len(table)), found.n_reasons), col[found.reason_at]] = found.contribution
    return table


@kinds
@examples
@given(seed=SEEDS)
def test_least_squares_matches_the_dense_reference_and_adds_up(seed: int, kind: str) -> None:
    p, x, system = of = setup(seed, kind)
    found = explained(of)
    shape, unrated = p.observed.shape, (p.design.unobserved, float(p.design.everywhere))
    parts = [dense.of_least_squares(p.dense, x, p.observed, unrated, *pair) for pair in np.ndindex(*shape)]
    baseline, table = map(np.array, zip(*parts, strict=True))
    largest = np.abs(np.nan_to_num(table)).max(initial=1e-300)
    np.testing.assert_allclose(table_of(found, p.users.col, shape), table, rtol=1e-8, atol=1e-9 * largest)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-8, atol=1e-9 * largest)
    users = solvers.solve_rows(system)[:, : x.beta.shape[1]]
    assert_same(found.preference, (users @ x.beta.T).reshape(-1), 1e-9)
    assert (found.others == 0).all()


@pytest.mark.parametrize("confounder", ["user", "global"])
@examples
@given(seed=SEEDS)
def test_poisson_matches_the_dense_reference_and_adds_up(seed: int, confounder: str) -> None:
    p = poisson_problem(seed, confounder)
    (block, *users), shape, priors = p.users(), p.observed.shape, poisson.Priors()
    cols, wanted = g(p.state.item_shape, p.state.item_rate), every_pair(*shape, len(block.col))
    found, col = explain_poisson(block, *users, cols, p.state.item_mean, wanted), block.col
    parts = [dense.of_poisson(p.state, p.data, p.observed, *pair, priors) for pair in np.ndindex(*shape)]
    baseline, table = map(np.array, zip(*parts, strict=True))
    np.testing.assert_allclose(np.nan_to_num(table_of(found, col, shape)), np.nan_to_num(table), rtol=1e-9)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-10)
    np.testing.assert_allclose(found.preference.reshape(shape), p.state.user_mean @ p.state.item_mean.T, rtol=1e-10)
    assert (np.abs(found.contribution) > 0).all()


@pytest.mark.parametrize("table", [1, 7, 1 << 22])
def test_reasons_are_the_largest_first_and_the_rest_is_added_up(table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "TABLE", table)
    of = setup(11, "weighted-user")
    everything, found = explained(of), explained(of, reasons=2)
    ends = np.cumsum(everything.n_reasons)
    for pair, n in enumerate(everything.n_reasons):
        values = everything.contribution[ends[pair] - n : ends[pair]]
        assert (np.diff(np.abs(values)) <= 0).all()
        assert found.n_reasons[pair] == min(n, 2)
        assert found.others[pair] == pytest.approx(values[2:].sum(), abs=1e-12)
    starts = np.repeat(ends - everything.n_reasons, found.n_reasons)
    place = np.arange(len(found.contribution)) - np.repeat(
        np.cumsum(found.n_reasons) - found.n_reasons, found.n_reasons
    )
    np.testing.assert_array_equal(found.reason_at, everything.reason_at[starts + place])
    np.testing.assert_allclose(found.preference, everything.preference, rtol=1e-12)
