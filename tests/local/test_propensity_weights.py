"""Inverse propensities from the exposure model, in one process: the dense twin's."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.local.fits import Exposure, fit_and_fold_in, fit_exposure, fit_outcome
from dcrec_spark.local.ratings import Ratings
from tests.problems import assert_same
from tests.reference import biased
from tests.reference import exposure as dense_exposure
from tests.reference.poisson import Array

RANK, SEED, CAP, SWEEPS = 2, 4, 4.0, 3
REGS = {"userReg": 0.7, "itemReg": 1.3, "confounderReg": 0.4, "interceptReg": 0.2}
EVERYONE = np.nonzero(np.ones((9, 7)))
STAGE_ONE: dict[str, Any] = {"rank": 2, "maxIter": 3, "seed": 1}


@pytest.fixture(scope="module")
def table() -> Array:
    """Ratings of 1 to 5, 0 where there is none; every user and item has one."""
    rng = np.random.default_rng(2)
    rated = rng.random((9, 7)) < 0.5
    rated[np.arange(9), np.arange(9) % 7] = True
    return np.where(rated, rng.integers(1, 6, rated.shape), 0).astype(float)


@pytest.fixture(scope="module")
def ratings(table: Array) -> Ratings:
    user, item = np.nonzero(table)
    return Ratings(user, item, table[user, item], np.arange(9) * 77, np.arange(7) * 55)


@pytest.fixture(scope="module")
def exposure(ratings: Ratings) -> Exposure:
    return fit_exposure(ratings, PoissonFactorization(**STAGE_ONE))


def estimator(**settings: Any) -> DeconfoundedMF:
    shared = {"rank": RANK, "seed": SEED, "maxIter": SWEEPS, "tol": 0.0, "outcome": "probabilistic", "weightCap": CAP}
    return DeconfoundedMF(**{**shared, **REGS, **settings})


def weights_of(exposure: Exposure, table: Array) -> Array:
    """min(1 / p, CAP) of the rated pairs, 0 elsewhere."""
    assert exposure.user_rate is not None
    assert exposure.item_rate is not None
    users = exposure.users * exposure.user_rate, exposure.user_rate
    items = exposure.items * exposure.item_rate, exposure.item_rate
    p = 1.0 - np.exp(-dense_exposure.leave_one_out(users, items, (table > 0).astype(float)))
    return np.where(table > 0, np.minimum(1.0 / np.maximum(p, 1e-3), CAP), 0.0)


def swept(table: Array, weights: Array, intercept: float) -> tuple[list[float], Array]:
    """Objectives of the dense twin's sweeps, and its predictions once the users are solved again."""
    nothing, ones = np.zeros(table.shape), [np.ones(n) for n in table.shape]
    rated = (table > 0).astype(float)
    problem = biased.Problem(table, weights, rated, nothing, nothing, "none", *ones, False, *REGS.values())
    uniform = np.clip(noise(SEED, np.arange(7) * 55, RANK), 2.0**-53, 1 - 2.0**-53)
    x, history = biased.start(problem, 0.1 * ndtri(uniform), RANK, intercept), []
    for _ in range(SWEEPS):
        x = biased.sweep(problem, x)
        history.append(biased.objective(problem, x))
    return history, biased.predict(problem, biased.update_users(problem, x))


def test_weights_may_come_from_the_exposures(table: Array, ratings: Ratings, exposure: Exposure) -> None:
    """A fit finds the factors of the twin, and a fold-in of the training ratings their scores."""
    which = {"adjustment": "ipw", "propensitySource": "exposure"}
    model = fit_outcome(ratings, estimator(**which), exposure)
    weight = weights_of(exposure, table)
    weight /= weight[table > 0].mean()
    rated = len(ratings.rating)
    first = float(ratings.rating.mean() * rated / (rated + REGS["interceptReg"]))
    history, expected = swept(table, weight, first)
    np.testing.assert_allclose(model.objective, history, rtol=1e-8)
    assert_same(model.scores(*EVERYONE), expected.ravel(), 1e-8)
    served = fit_and_fold_in(ratings, estimator(**which), PoissonFactorization(**STAGE_ONE), ratings)
    assert_same(served.scores(*EVERYONE), expected.ravel(), 1e-5)


def test_propensities_without_an_exposure_model_are_refused(ratings: Ratings) -> None:
    with pytest.raises(ConfigError, match="adjustment=ipw with none"):
        fit_outcome(ratings, estimator(adjustment="ipw", propensitySource="exposure"))
