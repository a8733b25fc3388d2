"""What the predictive check passes and what it fails: data from the model and others, with real fits."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from dcrec_spark.kernels.predictive import Factors, HeldOut, check_users, p_values, squared_deviations
from tests.kernels.test_predictive import pairs
from tests.reference.poisson import Array, Priors
from tests.simulated_exposures import COMMON, RARE, SHARE, Split, drawn, posterior, split


class Found(NamedTuple):
    """p of the sum and of the spread, the users' p-values, and the sums, the real one first."""

    p: float
    spread: float
    users: Array
    log_likelihood: Array


def check(tables: Split, rank: int, counted: bool, priors: Priors) -> Found:
    """Users and items without an exposure in training are not there."""
    at = np.ix_(np.flatnonzero(tables.training.sum(axis=1)), np.flatnonzero(tables.training.sum(axis=0)))
    training, held_out = (table[at] for table in tables)
    rng = np.random.default_rng(0)
    users, items = (
        Factors(rng.integers(-(2**63), 2**63, len(shape)), shape, rate)
        for shape, rate in posterior(training, rank, priors)
    )
    found = check_users(pairs(training), pairs(held_out), users, items, HeldOut(SHARE, counted), 60, 0)
    sums = found.log_likelihood.sum(axis=1)
    spread = p_values(squared_deviations(found.log_likelihood).sum(axis=1))
    return Found(float(p_values(sums)), float(spread), found.p_value, sums)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("counted", "priors"), [(True, COMMON), (False, RARE)], ids=["counts", "0-or-1"])
def test_passes_on_exposures_from_the_model(counted: bool, priors: Priors, seed: int) -> None:
    """Its own priors, fitted as ever; what is there or not as min(Poisson, 1) of rates that are small."""
    exposures = drawn(seed, priors)
    found = check(split(exposures if counted else np.minimum(exposures, 1.0), seed), 3, counted, priors)
    assert 0.05 < found.p < 0.95
    assert 0.025 < found.spread < 0.975
    assert stats.kstest(found.users, "uniform").pvalue > 0.02


@pytest.mark.parametrize("seed", range(3))
def test_fails_where_the_model_is_not_the_exposures(seed: int) -> None:
    """Popularity that moved, counts that vary twice as much as Poisson counts do, a rank that adds exposures."""
    training, held_out = split(drawn(seed), seed)
    moved = check(Split(training, held_out[:, ::-1]), 3, True, COMMON)
    assert moved.p < 0.01
    assert moved.log_likelihood[0] < moved.log_likelihood[1:].min()
    in_pairs = split(2.0 * drawn(seed, Priors(1.0, 1.0, 1.0, 3.0)), seed)
    assert check(in_pairs, 3, True, Priors(1.0, 1.0, 1.0, 1.5)).p < 0.01
    # Each component adds its prior shape to each user: 20 of them to some 20 exposures.
    found = check(split(np.minimum(drawn(seed, RARE), 1.0), seed), 20, False, RARE)
    assert found.p > 0.98
    assert np.mean(found.users) > 0.7
