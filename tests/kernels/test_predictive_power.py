"""What the predictive check passes and what it fails: data from the model and others, with real fits."""

import numpy as np
import pytest
from scipy import stats

from dcrec_spark.kernels.predictive import Factors, HeldOut, UserChecks, check_users, p_values, squared_deviations
from tests.kernels.test_predictive import pairs
from tests.reference.poisson import Priors
from tests.simulated_exposures import COMMON, RARE, SHARE, Split, drawn, posterior, split


def check(tables: Split, rank: int, counted: bool, priors: Priors) -> UserChecks:
    """Users and items without an exposure in training are not there."""
    at = np.ix_(np.flatnonzero(tables.training.sum(axis=1)), np.flatnonzero(tables.training.sum(axis=0)))
    training, held_out = (table[at] for table in tables)
    rng = np.random.default_rng(0)
    users, items = (
        Factors(rng.integers(-(2**63), 2**63, len(shape)), shape, rate)
        for shape, rate in posterior(training, rank, priors)
    )
    return check_users(pairs(training), pairs(held_out), users, items, HeldOut(SHARE, counted), 60, 0)


def p_of(found: UserChecks) -> float:
    """Of all users together."""
    return float(p_values(found.log_likelihood.sum(axis=1)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("counted", "priors"), [(True, COMMON), (False, RARE)], ids=["counts", "0-or-1"])
def test_passes_on_exposures_from_the_model(counted: bool, priors: Priors, seed: int) -> None:
    """Its own priors, fitted as ever; what is there or not as min(Poisson, 1) of rates that are small."""
    exposures = drawn(seed, priors)
    found = check(split(exposures if counted else np.minimum(exposures, 1.0), seed), 3, counted, priors)
    assert 0.05 < p_of(found) < 0.95
    assert 0.025 < float(p_values(squared_deviations(found.log_likelihood).sum(axis=1))) < 0.975
    assert stats.kstest(found.p_value, "uniform").pvalue > 0.02


@pytest.mark.parametrize("seed", range(3))
def test_fails_where_the_model_is_not_the_exposures(seed: int) -> None:
    """Popularity that moved, counts that vary twice as much as Poisson counts do, a rank that adds exposures."""
    training, held_out = split(drawn(seed), seed)
    moved = check(Split(training, held_out[:, ::-1]), 3, True, COMMON)
    sums = moved.log_likelihood.sum(axis=1)
    assert p_of(moved) < 0.01
    assert sums[0] < sums[1:].min()
    in_pairs = split(2.0 * drawn(seed, Priors(1.0, 1.0, 1.0, 3.0)), seed)
    assert p_of(check(in_pairs, 3, True, Priors(1.0, 1.0, 1.0, 1.5))) < 0.01
    # Each component adds its prior shape to each user: 20 of them to some 20 exposures.
    found = check(split(np.minimum(drawn(seed, RARE), 1.0), seed), 20, False, RARE)
    assert p_of(found) > 0.98
    assert np.mean(found.p_value) > 0.7
