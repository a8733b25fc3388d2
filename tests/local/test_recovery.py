"""Planted truth: ratings drawn from each model, and how much of it the fit recovers.

The exposure model is planted too, so a_hat is known. Factors may rotate, so a fit is judged by its predictions, against
the planted expected ratings, and by gamma. Errors are counted in units of chance: the fit of a linear model with p
parameters to n ratings of variance v misses by v p / n on average, squared. Four times that is granted, a miss twice as
large: the models are not quite linear, and most are judged on pairs that they were not fitted to.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF
from dcrec_spark.local.fits import Exposure, Outcome, Ratings, fit_outcome
from tests.reference.poisson import Array

N_USERS, N_ITEMS, RANK, EXPOSURE_RANK = 150, 120, 2, 3
NOISE, LEVEL = 0.1, 10.0


class Planted(NamedTuple):
    """(U, I): expected and drawn ratings, their variance; who is in the input, fitted to, judged. gamma: (U,).

    exposure : (U, L) and (I, L), whose inner products are a_hat.
    """

    exposure: tuple[Array, Array]
    gamma: Array
    expected: Array
    drawn: Array
    variance: Array
    rated: Array
    fitted: Array
    judged: Array

    @property
    def a_hat(self) -> Array:
        return self.exposure[0] @ self.exposure[1].T

    @property
    def ratings(self) -> Ratings:
        user, item = np.nonzero(self.rated)
        return Ratings(user, item, self.drawn[self.rated], np.arange(N_USERS), np.arange(N_ITEMS))


def gaussian(gamma_mean: float, gamma_sd: float) -> Planted:
    """Normal factors and noise; three pairs in ten are rated, the likelier the larger a_hat, the others judged."""
    rng = np.random.default_rng(2)
    pi, lam = 0.13 * rng.gamma(2.0, 0.5, (N_USERS, EXPOSURE_RANK)), rng.gamma(2.0, 0.5, (N_ITEMS, EXPOSURE_RANK))
    theta, beta = (rng.standard_normal((n, RANK)) for n in (N_USERS, N_ITEMS))
    gamma = gamma_mean + gamma_sd * rng.standard_normal(N_USERS)
    expected = theta @ beta.T + gamma[:, None] * (pi @ lam.T) + LEVEL
    rated = rng.poisson(pi @ lam.T) > 0
    drawn = expected + NOISE * rng.standard_normal(expected.shape)
    return Planted((pi, lam), gamma, expected, drawn, np.full(expected.shape, NOISE**2), rated, rated, ~rated)


def poisson(gamma_sd: float) -> Planted:
    """Sparse factors; a third of the counts are above 0, but zeros are data of this model too, and all are judged."""
    rng = np.random.default_rng(1)
    pi, lam = (rng.gamma(0.2, 0.6, (n, EXPOSURE_RANK)) for n in (N_USERS, N_ITEMS))
    theta, beta = (rng.gamma(0.2, 4.0, (n, RANK)) for n in (N_USERS, N_ITEMS))
    gamma = rng.gamma(2.0, gamma_sd / 2**0.5, N_USERS) if gamma_sd else np.full(N_USERS, 6.0)
    expected = theta @ beta.T + gamma[:, None] * (pi @ lam.T) + 0.05
    drawn = rng.poisson(expected).astype(float)
    everywhere = np.ones(drawn.shape, bool)
    return Planted((pi, lam), gamma, expected, drawn, expected, drawn > 0, everywhere, everywhere)


class Found(NamedTuple):
    """Errors of a fit to a planted data set.

    chance : squared error of the judged pairs, each over its variance, in units of p / n. relative : their error over
    the spread of the expected ratings. correlation : of predicted and expected ratings where there is none.
    gamma : (U,). intercept.
    """

    chance: float
    relative: float
    correlation: float
    gamma: Array
    intercept: float


def found(planted: Planted, model: Outcome, weights: int) -> Found:
    """weights : how many gammas the planted model has."""
    predicted = model.users @ model.items.T + model.gamma[:, None] * planted.a_hat + model.intercept
    parameters = RANK * (N_USERS + N_ITEMS - RANK) + weights + 1
    squared = ((predicted - planted.expected) ** 2)[planted.judged]
    return Found(
        float((squared / planted.variance[planted.judged]).mean() / (parameters / planted.fitted.sum())),
        float(np.sqrt(squared.mean()) / planted.expected[planted.judged].std()),
        float(np.corrcoef(predicted[~planted.rated], planted.expected[~planted.rated])[0, 1]),
        model.gamma,
        model.intercept,
    )


def both(planted: Planted, **settings: Any) -> tuple[Found, Found]:
    """The deconfounded and the classical fit; the regularisers are noise over prior variance, by the mean weight."""
    weights = 1 if settings.get("confounderWeight") == "global" else N_USERS
    weight = 1.0 + settings.get("alpha", 0.0) * LEVEL
    reg = dict.fromkeys(["regParam", "confounderReg"], NOISE**2 * weight)
    plain = {"confounderWeight": "user", "leaveOneOut": False, "fitBiases": False, **settings}
    if plain["outcome"] != "poisson":
        plain |= {"confounder": "reconstruction", "confounderLink": "identity"}
    results = []
    for adjustment, exposure in (("deconfounded", Exposure(*planted.exposure)), ("none", None)):
        estimator = DeconfoundedMF(adjustment=adjustment, rank=RANK, maxIter=25, tol=1e-4, **reg, **plain)
        results.append(found(planted, fit_outcome(planted.ratings, estimator, exposure, standardize=False), weights))
    return results[0], results[1]


# What is not rated is unknown in these data, not 0: it weighs nothing, or a four-thousandth of what is rated.
WEIGHTED = {"outcome": "weighted", "alpha": 40.0, "unobservedWeight": 0.1}
PROBABILISTIC = {"outcome": "probabilistic", "unobservedWeight": 0.0}
POISSON = {"outcome": "poisson"}


def assert_only_the_first_passes(right: Found, wrong: Found) -> None:
    """Predictions as near to the truth as chance allows; the classical model's miss is many times as large."""
    assert right.chance < 4.0
    assert right.relative < 0.1
    assert right.correlation > 0.95
    assert wrong.chance > 60.0
    assert wrong.relative > 0.2
    assert wrong.correlation < right.correlation


@pytest.mark.parametrize(
    ("planted", "settings"),
    [(gaussian(0.5, 2.0), WEIGHTED), (gaussian(0.5, 2.0), PROBABILISTIC), (poisson(4.2), POISSON)],
    ids=["weighted", "probabilistic", "poisson"],
)
def test_what_was_planted_is_found_with_a_gamma_for_each_user(planted: Planted, settings: dict[str, Any]) -> None:
    """Users count by how much their ratings can tell of gamma: with a_hat near 0 they tell nothing."""
    right, wrong = both(planted, **settings)
    assert_only_the_first_passes(right, wrong)
    covariance = np.cov(right.gamma, planted.gamma, aweights=(planted.a_hat**2).sum(axis=1))
    assert covariance[0, 1] > 0.95 * np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert not wrong.gamma.any()


@pytest.mark.parametrize(
    ("planted", "settings"),
    [(gaussian(1.5, 0.0), PROBABILISTIC), (poisson(0.0), POISSON)],
    ids=["probabilistic", "poisson"],
)
def test_what_was_planted_is_found_with_one_gamma_for_all(planted: Planted, settings: dict[str, Any]) -> None:
    """To four standard errors of a regression on a_hat, which is 1.2 % of gamma and 3.8 % (Poisson)."""
    right, wrong = both(planted, confounderWeight="global", **settings)
    assert_only_the_first_passes(right, wrong)
    a_hat, variance = planted.a_hat[planted.fitted], planted.variance[planted.fitted]
    error = 1.0 / np.sqrt(((a_hat - a_hat.mean()) ** 2 / variance).sum())
    assert np.abs(right.gamma - planted.gamma).max() < 4.0 * error
    assert not wrong.gamma.any()
