"""Gamma factors: moments and divergence as the twin writes them out, noise that belongs to a row's id."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dcrec_spark.kernels.gamma import divergence, geometric_mean, moments, noise
from tests.kernels import ways
from tests.reference import poisson as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
POSITIVE = st.floats(0.01, 50.0)
KEYS = np.random.default_rng(0).integers(-(2**63), 2**63, 20_000)


@pytest.fixture(scope="module", autouse=True, params=[1, 3], ids=["one thread", "three threads"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """However few the numbers are."""
    with ways.threaded(request.param):
        yield


def random_factors(seed: int) -> tuple[Array, Array]:
    """shape (n, L) and rate (L,), over several orders of magnitude."""
    rng = np.random.default_rng(seed)
    n, rank = rng.integers(1, 8, 2)
    return np.exp(rng.uniform(-3.0, 5.0, (n, rank))), np.exp(rng.uniform(-3.0, 5.0, rank))


@given(SEEDS)
def test_geometric_mean_is_the_exponential_of_the_expected_log(seed: int) -> None:
    shape, rate = random_factors(seed)
    actual = geometric_mean(shape, rate)
    np.testing.assert_allclose(np.log(actual), dense.expected_log(shape, rate), rtol=1e-12, atol=1e-12)
    assert (actual < shape / rate).all()


@given(SEEDS, POSITIVE, POSITIVE)
def test_divergence_is_the_twins_and_never_negative(seed: int, prior_shape: float, prior_rate: float) -> None:
    shape, rate = random_factors(seed)
    actual = divergence(shape, rate, prior_shape, prior_rate)
    expected = -dense.gamma_terms(shape, np.broadcast_to(rate, shape.shape), prior_shape, prior_rate)
    assert actual == pytest.approx(expected, rel=1e-10, abs=1e-8)
    assert actual >= -1e-9 * shape.sum()


@given(SEEDS, POSITIVE, POSITIVE, st.booleans())
def test_moments_are_both_in_one_pass(seed: int, prior_shape: float, prior_rate: float, one_rate: bool) -> None:
    shape, rate = random_factors(seed)
    rate = rate if one_rate else rate * shape
    means, far = moments(shape, rate, prior_shape, prior_rate)
    every_rate = np.broadcast_to(rate, shape.shape)
    np.testing.assert_allclose(np.log(means), dense.expected_log(shape, every_rate), rtol=1e-12, atol=1e-12)
    expected = -dense.gamma_terms(shape, every_rate, prior_shape, prior_rate)
    assert far == pytest.approx(expected, rel=1e-10, abs=1e-8)


@given(POSITIVE, POSITIVE, st.integers(1, 50), st.integers(1, 5))
def test_divergence_is_zero_at_the_prior(shape: float, rate: float, n: int, rank: int) -> None:
    at_prior = divergence(np.full((n, rank), shape), np.full(rank, rate), shape, rate)
    assert at_prior == pytest.approx(0.0, abs=1e-9 * n * rank * max(shape, 1.0))


def test_divergence_of_one_factor_by_numerical_integration() -> None:
    q, prior = stats.gamma(2.5, scale=1 / 0.7), stats.gamma(0.3, scale=1 / 0.4)
    expected = q.expect(lambda x: q.logpdf(x) - prior.logpdf(x))
    assert divergence(np.array([[2.5]]), np.array([0.7]), 0.3, 0.4) == pytest.approx(expected, rel=1e-6)


def test_divergence_is_counted_in_double_precision() -> None:
    shape, rate = random_factors(1)
    single = divergence(shape.astype(np.float32), rate.astype(np.float32), 0.3, 0.3)
    assert single == pytest.approx(divergence(shape, rate, 0.3, 0.3), rel=1e-5)


@given(SEEDS, SEEDS, st.integers(1, 6))
def test_a_row_has_the_same_noise_in_whatever_block_it_lies(seed: int, shuffle: int, width: int) -> None:
    """Alone, in another order, or with more components to come."""
    keys = KEYS[:50]
    whole = noise(seed, keys, width)
    order = np.random.default_rng(shuffle).permutation(50)
    np.testing.assert_array_equal(noise(seed, keys[order], width), whole[order])
    np.testing.assert_array_equal(noise(seed, keys[7:8], width), whole[7:8])
    np.testing.assert_array_equal(noise(seed, keys, width + 3)[:, :width], whole)


@pytest.mark.parametrize("seed", [0, 1, 42, 2**63, -1])
@pytest.mark.parametrize("keys", [KEYS, np.arange(20_000)], ids=["hashed", "consecutive"])
def test_noise_is_uniform(seed: int, keys: Array) -> None:
    """Each component on its own, and any two together."""
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


def test_seeds_and_keys_are_unrelated() -> None:
    """Neighbouring ones too: users and items with the same ids start from neighbouring seeds."""
    consecutive = np.arange(20_000)
    here = noise(3, consecutive, 1)[:, 0]
    for other in (noise(4, consecutive, 1), noise(3, consecutive + 1, 1), noise(3, consecutive ^ 2**40, 1)):
        assert abs(np.corrcoef(here, other[:, 0])[0, 1]) < 0.03
    assert len(np.unique(noise(3, consecutive, 5))) == 100_000


def test_noise_of_no_rows() -> None:
    assert noise(0, np.empty(0, np.int64), 3).shape == (0, 3)


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    shape, rate = rng.gamma(1.0, 3.0, (101, 7)), rng.gamma(1.0, 1.0, 7)
    found = []
    for n_threads in (1, 2, 5):
        with ways.threaded(n_threads):
            found.append([geometric_mean(shape, rate), *moments(shape, rate, 0.3, 0.4)])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)
