"""Poisson factorization: invariants of coordinate ascent, and the dense reference step by step."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from dcrec_spark.kernels import csr
from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.gamma import divergence, geometric_mean
from dcrec_spark.kernels.poisson import log_rates, rates, update_shape
from tests.problems import count_block, random_counts
from tests.reference import poisson as dense
from tests.reference import poisson_outcome as outcome
from tests.reference.poisson import Array

PRIORS = dense.Priors(0.3, 0.4, 0.5, 0.6)
SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=25)


class Side(NamedTuple):
    """Shape (n, L) and the one rate (L,) of all rows."""

    shape: Array
    rate: Array

    @property
    def geometric_mean(self) -> Array:
        return geometric_mean(self.shape, self.rate)

    @property
    def mean(self) -> Array:
        return self.shape / self.rate


class Problem(NamedTuple):
    """Counts, and both sides a little off their priors."""

    counts: Array
    users: Side
    items: Side


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    n_users, n_items = rng.integers(3, 9, 2)
    rank, largest = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    counts = random_counts(rng, n_users, n_items, largest)
    users = Side(PRIORS.user_shape * (1 + rng.random((n_users, rank))), np.full(rank, PRIORS.user_rate))
    items = Side(PRIORS.item_shape * (1 + rng.random((n_items, rank))), np.full(rank, PRIORS.item_rate))
    return Problem(counts, users, items)


def moved(block: CountBlock, own: Side, other: Side, prior_shape: float, prior_rate: float) -> Side:
    shape = update_shape(prior_shape, block, own.geometric_mean, other.geometric_mean)
    return Side(shape, prior_rate + other.mean.sum(axis=0))


def sweep(problem: Problem) -> Problem:
    """Users, then items against the fresh users."""
    counts, users, items = problem
    users = moved(count_block(counts), users, items, PRIORS.user_shape, PRIORS.user_rate)
    items = moved(count_block(counts.T), items, users, PRIORS.item_shape, PRIORS.item_rate)
    return Problem(counts, users, items)


def elbo(problem: Problem) -> float:
    counts, users, items = problem
    block = count_block(counts)
    fitted = log_rates(block, rates(block, users.geometric_mean, items.geometric_mean))
    expected = users.mean.sum(axis=0) @ items.mean.sum(axis=0)
    far = divergence(*users, PRIORS.user_shape, PRIORS.user_rate)
    far += divergence(*items, PRIORS.item_shape, PRIORS.item_rate)
    return float(fitted - gammaln(counts + 1.0).sum() - expected - far)


def reference_of(problem: Problem) -> dense.State:
    users, items = problem.users, problem.items
    return dense.State(
        users.shape,
        np.tile(users.rate, (len(users.shape), 1)),
        items.shape,
        np.tile(items.rate, (len(items.shape), 1)),
    )


@examples
@given(SEEDS)
def test_sweeps_and_elbo_match_the_dense_reference(seed: int) -> None:
    """All rows of a side have the same rate, so one vector stands for the reference's table."""
    problem = random_problem(seed)
    reference = reference_of(problem)
    for _ in range(4):
        problem, reference = sweep(problem), dense.cavi_sweep(reference, problem.counts, PRIORS)
        mine = reference_of(problem)
        for side in ("user_shape", "user_rate", "item_shape", "item_rate"):
            np.testing.assert_allclose(getattr(mine, side), getattr(reference, side), rtol=1e-10)
        assert elbo(problem) == pytest.approx(dense.elbo(reference, problem.counts, PRIORS), rel=1e-10)


@examples
@given(SEEDS)
def test_the_elbo_never_falls(seed: int) -> None:
    problem = random_problem(seed)
    history = []
    for _ in range(30):
        problem = sweep(problem)
        history.append(elbo(problem))
    rise = np.diff(history)
    assert (rise >= -1e-9 * np.abs(history[:-1])).all()


@examples
@given(SEEDS)
def test_single_precision_agrees_to_a_hundred_thousandth(seed: int) -> None:
    counts, users, items = random_problem(seed)
    own, other = users.geometric_mean, items.geometric_mean
    block = count_block(counts)
    single = count_block(counts, "float32"), own.astype(np.float32), other.astype(np.float32)
    shape = update_shape(0.3, *single)
    assert shape.dtype == np.float32
    np.testing.assert_allclose(shape, update_shape(0.3, count_block(counts), own, other), rtol=1e-5)
    expected = log_rates(block, rates(block, own, other))
    assert log_rates(single[0], rates(*single)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


# The Poisson outcome: a weight of the confounder next to the factors, and an offset


class OutcomeProblem(NamedTuple):
    data: outcome.OutcomeData
    state: outcome.OutcomeState


def random_outcome(seed: int, confounder: str) -> OutcomeProblem:
    rng = np.random.default_rng(seed)
    n_users, n_items = rng.integers(3, 9, 2)
    ratings = random_counts(rng, n_users, n_items, 5)
    weights, a_hat = rng.uniform(0.2, 3.0, ratings.shape), rng.gamma(0.5, 1.0, ratings.shape)
    data = outcome.OutcomeData(ratings, weights, a_hat, confounder)
    state = outcome.outcome_sweep(outcome.initial_outcome_state(rng, data, rank=2), data)
    return OutcomeProblem(data, state)


def g(shape: Array, rate: Array) -> Array:
    return geometric_mean(shape, rate)


@examples
@given(SEEDS)
def test_users_with_a_weight_of_their_own_match_the_dense_reference(seed: int) -> None:
    """The confounder's weight is the last column. The intercept is a known offset."""
    data, state = random_outcome(seed, "user")
    block = count_block(data.ratings)
    at = np.nonzero(data.ratings)
    block = block._replace(
        counts=(data.weights * data.ratings)[at],
        a_hat=data.a_hat[at],
        offset=np.full(len(at[0]), g(state.intercept_shape, state.intercept_rate)[0]),
    )
    own = np.column_stack([g(state.user_shape, state.user_rate), g(state.confounder_shape, state.confounder_rate)])
    shape = update_shape(np.array([0.3, 0.3, 1.0]), block, own, g(state.item_shape, state.item_rate))
    expected = outcome.update_users(state, data)
    np.testing.assert_allclose(shape[:, :2], expected.user_shape, rtol=1e-10)
    np.testing.assert_allclose(shape[:, 2], expected.confounder_shape, rtol=1e-10)


@examples
@given(SEEDS)
def test_rates_of_weighted_pairs_match_the_dense_reference(seed: int) -> None:
    """All pairs weigh w0, and the observed ones more."""
    data, state = random_outcome(seed, "user")
    seen, w0 = data.ratings > 0, 0.4
    data = replace(data, weights=np.where(seen, data.weights, w0))
    block, at = count_block(data.ratings), np.nonzero(data.ratings)
    excess = data.weights[at] - w0
    expected = outcome.update_users(state, data)
    factors = csr.row_products(block.row_ptr, block.col, excess, state.item_mean)
    np.testing.assert_allclose(0.3 + w0 * state.item_mean.sum(axis=0) + factors, expected.user_rate, rtol=1e-10)
    gamma = csr.row_sums(block.row_ptr, excess * data.a_hat[at])
    np.testing.assert_allclose(1.0 + w0 * data.a_hat.sum(axis=1) + gamma, expected.confounder_rate, rtol=1e-10)


@examples
@given(SEEDS)
def test_items_with_a_known_offset_match_the_dense_reference(seed: int) -> None:
    data, state = random_outcome(seed, "user")
    at = np.nonzero(data.ratings.T)
    drawn = (g(state.confounder_shape, state.confounder_rate)[:, None] * data.a_hat).T[at]
    block = count_block(data.ratings.T)._replace(
        counts=(data.weights * data.ratings).T[at], offset=drawn + g(state.intercept_shape, state.intercept_rate)
    )
    own, other = g(state.item_shape, state.item_rate), g(state.user_shape, state.user_rate)
    np.testing.assert_allclose(
        update_shape(0.3, block, own, other), outcome.update_items(state, data).item_shape, rtol=1e-10
    )


def test_a_count_of_zero_adds_nothing_to_the_log_rates() -> None:
    block = CountBlock(np.array([0, 2]), np.array([0, 1]), np.array([0.0, 2.0]))
    assert log_rates(block, np.array([0.0, np.e])) == pytest.approx(2.0)
