"""Gamma factors: moments, divergence, long steps and scale match the dense reference; noise depends on a row's id."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dcrec_spark.kernels.gamma import best_scale, geometric_mean, moments, noise, over_relax
from tests.reference import poisson as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
LENGTHS = st.floats(1.0, 1.99)
POSITIVE = st.floats(0.01, 50.0)
KEYS = np.random.default_rng(0).integers(-(2**63), 2**63, 20_000)


@given(SEEDS, POSITIVE, POSITIVE, st.booleans())
def test_moments_are_both_in_one_pass(seed: int, prior_shape: float, prior_rate: float, one_rate: bool) -> None:
    """Over several orders of magnitude."""
    rng = np.random.default_rng(seed)
    n, rank = rng.integers(1, 8, 2)
    shape, rate = np.exp(rng.uniform(-3.0, 5.0, (n, rank))), np.exp(rng.uniform(-3.0, 5.0, rank))
    rate = rate if one_rate else rate * shape
    means, far = moments(shape, rate, prior_shape, prior_rate)
    every_rate = np.broadcast_to(rate, shape.shape)
    np.testing.assert_allclose(np.log(means), dense.expected_log(shape, every_rate), rtol=1e-12, atol=1e-12)
    expected = -dense.gamma_terms(shape, every_rate, prior_shape, prior_rate)
    assert far == pytest.approx(expected, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_product_of_two_geometric_means_is_above_0_and_others_are_as_they_were(precision: type) -> None:
    shape, rate = np.array([[0.001, 1.0]], precision), np.ones(2, precision)
    for means in (geometric_mean(shape, rate), moments(shape, rate, 0.3, 0.3)[0]):
        assert means.dtype == precision
        assert means[0, 0] * means[0, 0] > 0.0
        assert means[0, 1] == pytest.approx(np.exp(-np.euler_gamma), rel=1e-6)


@given(SEEDS, SEEDS, st.integers(1, 6))
def test_a_row_has_the_same_noise_in_whatever_block_it_lies(seed: int, shuffle: int, width: int) -> None:
    keys = KEYS[:50]
    whole = noise(seed, keys, width)
    order = np.random.default_rng(shuffle).permutation(50)
    np.testing.assert_array_equal(noise(seed, keys[order], width), whole[order])
    np.testing.assert_array_equal(noise(seed, keys[7:8], width), whole[7:8])
    np.testing.assert_array_equal(noise(seed, keys, width + 3)[:, :width], whole)


@pytest.mark.parametrize("seed", [0, 1, 42, 2**63, -1])
@pytest.mark.parametrize("keys", [KEYS, np.arange(20_000)], ids=["hashed", "consecutive"])
def test_noise_is_uniform(seed: int, keys: Array) -> None:
    sample = noise(seed, keys, 4)
    assert sample.shape == (20_000, 4)
    assert sample.min() >= 0.0
    assert sample.max() < 1.0
    for component in sample.T:
        assert stats.kstest(component, "uniform").pvalue > 1e-4
    assert sample.mean() == pytest.approx(0.5, abs=0.005)
    assert sample.var() == pytest.approx(1 / 12, abs=0.002)
    off_diagonal = np.corrcoef(sample.T)[np.triu_indices(4, 1)]
    assert np.abs(off_diagonal).max() < 0.03  # four standard deviations of a correlation that is not there


def long_step(seed: int) -> tuple[Array, Array, Array]:
    """Before and after an update, and the prior; row 0 is without counts."""
    rng = np.random.default_rng(seed)
    n, rank = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    prior = np.full(rank, rng.uniform(0.05, 2.0))
    before = prior * (1 + rng.gamma(0.3, 30.0, (n, rank)))
    updated = prior + rng.gamma(0.3, 30.0, (n, rank))
    updated[0] = prior
    return before, updated, prior


@settings(max_examples=50)
@given(SEEDS, LENGTHS)
def test_a_long_step_matches_the_dense_reference(seed: int, length: float) -> None:
    before, updated, prior = long_step(seed)
    relaxed = over_relax(before, updated, prior, length)
    np.testing.assert_allclose(relaxed, dense.long_step(before, updated, float(prior[0]), length), rtol=1e-10)
    np.testing.assert_allclose(relaxed.sum(axis=1), updated.sum(axis=1), rtol=1e-10)
    assert (relaxed >= prior).all()
    np.testing.assert_array_equal(relaxed[0], prior)


PRIORS = [
    dense.Priors(),
    dense.Priors(user_shape=2.0, user_rate=0.1, item_shape=0.5, item_rate=7.0),
    dense.Priors(user_shape=0.01, user_rate=1e-6, item_shape=3.0, item_rate=1e6),
]


@pytest.mark.parametrize("priors", PRIORS)
def test_no_other_scale_has_a_larger_elbo(priors: dense.Priors) -> None:
    """The scale of one factor is moved by a hundredth to a hundredfold; products, and with them the rest, stay."""
    rng, n_users, n_items = np.random.default_rng(1), 7, 4
    data = dense.exposures_of(rng.integers(0, 3, (n_users, n_items)).astype(float))
    state = dense.initial_state(rng, data, 3, priors, noise=30.0)
    users = state.user_mean.sum(axis=0), float(n_users), priors.user_shape, priors.user_rate
    items = state.item_mean.sum(axis=0), float(n_items), priors.item_shape, priors.item_rate
    scale = np.asarray(best_scale(users, items), np.float64)

    def elbo(scale: Array) -> float:
        scaled = replace(state, user_rate=state.user_rate / scale, item_rate=state.item_rate * scale)
        return dense.elbo(scaled, data, priors)

    for factor in (0.01, 0.5, 0.99, 1.01, 2.0, 100.0):
        for at in np.eye(3):
            assert elbo(scale * np.where(at, factor, 1.0)) < elbo(scale)
    np.testing.assert_allclose(dense.balanced(state, priors).user_rate, state.user_rate / scale)


def test_seeds_and_keys_are_unrelated() -> None:
    """Neighbouring ones too: users and items with the same ids start from neighbouring seeds."""
    consecutive = np.arange(20_000)
    here = noise(3, consecutive, 1)[:, 0]
    for other in (noise(4, consecutive, 1), noise(3, consecutive + 1, 1), noise(3, consecutive ^ 2**40, 1)):
        assert abs(np.corrcoef(here, other[:, 0])[0, 1]) < 0.03
    assert len(np.unique(noise(3, consecutive, 5))) == 100_000
