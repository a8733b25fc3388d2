"""The scale of each factor between the sides: the ELBO is largest there, and coordinate ascent ends there."""

import numpy as np
import pytest

from dcrec_spark.kernels.scale import best_scale
from tests.reference import poisson as dense

PRIORS = [
    dense.Priors(),
    dense.Priors(user_shape=2.0, user_rate=0.1, item_shape=0.5, item_rate=7.0),
    dense.Priors(user_shape=0.01, user_rate=1e-6, item_shape=3.0, item_rate=1e6),
]
N_USERS, N_ITEMS, RANK = 7, 4, 3


def drawn(priors: dense.Priors, seed: int) -> dense.State:
    return dense.initial_state(np.random.default_rng(seed), N_USERS, N_ITEMS, RANK, priors, noise=30.0)


def scale_of(state: dense.State, priors: dense.Priors) -> dense.Array:
    users = state.user_mean.sum(axis=0), float(N_USERS), priors.user_shape, priors.user_rate
    items = state.item_mean.sum(axis=0), float(N_ITEMS), priors.item_shape, priors.item_rate
    return np.asarray(best_scale(users, items), np.float64)


def scaled(state: dense.State, scale: dense.Array) -> dense.State:
    return dense.State(state.user_shape, state.user_rate / scale, state.item_shape, state.item_rate * scale)


@pytest.mark.parametrize("priors", PRIORS)
@pytest.mark.parametrize("seed", range(5))
def test_no_other_scale_has_a_larger_elbo(priors: dense.Priors, seed: int) -> None:
    """The scale of one factor is moved by a hundredth to a hundredfold; products, and with them the rest, stay."""
    state = drawn(priors, seed)
    scale = scale_of(state, priors)
    counts = np.random.default_rng(seed).integers(0, 3, (N_USERS, N_ITEMS)).astype(float)
    best = dense.elbo(scaled(state, scale), counts, priors)
    for factor in (0.01, 0.5, 0.99, 1.01, 2.0, 100.0):
        other = scale * np.where(np.arange(RANK) == seed % RANK, factor, 1.0)
        assert dense.elbo(scaled(state, other), counts, priors) < best
    np.testing.assert_allclose(dense.a_hat(scaled(state, scale)), dense.a_hat(state))


@pytest.mark.parametrize("priors", PRIORS)
def test_balanced_twice_is_balanced_once(priors: dense.Priors) -> None:
    state = drawn(priors, 9)
    once = scaled(state, scale_of(state, priors))
    np.testing.assert_allclose(scale_of(once, priors), 1.0, rtol=1e-9)


def test_where_coordinate_ascent_has_ended_the_scale_is_one() -> None:
    counts = np.random.default_rng(3).poisson(1.5, (N_USERS, N_ITEMS)).astype(float)
    state = drawn(dense.Priors(), 3)
    for _ in range(400):
        state = dense.cavi_sweep(state, counts)
    np.testing.assert_allclose(scale_of(state, dense.Priors()), 1.0, atol=1e-4)
