"""Explanations: exact sums, contributions of the dense references, the largest ones, the effect of a rating."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import explain, ridge, ridge_sums, solvers
from dcrec_spark.kernels.explain import Explained, UserGammas, Wanted, explain_poisson, explain_ridge
from dcrec_spark.kernels.gamma import geometric_mean
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared, System
from tests.problems import RatingProblem, assert_same, count_block, random_counts, rating_problem
from tests.reference import explain as dense
from tests.reference import poisson_outcome as outcome
from tests.reference.poisson import Array

PRIORS = outcome.OutcomePriors()
SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=15)
designs = pytest.mark.parametrize(
    "design",
    [Design(0.37, True), Design(0.37, False), Design(1.0, True, False)],
    ids=lambda d: f"{'weighted' if d.everywhere else 'probabilistic'}-{d.unobserved}{'' if d.per_user else '-global'}",
)
with_and_without = pytest.mark.parametrize("confounder", [True, False], ids=["deconfounded", "classical"])


def every_pair(n_users: int, n_items: int, nonzeros: int, reasons: int = 99) -> Wanted:
    """All items of all users, rated or not; of equal contributions the later one first."""
    col = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    return Wanted(np.arange(n_users + 1) * n_items, col, reasons, np.arange(nonzeros)[::-1])


def system_of(p: RatingProblem) -> System:
    sums = ridge_sums.item_sums(p.factors.item_attribute, p.items.exposure, p.design)
    shared = Shared(p.factors.intercept, 0.0 if p.design.per_user else float(p.factors.confounder_weight[0]))
    return ridge.users_system(p.users, p.factors.item_attribute, sums, shared, p.design, p.reg)


def rank_of(p: RatingProblem) -> int:
    return int(p.factors.item_attribute.shape[1])


def by_ridge(p: RatingProblem, **wanted: Any) -> Explained:
    n_users, n_items = p.dense.ratings.shape
    return explain_ridge(p.users, system_of(p), every_pair(n_users, n_items, len(p.users.col), **wanted), rank_of(p))


def users_of(p: RatingProblem) -> Array:
    return solvers.solve_rows(p.users, system_of(p))[:, : p.factors.item_attribute.shape[1]]


def table_of(found: Explained, col: Array, shape: tuple[int, int]) -> Array:
    """(pairs, items) of contributions; NaN where there is none."""
    table = np.full((len(found.preference), shape[1]), np.nan)
    table[np.repeat(np.arange(len(table)), found.n_reasons), col[found.reason_at]] = found.contribution
    return table


def expected_table(parts: list[tuple[float, dict[int, float]]], n_items: int) -> tuple[Array, Array]:
    table = np.full((len(parts), n_items), np.nan)
    for row, (_, contributions) in enumerate(parts):
        for j, value in contributions.items():
            table[row, j] = value
    return np.array([baseline for baseline, _ in parts]), table


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_least_squares_matches_the_dense_reference_and_adds_up(seed: int, design: Design, confounder: bool) -> None:
    p = rating_problem(np.random.default_rng(seed), design, confounder)
    shape, found = p.dense.ratings.shape, by_ridge(p)
    observed = np.zeros(shape, bool)
    observed[np.repeat(np.arange(shape[0]), np.diff(p.users.row_ptr)), p.users.col] = True
    unrated = design.unobserved, float(design.everywhere)
    parts = [
        dense.of_least_squares(p.dense, p.factors, observed, unrated, u, i)
        for u in range(shape[0])
        for i in range(shape[1])
    ]
    baseline, table = expected_table(parts, shape[1])
    largest = np.abs(np.nan_to_num(table)).max(initial=1e-300)
    np.testing.assert_allclose(table_of(found, p.users.col, shape), table, rtol=1e-8, atol=1e-9 * largest)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-8, atol=1e-9 * largest)
    assert_same(found.preference, (users_of(p) @ p.factors.item_attribute.T).reshape(-1), 1e-9)
    assert (found.others == 0).all()


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_what_a_rating_contributes_is_what_it_moves(seed: int, design: Design, confounder: bool) -> None:
    """Without its pull the preference lacks just this; with twice the pull it has it twice."""
    p = rating_problem(np.random.default_rng(seed), design, confounder)
    system, wanted = system_of(p), every_pair(*p.dense.ratings.shape, len(p.users.col))
    found = explain_ridge(p.users, system, wanted, rank_of(p))
    at = seed % len(p.users.col)
    user = int(np.searchsorted(p.users.row_ptr, at, side="right")) - 1
    own = np.zeros(len(found.preference))
    pair = np.repeat(np.arange(len(own)), found.n_reasons)[found.reason_at == at]
    own[pair] = found.contribution[found.reason_at == at]
    assert set(pair // p.dense.ratings.shape[1]) <= {user}
    for factor in (0.0, 2.0):
        pull = system.pull.copy()
        pull[at] *= factor
        moved = explain_ridge(p.users, system._replace(pull=pull), wanted, rank_of(p))
        assert_same(moved.preference, found.preference + (factor - 1.0) * own, 1e-9)


class Gammas:
    """A Poisson outcome some sweeps from its start, as the kernel takes it."""

    def __init__(self, seed: int, confounder: str, converged: bool) -> None:
        rng = np.random.default_rng(seed)
        ratings = random_counts(rng, *rng.integers(3, 8, 2), 5)
        self.observed = ratings > 0
        self.observed[1, 0] = True  # a rating of 0
        weights, a_hat = rng.uniform(0.2, 3.0, ratings.shape), rng.gamma(0.5, 1.0, ratings.shape)
        self.data = outcome.OutcomeData(ratings, weights, a_hat, confounder)
        state = outcome.outcome_sweep(outcome.initial_outcome_state(rng, self.data, rank=2), self.data)
        self.state = outcome.converged_users(state, self.data) if converged else state

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.ratings.shape

    def explained(self) -> tuple[Explained, Array]:
        """And the items of the nonzeros."""
        s, data, at = self.state, self.data, np.nonzero(self.observed)
        own = data.confounder == "user"
        gamma, known = (
            geometric_mean(s.confounder_shape, s.confounder_rate),
            geometric_mean(s.intercept_shape, s.intercept_rate),
        )
        block = count_block(self.observed.astype(float))._replace(
            counts=(data.weights * data.ratings)[at],
            a_hat=data.a_hat[at] if own else np.empty(0),
            offset=known + (0.0 if own else gamma) * data.a_hat[at],
        )
        prior, shape, rate = np.full(2, 0.3), s.user_shape, s.user_rate
        if own:
            prior = np.append(prior, 1.0)
            shape, rate = np.column_stack([shape, s.confounder_shape]), np.column_stack([rate, s.confounder_rate])
        wanted = every_pair(*self.shape, len(block.col))
        cols = geometric_mean(s.item_shape, s.item_rate)
        return explain_poisson(block, UserGammas(prior, shape, rate), cols, s.item_mean, wanted), block.col


@pytest.mark.parametrize("confounder", ["user", "global"])
@examples
@given(seed=SEEDS)
def test_poisson_matches_the_dense_reference_and_adds_up(seed: int, confounder: str) -> None:
    """Wherever the shapes are; a rating of 0 is no reason."""
    p = Gammas(seed, confounder, converged=False)
    found, col = p.explained()
    pairs = np.ndindex(*p.shape)
    baseline, table = expected_table(
        [dense.of_poisson(p.state, p.data, p.observed, *pair, PRIORS) for pair in pairs], p.shape[1]
    )
    np.testing.assert_allclose(np.nan_to_num(table_of(found, col, p.shape)), np.nan_to_num(table), rtol=1e-9)
    np.testing.assert_allclose(found.baseline, baseline, rtol=1e-10)
    np.testing.assert_allclose(found.preference.reshape(p.shape), p.state.user_mean @ p.state.item_mean.T, rtol=1e-10)
    assert (np.abs(found.contribution) > 0).all()


@pytest.mark.parametrize("confounder", ["user", "global"])
def test_once_converged_a_poisson_contribution_is_a_ratings_hidden_counts(confounder: str) -> None:
    """R g_u g_j E[beta] / rate, summed over the components."""
    p = Gammas(3, confounder, converged=True)
    found, col = p.explained()
    phi = outcome.outcome_responsibilities(p.state, p.data)[..., :2]
    hidden = (p.data.weights * p.data.ratings)[..., None] * phi / p.state.user_rate[:, None, :]
    expected = np.einsum("ujk,ik->uij", hidden, p.state.item_mean).reshape(-1, p.shape[1])
    assert_same(np.nan_to_num(table_of(found, col, p.shape)), expected, 1e-9)


@pytest.mark.parametrize("table", [1, 7, 1 << 22])
def test_reasons_are_the_largest_first_and_the_rest_is_added_up(table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "TABLE", table)
    p = rating_problem(np.random.default_rng(11), Design(0.37, True), True)
    everything, found = by_ridge(p), by_ridge(p, reasons=2)
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


def test_of_equal_contributions_the_one_that_comes_first_in_the_order_is_named() -> None:
    """Three ratings of one user, of the same items to the last digit."""
    block = RatingBlock(np.array([0, 3]), np.zeros(3, np.int32), np.ones(3), np.ones(3), np.empty(0), np.empty((1, 0)))
    item = np.array([[1.0, 2.0]])
    p = ridge.users_system(
        block,
        item,
        ridge_sums.item_sums(item, np.empty((1, 0)), Design(0.0, False)),
        Shared(),
        Design(0.0, False),
        Regulariser(1, 1, 1, 1),
    )
    found = explain_ridge(block, p, Wanted(np.array([0, 1]), np.zeros(1, np.int32), 2, np.array([5, 3, 4])), 2)
    assert found.reason_at.tolist() == [1, 2]
