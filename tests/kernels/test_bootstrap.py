"""The bootstrap's weights are Poisson(1), belong to the id alone, and give the intervals that theory gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson

from dcrec_spark.kernels.bootstrap import percentile_interval, poisson_weights, resampled_sums
from tests.reference.poisson import Array


def keys(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, n)


def test_weights_are_poisson_with_mean_one() -> None:
    weights = poisson_weights(3, keys(20_000), 30)
    seen = np.bincount(weights.ravel(), minlength=6)
    expected = poisson.pmf(np.arange(5), 1.0) * weights.size
    observed = np.append(seen[:5], seen[5:].sum())
    assert chisquare(observed, np.append(expected, weights.size - expected.sum())).pvalue > 0.01


def test_replications_and_neighbouring_keys_have_nothing_in_common() -> None:
    """Consecutive numbers as keys, and columns that come from one word of the hash."""
    weights = poisson_weights(0, np.arange(20_000), 9).astype(float)
    between = np.corrcoef(weights.T)[~np.eye(9, dtype=bool)]
    after = [np.corrcoef(column[1:], column[:-1])[0, 1] for column in weights.T]
    assert np.abs([*between, *after]).max() < 5 / np.sqrt(20_000)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 30))
def test_a_weight_belongs_to_its_key_and_replication(seed: int, replications: int, more: int) -> None:
    """Not to its neighbours, nor to how many replications there are."""
    key = keys(7, seed)
    weights = poisson_weights(seed, key, replications)
    order = np.random.default_rng(seed).permutation(7)
    np.testing.assert_array_equal(poisson_weights(seed, key[order], replications), weights[order])
    np.testing.assert_array_equal(poisson_weights(seed, key, replications + more)[:, :replications], weights)
    assert not np.array_equal(poisson_weights(seed + 1, keys(99), 9), poisson_weights(seed, keys(99), 9))


def test_sums_are_those_of_repeated_rows() -> None:
    """Each row taken as often as its weight says, by a plain loop; more rows than are weighed at a time."""
    key, values = keys(5000), np.random.default_rng(1).integers(0, 9, (5000, 2)).astype(float)
    weights = poisson_weights(4, key, 3)
    found = resampled_sums(4, key, values, 3)
    np.testing.assert_array_equal(found[0], values.sum(axis=0))
    for replication in range(3):
        np.testing.assert_array_equal(
            found[1 + replication], np.repeat(values, weights[:, replication], axis=0).sum(axis=0)
        )


def test_without_replications_there_is_the_sum_alone() -> None:
    assert resampled_sums(0, keys(3), np.ones((3, 2)), 0).tolist() == [[3.0, 3.0]]


def test_parts_add_up_to_the_whole() -> None:
    key, values = keys(100), np.random.default_rng(2).standard_normal((100, 3))
    parts = resampled_sums(1, key[:30], values[:30], 20) + resampled_sums(1, key[30:], values[30:], 20)
    np.testing.assert_allclose(parts, resampled_sums(1, key, values, 20), rtol=1e-12)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    """value +- 1.96 sd / sqrt(n), to a tenth of its width."""
    values = np.random.default_rng(6).normal(2.0, 3.0, 4000)
    sums = resampled_sums(0, keys(4000), np.column_stack([values, np.ones(4000)]), 2000)
    low, high = percentile_interval(sums[1:, 0] / sums[1:, 1], 0.95) or (0, 0)
    half = 1.96 * values.std() / np.sqrt(4000)
    assert [low, high] == pytest.approx([values.mean() - half, values.mean() + half], abs=0.2 * half)


def test_replications_that_drew_nobody_are_left_out() -> None:
    assert percentile_interval(np.array([1.0, np.nan, 1.0]), 0.9) == (1.0, 1.0)
    assert percentile_interval(np.array([np.nan]), 0.9) is None
    assert percentile_interval(np.array([]), 0.9) is None
