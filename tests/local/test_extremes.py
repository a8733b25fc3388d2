"""Settings at the ends of their ranges: the objective moves one way, and every factor is a number."""

import itertools
from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.local.fits import fit_exposure, fit_outcome
from dcrec_spark.local.ratings import Ratings


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    drawn = np.random.default_rng(7)
    user, item = np.nonzero(drawn.random((30, 20)) < 0.4)
    keys = drawn.integers(-(2**62), 2**62, 50)
    return Ratings(user, item, drawn.integers(1, 6, len(user)).astype(float), keys[:30], keys[30:])


def assert_sound(objective: tuple[float, ...], rises: bool, *factors: Any) -> None:
    """That it never moves the wrong way a fit sees to itself, by FitError; it may settle before the last sweep."""
    assert 2 <= len(objective) <= 8
    assert np.isfinite(objective).all()
    assert (objective[-1] >= objective[0]) == rises or np.isclose(objective[-1], objective[0], rtol=1e-6)
    for factor in factors:
        assert np.isfinite(factor).all()


ENDS = list(itertools.product((0.01, 1e6), (1e-6, 1e6)))


@pytest.mark.parametrize(("shape", "rate"), ENDS)
def test_the_priors_of_stage_one(ratings: Ratings, shape: float, rate: float) -> None:
    priors = {"userShapePrior": shape, "userRatePrior": rate, "itemShapePrior": shape, "itemRatePrior": rate}
    found = fit_exposure(ratings, PoissonFactorization(rank=3, maxIter=8, tol=0.0, **priors))
    assert_sound(found.elbo, True, found.users, found.items)


@pytest.mark.parametrize(("shape", "rate"), ENDS)
def test_the_priors_of_a_poisson_outcome(ratings: Ratings, shape: float, rate: float) -> None:
    priors = {f"{of}ShapePrior": shape for of in ("user", "item", "intercept")}
    priors |= {f"{of}RatePrior": rate for of in ("user", "item", "intercept")}
    estimator = DeconfoundedMF(outcome="poisson", adjustment="none", rank=3, maxIter=8, tol=0.0, **priors)
    found = fit_outcome(ratings, estimator)
    assert_sound(found.objective, True, found.users, found.items)


@pytest.mark.parametrize(
    "settings",
    [
        {"outcome": "weighted", "alpha": 0.0},
        {"outcome": "weighted", "alpha": 1e6},
        {"outcome": "weighted", "alpha": 1e6, "unobservedWeight": 1e6},
        {"outcome": "weighted", "userReg": 1e12, "itemReg": 1e12},
        {"outcome": "weighted", "userReg": 1e-6, "itemReg": 1e-6},
        {"outcome": "probabilistic", "userReg": 1e-6, "itemReg": 1e-6},
        {"outcome": "probabilistic", "userReg": 1e12, "itemReg": 1e-6},
        {"outcome": "probabilistic", "unobservedWeight": 0.0},
    ],
    ids=str,
)
def test_the_weights_of_a_gaussian_outcome(ratings: Ratings, settings: dict[str, Any]) -> None:
    found = fit_outcome(ratings, DeconfoundedMF(adjustment="none", rank=3, maxIter=8, tol=0.0, **settings))
    assert_sound(found.objective, False, found.users, found.items)
