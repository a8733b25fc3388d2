"""Fits that came to nothing, or partly so, say it as facts."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dcrec_spark.local.fits import Ratings, fit_outcome
from dcrec_spark.models.families.poisson import PoissonExposure
from dcrec_spark.models.fitting.facts import Defect, Degeneracy, find_degeneracies, vanished
from dcrec_spark.models.persistence.mlio import as_json, from_json
from tests.models.data_sets import NUMBERS, outcome
from tests.reference.poisson import Priors
from tests.simulated_exposures import drawn, posterior

# The estimators ask the JVM for nothing, but pyspark.ml wants a session before it makes their parameters.
pytestmark = pytest.mark.usefixtures("spark")


def test_factors_that_vanish_are_named() -> None:
    user, item = np.nonzero(NUMBERS.counts)
    keys = np.arange(len(NUMBERS.users)), np.arange(len(NUMBERS.items))
    ratings = Ratings(user, item, NUMBERS.ratings[user, item], *keys)
    model = fit_outcome(ratings, outcome(outcome="probabilistic", adjustment="none", regParam=100.0, maxIter=3))
    assert vanished(model.facts.degeneracies)
    assert [str(fact) for fact in model.facts.degeneracies] == [
        "outcome: all 3 factors are zero: less regularisation, or more data"
    ]


def test_zero_and_duplicate_factors_are_named() -> None:
    """Factors 0 and 2 are parallel on both sides, factor 1 is gone, factor 3 is parallel on one side only."""
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((2, 9, 4))
    users[:, 2], items[:, 2] = 3.0 * users[:, 0], -items[:, 0]
    users[:, 1] = 0.0
    users[:, 3] = users[:, 0]
    facts = find_degeneracies("outcome", users.T @ users, items.T @ items)
    assert facts == [Degeneracy("outcome", Defect.ZERO, (1,)), Degeneracy("outcome", Defect.COPIES, (0, 2))]
    assert [str(fact) for fact in facts] == [
        "outcome: factor 1 is zero: a smaller rank would do",
        "outcome: factors 0, 2 are copies of one another: a smaller rank, or another seed",
    ]
    assert from_json(list[Degeneracy], json.loads(json.dumps(as_json(facts)))) == facts
    assert find_degeneracies("outcome", np.eye(3), np.eye(3)) == []
    several = find_degeneracies("outcome", np.diag([1.0, 0.0, 0.0]), np.eye(3))
    assert [str(fact) for fact in several] == ["outcome: factors 1, 2 are zero: a smaller rank would do"]


def test_gamma_factors_that_are_left_at_their_prior_are_named() -> None:
    """Exposures of rank 3, fitted with 20 factors: those whose shapes are at the prior, no others."""
    priors = Priors(0.3, 0.3, 0.3, 0.3)
    exposures = drawn(1)
    (user_shape, user_rate), (item_shape, item_rate) = posterior(exposures, 20, priors)
    users, items = user_shape / user_rate, item_shape / item_rate
    sums = {"shape": user_shape.sum(axis=0)}
    observed: Any = SimpleNamespace(n_users=len(users), means={"exposure_count": exposures.sum()}, nonzeros=1)
    at_prior = PoissonExposure({"shapePrior": 0.3, "ratePrior": 0.3}).at_prior(sums, {}, observed)
    left = (user_shape < 1.1 * 0.3).all(axis=0)
    assert 0 < left.sum() < 20
    facts = find_degeneracies("exposure", users.T @ users, items.T @ items, 1.0, at_prior)
    assert facts == [Degeneracy("exposure", Defect.AT_PRIOR, tuple(np.flatnonzero(left)))]
    assert vanished(find_degeneracies("exposure", np.eye(2), np.eye(2), 1.0, np.full(2, True)))
