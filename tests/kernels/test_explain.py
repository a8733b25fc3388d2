"""Explanations: exact sums, and contributions of the dense references."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import solvers
from dcrec_spark.kernels.explain import Explained, UserGammas, Wanted, explain_poisson, explain_ridge
from tests.kernels.problems import g, poisson_problem, problem_of
from tests.problems import assert_same
from tests.reference import explain as dense
from tests.reference import poisson
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=15)


def every_pair(n_users: int, n_items: int, nonzeros: int) -> Wanted:
    """All items of all users, rated or not; of equal contributions the later one first."""
    col = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    return Wanted(np.arange(n_users + 1) * n_items, col, 99, np.arange(nonzeros)[::-1])


def table_of(found: Explained, col: Array, shape: tuple[int, int]) -> Array:
    """(pairs, items) of contributions; NaN where there is none."""
    table = np.full((len(found.preference), shape[1]), np.nan)
    table[np.repeat(np.arange(len(table)), found.n_reasons), col[found.reason_at]] = found.contribution
    return table


@pytest.mark.parametrize("kind", ["classical", "weighted", "weighted-user", "weighted-global", "probabilistic"])
@examples
@given(seed=SEEDS)
def test_least_squares_matches_the_dense_reference_and_adds_up(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    x = replace(p.start, gamma=0.0 if p.design.per_user else 0.3)
    system, shape, rank = p.users_system(x), p.observed.shape, x.beta.shape[1]
    found = explain_ridge(p.users, system, every_pair(*shape, len(p.users.col)), rank)
    unrated = p.design.unobserved, float(p.design.everywhere)
    parts = [dense.of_least_squares(p.dense, x, p.observed, unrated, *pair) for pair in np.ndindex(*shape)]
    baseline, table = map(np.array, zip(*parts, strict=True))
    largest = np.abs(np.nan_to_num(table)).max(initial=1e-300)
    np.testing.assert_allclose(table_of(found, p.users.col, shape), table, rtol=1e-8, atol=1e-9 * largest)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-8, atol=1e-9 * largest)
    assert_same(found.preference, (solvers.solve_rows(p.users, system)[:, :rank] @ x.beta.T).reshape(-1), 1e-9)
    assert (found.others == 0).all()


@pytest.mark.parametrize("confounder", ["user", "global"])
@examples
@given(seed=SEEDS)
def test_poisson_matches_the_dense_reference_and_adds_up(seed: int, confounder: str) -> None:
    """Wherever the shapes are; a rating of 0 is no reason."""
    p = poisson_problem(seed, confounder)
    (block, prior, *gammas), shape, priors = p.users(), p.observed.shape, poisson.Priors()
    cols, wanted = g(p.state.item_shape, p.state.item_rate), every_pair(*shape, len(block.col))
    found = explain_poisson(block, UserGammas(prior, *gammas), cols, p.state.item_mean, wanted)
    parts = [dense.of_poisson(p.state, p.data, p.observed, *pair, priors) for pair in np.ndindex(*shape)]
    baseline, table = map(np.array, zip(*parts, strict=True))
    np.testing.assert_allclose(np.nan_to_num(table_of(found, block.col, shape)), np.nan_to_num(table), rtol=1e-9)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-10)
    np.testing.assert_allclose(found.preference.reshape(shape), p.state.user_mean @ p.state.item_mean.T, rtol=1e-10)
    assert (np.abs(found.contribution) > 0).all()
