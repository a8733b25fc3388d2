"""Settings at the ends of their ranges: the objective moves one way, and every factor is a number."""

import itertools
from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.errors import FitError
from dcrec_spark.local.fits import Ratings, fit_exposure, fit_outcome


def draw_ratings(n_users: int, n_items: int, share: float) -> Ratings:
    drawn = np.random.default_rng(7)
    user, item = np.nonzero(drawn.random((n_users, n_items)) < share)
    keys = drawn.integers(-(2**62), 2**62, n_users + n_items)
    return Ratings(user, item, drawn.integers(1, 6, len(user)).astype(float), keys[:n_users], keys[n_users:])


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return draw_ratings(30, 20, 0.4)


def assert_sound(objective: tuple[float, ...], rises: bool, *factors: Any) -> None:
    assert 2 <= len(objective) <= 8
    assert np.isfinite(objective).all()
    steps = np.diff(objective) / np.abs(objective[1:])
    assert (steps if rises else -steps).min() > -1e-9
    for factor in factors:
        assert np.isfinite(factor).all()


FREE: dict[str, Any] = {"rank": 3, "maxIter": 8, "tol": 0.0}
ENDS = list(itertools.product((0.01, 1e6), (1e-6, 1e6)))
# With shapes so small every factor begins next to 0, whatever the seed.
EXPOSURES = [{"shapePrior": shape, "ratePrior": rate} for shape, rate in ENDS]
EXPOSURES += [{"shapePrior": 0.01, "ratePrior": 1e6, "seed": seed} for seed in range(10)]
OUTCOMES: list[dict[str, Any]] = [
    *({"outcome": "poisson", "gammaShape": shape, "gammaRate": rate} for shape, rate in ENDS),
    *({"outcome": "weighted", "alpha": alpha} for alpha in (0.0, 1e6)),
    {"outcome": "weighted", "alpha": 1e6, "unobservedWeight": 1e6},
    *({"outcome": kind, "regParam": reg} for kind in ("weighted", "probabilistic") for reg in (1e-6, 1e12)),
    {"outcome": "probabilistic", "unobservedWeight": 0.0},
]


@pytest.mark.parametrize("settings", EXPOSURES, ids=str)
def test_exposures_at_the_ends_of_their_priors(ratings: Ratings, settings: dict[str, Any]) -> None:
    found = fit_exposure(ratings, PoissonFactorization(**FREE, **settings))
    assert_sound(found.elbo, True, found.users, found.items)


@pytest.mark.parametrize("settings", OUTCOMES, ids=str)
def test_outcomes_at_the_ends_of_their_settings(ratings: Ratings, settings: dict[str, Any]) -> None:
    found = fit_outcome(ratings, DeconfoundedMF(adjustment="none", **FREE, **settings))
    assert_sound(found.objective, settings["outcome"] == "poisson", found.users, found.items)


@pytest.mark.parametrize(
    "settings",
    [
        {"outcome": "probabilistic", "regParam": 0.0, "rank": 15},
        {"outcome": "weighted", "regParam": 1e-300, "rank": 40},
    ],
    ids=str,
)
def test_a_system_without_a_solution_is_named(ratings: Ratings, settings: dict[str, Any]) -> None:
    """More factors than ratings, and nothing that holds them."""
    with pytest.raises(FitError, match=r"30 of 30 user factors are NaN or infinite .* raise the regularisation"):
        fit_outcome(ratings, DeconfoundedMF(adjustment="none", **{**FREE, **settings}))
