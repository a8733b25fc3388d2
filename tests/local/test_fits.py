"""Fits without Spark: the dense references' factors for every member of the family, and those of the estimators."""

from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.local.fits import Exposure, Outcome, Ratings, fit_and_fold_in, fit_exposure, fit_outcome
from dcrec_spark.local.trial import Confounder, confounder, confounders
from tests.models.world import FAMILY, NAMES, TOL, OutcomeTwin, by_id, exposure, outcome
from tests.problems import assert_same

# Where users converge, they do so to a tolerance.
CONVERGED = 1e-4


def assert_matches(model: Outcome, dense: OutcomeTwin, tolerance: float) -> None:
    np.testing.assert_allclose(model.objective, dense.objective, rtol=1e-8)
    assert_same(model.users, dense.user_features, tolerance)
    assert_same(model.gamma, np.asarray(dense.gamma), tolerance)
    assert_same(model.items, dense.item_features, 1e-8)
    assert model.intercept == pytest.approx(dense.intercept, rel=1e-8)


def test_stage_one_matches_the_dense_reference(spark: SparkSession, stage_one: Exposure) -> None:
    dense = NAMES.exposure_twin(spark, counted=False)
    np.testing.assert_allclose(stage_one.elbo, dense.elbo, rtol=1e-9)
    assert_same(stage_one.users, dense.state.user_shape / dense.state.user_rate, CONVERGED)
    assert_same(stage_one.items, dense.state.item_shape / dense.state.item_rate, 1e-9)


@pytest.mark.parametrize(
    ("kind", "adjustment", "weight", "w0", "intercept"), FAMILY, ids=["-".join(map(str, member)) for member in FAMILY]
)
def test_every_family_matches_its_dense_reference(
    spark: SparkSession,
    ratings: Ratings,
    stage_one: Exposure,
    kind: str,
    adjustment: str,
    weight: str,
    w0: float | None,
    intercept: bool,
) -> None:
    """Step by step, and at the end: one more dense sweep from there gains about what the tolerance says, at most."""
    which = {"outcome": kind, "adjustment": adjustment, "confounderWeight": weight, "unobservedWeight": w0}
    estimator = outcome(**which, fitIntercept=intercept, maxIter=30, tol=TOL[kind])
    own = stage_one if adjustment == "deconfounded" else None
    model = fit_outcome(ratings, estimator, own)
    sweeps = len(model.objective)
    assert 2 < sweeps < 30
    assert model.facts.converged
    a_hat = None if own is None else own.users @ own.items.T
    dense = NAMES.twin(spark, kind, a_hat, sweeps, weight, w0, adjustment == "ipw", intercept)
    tolerance = CONVERGED if kind == "poisson" else 1e-8
    assert_matches(model, dense, tolerance)
    assert dense.gain <= 3 * TOL[kind]  # gains need not shrink from step to step
    user, item = np.nonzero(np.ones(NAMES.counts.shape))
    assert_same(model.scores(user, item), dense.predicted.ravel(), tolerance)


@pytest.mark.parametrize("kind", ["weighted", "poisson"])
def test_the_estimator_finds_the_same(spark: SparkSession, ratings: Ratings, kind: str) -> None:
    estimator = outcome(outcome=kind, exposureModel=exposure())
    on_spark = estimator.fit(NAMES.frame(spark))
    here = fit_outcome(ratings, estimator, fit_exposure(ratings, exposure()))
    np.testing.assert_allclose(here.objective, on_spark.objectiveHistory, rtol=1e-9)
    assert_same(here.users, by_id(on_spark.userFactors)["features"], 1e-8)
    on_spark.release()


@pytest.mark.parametrize("of", get_args(Confounder))
@pytest.mark.parametrize(
    ("kind", "adjustment"), [("probabilistic", "deconfounded"), ("poisson", "deconfounded"), ("weighted", "ipw")]
)
def test_training_users_who_are_folded_in_get_their_scores_back(
    ratings: Ratings, stage_one: Exposure, kind: str, adjustment: str, of: Confounder
) -> None:
    """With the placebos in the confounder's place too, or these would be compared with it by other users' rows."""
    estimator = outcome(outcome=kind, adjustment=adjustment)
    is_deconfounded = adjustment == "deconfounded"
    model = fit_outcome(ratings, estimator, confounder(stage_one, ratings, of) if is_deconfounded else None)
    chosen = np.array([4, 1, 7])
    known = np.isin(ratings.user, chosen)
    place = np.array([chosen.tolist().index(u) for u in ratings.user[known]])
    new = replace(ratings.only(known), user=place, user_key=ratings.user_key[chosen])
    first = exposure() if is_deconfounded else None
    served = fit_and_fold_in(ratings, estimator, first, new, partial(confounders, ratings=ratings, kind=of))
    user, item = np.nonzero(np.ones((3, len(ratings.item_key))))
    assert_same(served.scores(user, item), model.scores(chosen[user], item), 1e-6)


def test_a_fit_that_runs_out_of_sweeps_has_not_converged(ratings: Ratings) -> None:
    assert not fit_outcome(ratings, outcome(adjustment="none", maxIter=2, tol=1e-9)).facts.converged
    assert fit_outcome(ratings, outcome(adjustment="none", maxIter=2, tol=0.99)).facts.converged


def test_an_exposure_model_that_does_not_belong_is_refused(ratings: Ratings, stage_one: Exposure) -> None:
    with pytest.raises(ConfigError, match="adjustment=deconfounded with none"):
        fit_outcome(ratings, outcome())
    with pytest.raises(ConfigError, match="adjustment=ipw with an exposure model"):
        fit_outcome(ratings, outcome(adjustment="ipw"), stage_one)
    with pytest.raises(ConfigError, match="propensityCol"):
        fit_outcome(ratings, outcome(adjustment="ipw", propensityCol="p"))
