"""The predictive check's kernel: the dense reference's likelihood and means, uniform p-values."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dcrec_spark.kernels import predictive
from dcrec_spark.kernels.predictive import (
    CountedPairs,
    Factors,
    HeldOut,
    check_users,
    p_values,
    replicate,
    squared_deviations,
)
from tests.reference import predictive as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
KINDS = [True, False]
SHARE = 0.2


class Simulated(NamedTuple):
    """A posterior, and tables (U, I) of exposures in training and held out that come from it."""

    users: Factors
    items: Factors
    training: Array
    held_out: Array

    def check(self, how: HeldOut, replications: int = 30, seed: int = 0) -> predictive.UserChecks:
        tables = pairs(self.training), pairs(self.held_out)
        return check_users(*tables, self.users, self.items, how, replications, seed)


def pairs(table: Array) -> CountedPairs:
    row, col = np.nonzero(table)
    return CountedPairs(row, col, table[row, col].astype(float))


def simulate(seed: int, counted: bool, n_users: int, n_items: int, certainty: float = 1.0) -> Simulated:
    """Rates of 0.02 to above 1; the higher the certainty, the narrower the posterior."""
    rng = np.random.default_rng(seed)

    def factors(n: int, rate: float) -> Factors:
        shape = (rng.gamma(2.0, 2.0, (n, 3)) + 0.3) * certainty
        return Factors(rng.integers(-(2**63), 2**63, n), shape, np.full((n, 3), rate * certainty))

    users, items = factors(n_users, 8.0), factors(n_items, 10.0)
    rate = (rng.gamma(users.shape) / users.rate) @ (rng.gamma(items.shape) / items.rate).T
    if counted:
        return Simulated(users, items, rng.poisson(rate), rng.poisson(SHARE / (1.0 - SHARE) * rate))
    exposed = rng.random(rate.shape) < np.minimum(rate / (1.0 - SHARE), predictive.CERTAIN)
    held_out = exposed & (rng.random(rate.shape) < SHARE)
    return Simulated(users, items, exposed & ~held_out, held_out)


@given(SEEDS, st.booleans(), st.floats(0.05, 0.9))
@settings(max_examples=20)
def test_the_log_likelihood_matches_the_dense_reference(seed: int, counted: bool, share: float) -> None:
    some = simulate(seed, counted, 5, 4)
    rate = some.users.mean() @ some.items.mean().T
    found = some.check(HeldOut(share, counted), replications=1).log_likelihood[0]
    np.testing.assert_allclose(found, dense.log_likelihood(some.held_out, rate, share), rtol=1e-10)


@pytest.mark.parametrize("counted", KINDS, ids=["counts", "0-or-1"])
def test_replications_have_the_distribution_of_the_dense_reference(counted: bool) -> None:
    some = simulate(3, counted, 8, 6, certainty=1e8)
    how, n = HeldOut(SHARE, counted), 700
    training = pairs(some.training)
    first, second = np.zeros((8, 6)), np.zeros((8, 6))
    for seed in range(n):
        drawn = replicate(training, some.users, some.items, how, seed)
        first[drawn.row, drawn.col] += drawn.times
        second[drawn.row, drawn.col] += drawn.times**2
    mean = dense.held_out_mean(some.training, some.users.mean() @ some.items.mean().T, SHARE, counted)
    variance = mean if counted else mean * (1.0 - mean)
    assert (first[mean == 0] == 0).all()
    z = (first / n - mean)[mean > 0] / np.sqrt(variance[mean > 0] / n)
    assert np.abs(z).max() < 4.0
    assert (z**2).sum() < stats.chi2(len(z)).ppf(0.999)
    np.testing.assert_allclose((second / n - (first / n) ** 2).sum(), variance.sum(), rtol=0.05)


@pytest.mark.parametrize("counted", KINDS, ids=["counts", "0-or-1"])
def test_a_users_check_does_not_depend_on_the_other_users(counted: bool) -> None:
    whole = simulate(5, counted, 12, 9)
    how = HeldOut(SHARE, counted)
    expected = whole.check(how)
    for chosen in ([4], [11, 2, 7]):
        users = Factors(*(array[chosen] for array in whole.users))
        found = Simulated(users, whole.items, whole.training[chosen], whole.held_out[chosen]).check(how)
        np.testing.assert_array_equal(found.p_value, expected.p_value[chosen])
        np.testing.assert_array_equal(found.log_likelihood, expected.log_likelihood[:, chosen])


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=30), st.floats(0.0, 1.0, exclude_max=True))
def test_p_values_match_the_dense_reference(statistic: list[int], uniform: float) -> None:
    numbers = np.array(statistic, float)
    found = p_values(np.stack([numbers, -numbers], axis=1), np.array([uniform, uniform]))
    expected = [dense.p_value(numbers, uniform), dense.p_value(-numbers, uniform)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("counted", "certainty"), [(True, 1.0), (True, 1e6), (False, 1e6)])
def test_p_values_are_uniform_where_the_posterior_is_the_truth(counted: bool, certainty: float) -> None:
    """One user's, the sums' and the spreads', over simulated data sets.

    0 or 1 with a narrow posterior only: what training says of the truth would have to be in it, and is not.
    """
    how, of_users, of_sums, of_spreads = HeldOut(SHARE, counted), [], [], []
    for seed in range(50):
        found = simulate(seed, counted, 40, 20, certainty).check(how, 19, seed)
        of_users.append(found.p_value[0])
        of_sums.append(p_values(found.log_likelihood.sum(axis=1)))
        of_spreads.append(p_values(squared_deviations(found.log_likelihood).sum(axis=1)))
    for sample in (of_users, of_sums, of_spreads):
        assert stats.kstest(sample, "uniform").pvalue > 0.02


def test_a_component_that_draws_nothing_is_never_asked_for() -> None:
    """Shapes so small that draws underflow to 0: for a whole component, and for all of one user's."""
    keys = np.arange(5)
    items = Factors(keys, np.array([[2.0, 1e-6]] * 5), np.ones((5, 2)))
    users = Factors(keys[:2], np.array([[50.0, 3.0], [1e-6, 1e-6]]), np.ones((2, 2)))
    assert (items.draw(predictive.stream(8, predictive._ITEMS))[:, 1] == 0.0).all()
    found = replicate(pairs(np.zeros((2, 5))), users, items, HeldOut(SHARE, True), 8)
    assert found.times.sum() > 30
    assert set(found.row) == {0}
    assert set(found.col) == set(range(5))
