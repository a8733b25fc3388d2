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


def gaussian() -> Planted:
    """Normal factors and noise; three pairs in ten are rated, the likelier the larger a_hat, the others judged."""
    rng = np.random.default_rng(2)
    pi, lam = 0.13 * rng.gamma(2.0, 0.5, (N_USERS, EXPOSURE_RANK)), rng.gamma(2.0, 0.5, (N_ITEMS, EXPOSURE_RANK))
    theta, beta = (rng.standard_normal((n, RANK)) for n in (N_USERS, N_ITEMS))
    gamma = 0.5 + 2.0 * rng.standard_normal(N_USERS)
    expected = theta @ beta.T + gamma[:, None] * (pi @ lam.T) + LEVEL
    rated = rng.poisson(pi @ lam.T) > 0
    drawn = expected + NOISE * rng.standard_normal(expected.shape)
    return Planted((pi, lam), gamma, expected, drawn, np.full(expected.shape, NOISE**2), rated, rated, ~rated)


def poisson() -> Planted:
    """Sparse factors; a third of the counts are above 0, but zeros are data of this model too, and all are judged."""
    rng = np.random.default_rng(1)
    pi, lam = (rng.gamma(0.2, 0.6, (n, EXPOSURE_RANK)) for n in (N_USERS, N_ITEMS))
    theta, beta = (rng.gamma(0.2, 4.0, (n, RANK)) for n in (N_USERS, N_ITEMS))
    gamma = rng.gamma(2.0, 4.2 / 2**0.5, N_USERS)
    expected = theta @ beta.T + gamma[:, None] * (pi @ lam.T) + 0.05
    drawn = rng.poisson(expected).astype(float)
    everywhere = np.ones(drawn.shape, bool)
    return Planted((pi, lam), gamma, expected, drawn, expected, drawn > 0, everywhere, everywhere)


def both(planted: Planted, **settings: Any) -> tuple[Outcome, Outcome]:
    """The deconfounded and the classical fit; the regularisers are noise over prior variance, by the mean weight."""
    weight = 1.0 + settings.get("alpha", 0.0) * LEVEL
    reg = dict.fromkeys(["regParam", "confounderReg"], NOISE**2 * weight)
    plain = {"confounderWeight": "user", "leaveOneOut": False, "fitBiases": False, **settings}
    if plain["outcome"] != "poisson":
        plain |= {"confounder": "reconstruction", "confounderLink": "identity"}
    results = []
    for adjustment, exposure in (("deconfounded", Exposure(*planted.exposure)), ("none", None)):
        estimator = DeconfoundedMF(adjustment=adjustment, rank=RANK, maxIter=25, tol=1e-4, **reg, **plain)
        results.append(fit_outcome(planted.ratings, estimator, exposure, standardize=False))
    return results[0], results[1]


def chance(planted: Planted, model: Outcome) -> float:
    """Squared error of the judged pairs, each over its variance, in units of p / n."""
    predicted = model.users @ model.items.T + model.gamma[:, None] * planted.a_hat + model.intercept
    parameters = RANK * (N_USERS + N_ITEMS - RANK) + N_USERS + 1
    squared = ((predicted - planted.expected) ** 2 / planted.variance)[planted.judged]
    return float(squared.mean() / (parameters / planted.fitted.sum()))


# What is not rated is unknown in these data, not 0: it weighs nothing, or a four-thousandth of what is rated.
@pytest.mark.parametrize(
    ("planted", "settings"),
    [
        (gaussian(), {"outcome": "weighted", "alpha": 40.0, "unobservedWeight": 0.1}),
        (gaussian(), {"outcome": "probabilistic", "unobservedWeight": 0.0}),
        (poisson(), {"outcome": "poisson"}),
    ],
    ids=["weighted", "probabilistic", "poisson"],
)
def test_what_was_planted_is_found_as_nearly_as_chance_allows(planted: Planted, settings: dict[str, Any]) -> None:
    """By the deconfounded model alone. Users count by how much their ratings can tell of gamma."""
    right, wrong = both(planted, **settings)
    assert chance(planted, right) < 4.0
    assert chance(planted, wrong) > 60.0
    covariance = np.cov(right.gamma, planted.gamma, aweights=(planted.a_hat**2).sum(axis=1))
    assert covariance[0, 1] > 0.95 * np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert not wrong.gamma.any()
