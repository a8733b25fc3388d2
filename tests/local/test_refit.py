"""A refit to all pairs in one process: the model that the estimator's refit gives, and what can't be refitted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.errors import ConfigError
from dcrec_spark.local.data import Parts
from dcrec_spark.local.fits import Exposure, Outcome, fit_exposure, fit_outcome, refit_outcome
from dcrec_spark.local.ratings import Ratings
from dcrec_spark.local.trial import Bench, Trial
from tests.models.world import NAMES, by_id, exposure, outcome
from tests.problems import assert_same

EXTENDED: dict[str, Any] = {"outcome": "probabilistic", "fitBiases": True, "standardizeConfounder": True}
ROBUST: dict[str, Any] = {"refit": "doublyRobust", "refitWeightCap": 4.0}
EVERYONE = np.nonzero(np.ones(NAMES.counts.shape))


@pytest.fixture(scope="module")
def model(ratings: Ratings, stage_one: Exposure) -> Outcome:
    return fit_outcome(ratings, outcome(**EXTENDED), stage_one)


@pytest.mark.parametrize("settings", [{}, EXTENDED], ids=["plain", "biases and a standardised confounder"])
def test_scores_of_all_pairs_are_products_of_vectors(
    ratings: Ratings, stage_one: Exposure, settings: dict[str, Any]
) -> None:
    fitted = fit_outcome(ratings, outcome(**settings), stage_one)
    users, items = fitted.vectors()
    assert_same((users @ items.T).ravel(), fitted.scores(*EVERYONE), 1e-12)


@pytest.mark.parametrize("kind", ["doublyRobust", "allPairs"])
def test_a_refit_is_that_of_the_estimator(spark: SparkSession, ratings: Ratings, model: Outcome, kind: str) -> None:
    frame = NAMES.frame(spark)
    stage_one = exposure().fit(frame)
    of_spark = outcome(**EXTENDED, exposureModel=stage_one).fit(frame)
    second = outcome(refit=kind, refitWeightCap=4.0, maxIter=3)
    expected = second.refitModel(of_spark, frame)
    refitted = refit_outcome(ratings, second, model)
    np.testing.assert_allclose(refitted.objective, expected.objectiveHistory, rtol=1e-8)
    assert_same(refitted.users, by_id(expected.userFactors)["features"], 1e-6)
    assert not refitted.gamma.any()
    for each in (expected, of_spark, stage_one):
        each.release()


def test_a_trial_may_end_with_a_refit(spark: SparkSession, ratings: Ratings) -> None:
    pairs = {"user": ratings.user, "item": ratings.item, "rating": ratings.rating}
    parts = Parts.of_indices(*NAMES.counts.shape, {"train": pairs, "test": pairs})
    first, second = {**EXTENDED, "rank": 2, "seed": 3}, {"rank": 2, **ROBUST, "seed": 3}
    trial = Trial(first, {"rank": 2, "seed": 3}, predict=("test",), refit=second)
    (fitted,) = Bench(spark, {"": parts}).run([trial])
    known = parts.ratings("train")
    model = fit_outcome(known, DeconfoundedMF(**first), fit_exposure(known, PoissonFactorization(rank=2, seed=3)))
    expected = refit_outcome(known, DeconfoundedMF(**second), model)
    assert_same(fitted.scores["test"], expected.scores(ratings.user, ratings.item), 1e-8)
    with pytest.raises(ConfigError, match="a refit knows no new users"):
        replace(trial, fold_in="test")


def test_what_can_t_be_refitted_is_refused(ratings: Ratings, stage_one: Exposure) -> None:
    linked = fit_outcome(ratings, outcome(**EXTENDED, unobservedWeight=0.0, confounderLink="log"), stage_one)
    with pytest.raises(ConfigError, match="confounderLink=log: expected identity"):
        refit_outcome(ratings, outcome(**ROBUST), linked)
    classical = fit_outcome(ratings, outcome(adjustment="none"))
    with pytest.raises(ConfigError, match="propensities from the exposure model, and this model has none"):
        refit_outcome(ratings, outcome(**ROBUST), classical)
    with pytest.raises(ConfigError, match="refit=none: expected allPairs or doublyRobust"):
        refit_outcome(ratings, outcome(), classical)
    with pytest.raises(ConfigError, match="refit: a fit in memory has none"):
        fit_outcome(ratings, outcome(adjustment="none", refit="allPairs"))
