"""Poisson factorization: the dense reference step by step, and users that converge by themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from dcrec_spark.kernels.gamma import divergence
from dcrec_spark.kernels.poisson import converge_shape, log_rates, rates, update_shape
from tests.kernels.problems import g
from tests.problems import count_block, random_counts
from tests.reference import poisson as dense
from tests.reference.poisson import Array

PRIORS = dense.Priors(0.3, 0.4, 0.5, 0.6)
SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=15)


def problem(seed: int, noise: float = 20.0) -> tuple[Array, dense.State]:
    """Counts, and a state whose users have the rate that the items give them."""
    rng = np.random.default_rng(seed)
    n_users, n_items = (int(n) for n in rng.integers(3, 9, 2))
    counts = random_counts(rng, n_users, n_items, int(rng.integers(1, 5)))
    state = dense.initial_state(rng, dense.exposures_of(counts), int(rng.integers(1, 4)), PRIORS, noise)
    state = replace(state, item_rate=rate_of(PRIORS.item_rate, state.user_mean, n_items))
    return counts, replace(state, user_rate=rate_of(PRIORS.user_rate, state.item_mean, n_users))


def rate_of(prior: float, means: Array, n: int) -> Array:
    return np.tile(prior + means.sum(axis=0), (n, 1))


def users_of(state: dense.State) -> Array:
    return g(state.user_shape, state.user_rate)


def items_of(state: dense.State) -> Array:
    return g(state.item_shape, state.item_rate)


def sweep(counts: Array, state: dense.State) -> dense.State:
    shape = update_shape(PRIORS.user_shape, count_block(counts), users_of(state), items_of(state))
    state = replace(state, user_shape=shape, user_rate=rate_of(PRIORS.user_rate, state.item_mean, len(shape)))
    shape = update_shape(PRIORS.item_shape, count_block(counts.T), items_of(state), users_of(state))
    return replace(state, item_shape=shape, item_rate=rate_of(PRIORS.item_rate, state.user_mean, len(shape)))


def elbo(counts: Array, state: dense.State) -> float:
    block = count_block(counts)
    fitted = log_rates(block, rates(block, users_of(state), items_of(state)))
    expected = state.user_mean.sum(axis=0) @ state.item_mean.sum(axis=0)
    far = divergence(state.user_shape, state.user_rate, PRIORS.user_shape, PRIORS.user_rate)
    far += divergence(state.item_shape, state.item_rate, PRIORS.item_shape, PRIORS.item_rate)
    return float(fitted - gammaln(counts + 1.0).sum() - expected - far)


@examples
@given(SEEDS)
def test_sweeps_and_elbo_match_the_dense_reference_and_the_elbo_never_falls(seed: int) -> None:
    counts, state = problem(seed, noise=1.0)
    data, reference, history = dense.exposures_of(counts), state, []
    for _ in range(8):
        state, reference = sweep(counts, state), dense.sweep(reference, data, PRIORS)
        for side in ("user_shape", "user_rate", "item_shape", "item_rate"):
            np.testing.assert_allclose(getattr(state, side), getattr(reference, side), rtol=1e-9)
        history.append(elbo(counts, state))
        assert history[-1] == pytest.approx(dense.elbo(reference, data, PRIORS), rel=1e-10)
    assert (np.diff(history) >= -1e-9 * np.abs(history[:-1])).all()


def converged(counts: Array, state: dense.State, tol: float = 1e-9, most: int = 5_000) -> dense.State:
    block, cols = count_block(counts), items_of(state)
    shape = converge_shape(PRIORS.user_shape, block, state.user_shape, state.user_rate[0], cols, tol, most)
    return replace(state, user_shape=shape)


@examples
@given(SEEDS)
def test_converged_rows_do_not_move_and_do_not_depend_on_the_others(seed: int) -> None:
    counts, state = problem(seed)
    end = converged(counts, state)
    again = update_shape(PRIORS.user_shape, count_block(counts), users_of(end), items_of(state))
    np.testing.assert_allclose(again, end.user_shape, rtol=1e-6)
    for row in range(len(counts)):
        rows = slice(row, row + 1)
        one = replace(state, user_shape=state.user_shape[rows], user_rate=state.user_rate[rows])
        np.testing.assert_allclose(converged(counts[rows], one).user_shape[0], end.user_shape[row], rtol=1e-12)
    assert (end.user_shape[0] == PRIORS.user_shape).all()


@pytest.mark.parametrize("most", [1, 4])
@examples
@given(seed=SEEDS)
def test_no_row_ends_below_where_it_began(most: int, seed: int) -> None:
    """However early it has to stop, by the ELBO of the dense reference with this row changed."""
    counts, state = problem(seed)
    end, data = converged(counts, state, tol=0.0, most=most), dense.exposures_of(counts)
    began = dense.elbo(state, data, PRIORS)
    for row in range(len(counts)):
        shape = state.user_shape.copy()
        shape[row] = end.user_shape[row]
        assert dense.elbo(replace(state, user_shape=shape), data, PRIORS) >= began - 1e-10 * abs(began)


def test_extrapolation_takes_a_fraction_of_the_plain_updates() -> None:
    """Two factors that are nearly the same for all items: updates take hundreds of steps to tell them apart."""
    rng = np.random.default_rng(0)
    one = rng.gamma(2.0, 1.0, 40)
    cols = np.column_stack([one, one * (1.0 + 0.05 * rng.standard_normal(40))])
    block, rate, shape = count_block(np.ones((1, 40))), cols.sum(axis=0), np.array([[20.3, 20.3]])
    plain, step, updates = shape, 1.0, 0
    while step > 1e-9:
        before, plain = plain, update_shape(0.3, block, g(plain, rate), cols)
        step, updates = np.abs(plain - before).max() / plain.max(), updates + 1
    found = converge_shape(0.3, block, shape, rate, cols, 1e-9, updates // 9)  # rounds of three updates
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@examples
@given(SEEDS)
def test_rows_reach_at_least_the_elbo_of_plain_updates(seed: int) -> None:
    counts, state = problem(seed)
    data, rank = dense.exposures_of(counts), state.user_shape.shape[1]
    reached = dense.elbo(dense.converged_users(state, data, PRIORS, updates=60), data, PRIORS)
    equal = PRIORS.user_shape + np.tile(counts.sum(axis=1, keepdims=True) / rank, (1, rank))
    ours = converged(counts, replace(state, user_shape=equal))
    assert dense.elbo(ours, data, PRIORS) >= reached - 1e-9 * abs(reached)
