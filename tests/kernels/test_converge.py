"""Converged rows: those of plain updates in fewer steps, never below the ELBO where they began."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.gamma import geometric_mean
from dcrec_spark.kernels.poisson import converge_shape, update_shape
from tests.problems import count_block, random_counts
from tests.reference import poisson as dense
from tests.reference.poisson import Array

PRIORS = dense.Priors(0.3, 0.4, 0.5, 0.6)
SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=12)


def problem(seed: int) -> tuple[Array, dense.State]:
    """Counts, and a state whose users have the rate that its items give them."""
    rng = np.random.default_rng(seed)
    n_users, n_items = (int(n) for n in rng.integers(3, 9, 2))
    counts = random_counts(rng, n_users, n_items, int(rng.integers(1, 5)))
    state = dense.initial_state(rng, n_users, n_items, int(rng.integers(1, 4)), PRIORS, noise=20.0)
    rate = PRIORS.user_rate + np.tile(state.item_mean.sum(axis=0), (n_users, 1))
    return counts, replace(state, user_rate=rate)


def items_of(state: dense.State) -> Array:
    return geometric_mean(state.item_shape, state.item_rate)


def converged(counts: Array, state: dense.State, tol: float = 1e-9, most: int = 5_000) -> dense.State:
    block, cols = count_block(counts), items_of(state)
    shape = converge_shape(PRIORS.user_shape, block, state.user_shape, state.user_rate[0], cols, tol, most)
    return replace(state, user_shape=shape)


@examples
@given(SEEDS)
def test_converged_rows_do_not_move_and_do_not_depend_on_the_others(seed: int) -> None:
    """One more update moves nothing; a row comes out as it does alone; a row without counts is its prior."""
    counts, state = problem(seed)
    result = converged(counts, state).user_shape
    own = geometric_mean(result, state.user_rate)
    again = update_shape(PRIORS.user_shape, count_block(counts), own, items_of(state))
    np.testing.assert_allclose(again, result, rtol=1e-6)
    for row in range(len(counts)):
        rows = slice(row, row + 1)
        one = replace(state, user_shape=state.user_shape[rows], user_rate=state.user_rate[rows])
        np.testing.assert_allclose(converged(counts[rows], one).user_shape[0], result[row], rtol=1e-12)
    assert (result[0] == PRIORS.user_shape).all()


@examples
@given(SEEDS)
def test_rows_reach_at_least_the_elbo_of_plain_updates(seed: int) -> None:
    """From equal shares, compared with the dense reference, which is still on its way in places."""
    counts, state = problem(seed)
    reference = dense.converged_users(state, counts, PRIORS, updates=60)
    rank = state.user_shape.shape[1]
    equal = PRIORS.user_shape + np.tile(counts.sum(axis=1, keepdims=True) / rank, (1, rank))
    ours = converged(counts, replace(state, user_shape=equal))
    reached = dense.elbo(reference, counts, PRIORS)
    assert dense.elbo(ours, counts, PRIORS) >= reached - 1e-9 * abs(reached)


@pytest.mark.parametrize("most", [1, 4])
@examples
@given(SEEDS)
def test_no_row_ends_below_where_it_began(most: int, seed: int) -> None:
    """However early it has to stop, by the ELBO of the dense reference with this row changed."""
    counts, state = problem(seed)
    end = converged(counts, state, tol=0.0, most=most)
    began = dense.elbo(state, counts, PRIORS)
    for row in range(len(counts)):
        shape = state.user_shape.copy()
        shape[row] = end.user_shape[row]
        moved = dense.elbo(replace(state, user_shape=shape), counts, PRIORS)
        assert moved >= began - 1e-10 * abs(began)


def slow_row() -> tuple[CountBlock, Array, Array]:
    """Two factors that are nearly the same for all items: updates take hundreds of steps to tell them apart."""
    rng = np.random.default_rng(0)
    one = rng.gamma(2.0, 1.0, 40)
    cols = np.column_stack([one, one * (1.0 + 0.05 * rng.standard_normal(40))])
    return count_block(np.ones((1, 40))), cols, cols.sum(axis=0)


def test_extrapolation_takes_a_fraction_of_the_plain_updates() -> None:
    block, cols, rate = slow_row()
    shape = np.array([[20.3, 20.3]])
    plain, step, updates = shape, 1.0, 0
    while step > 1e-9:
        before, plain = plain, update_shape(0.3, block, geometric_mean(plain, rate), cols)
        step, updates = np.abs(plain - before).max() / plain.max(), updates + 1
    found = converge_shape(0.3, block, shape, rate, cols, 1e-9, updates // 9)  # rounds of three updates
    np.testing.assert_allclose(found, plain, rtol=1e-4)


def test_a_weight_of_the_row_and_a_known_offset_take_part() -> None:
    """Once converged, an update with the confounder's values and the intercept next to the counts moves nothing."""
    rng = np.random.default_rng(5)
    counts = random_counts(rng, 6, 8, 4)
    n = int((counts > 0).sum())
    block = count_block(counts)._replace(a_hat=rng.gamma(0.5, 1.0, n), offset=rng.uniform(0.1, 1.0, n))
    cols, rate = rng.gamma(1.0, 1.0, (8, 2)), rng.uniform(1.0, 3.0, (6, 3))
    prior = np.array([0.3, 0.3, 1.0])
    result = converge_shape(prior, block, np.tile(prior + 1.0, (6, 1)), rate, cols, 1e-10, 5_000)
    np.testing.assert_allclose(update_shape(prior, block, geometric_mean(result, rate), cols), result, rtol=1e-6)


def test_single_precision_stays_single() -> None:
    counts, state = problem(5)
    given = (a.astype(np.float32) for a in (state.user_shape, state.user_rate[0], items_of(state)))
    single = converge_shape(PRIORS.user_shape, count_block(counts, "float32"), *given, 1e-6, 100)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, converged(counts, state, 1e-6, 100).user_shape, rtol=1e-3, atol=1e-3)
