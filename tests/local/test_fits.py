"""Fits without Spark: the dense references' factors for every member of the family, and those of the estimators."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.local.fits import Exposure, Outcome, Ratings, fit_outcome
from tests.models.data_sets import (
    ALL,
    FACTORS,
    ITEM_FEATURES,
    NAMES,
    RATED,
    USER_FEATURES,
    OutcomeReference,
    Posterior,
    covariates_of,
    outcome,
)
from tests.problems import assert_same

# Outcome, adjustment, whose gamma, w0 where it is not the default, whether there is an intercept.
FAMILY = [
    ("weighted", "none", "user", None, True),
    ("weighted", "ipw", "user", None, True),
    ("weighted", "deconfounded", "user", None, True),
    ("weighted", "deconfounded", "global", None, True),
    ("probabilistic", "none", "user", None, True),
    ("probabilistic", "none", "user", 1.0, True),
    ("probabilistic", "ipw", "user", None, True),
    ("probabilistic", "deconfounded", "user", 1.0, True),
    ("probabilistic", "deconfounded", "global", None, True),
    ("poisson", "none", "user", None, True),
    ("poisson", "none", "user", 0.0, True),
    ("poisson", "ipw", "user", 0.2, True),
    ("poisson", "deconfounded", "user", None, True),
    ("poisson", "deconfounded", "user", 0.2, True),
    ("poisson", "deconfounded", "global", 0.0, True),
    ("weighted", "deconfounded", "user", None, False),
    ("probabilistic", "deconfounded", "global", None, False),
    ("poisson", "deconfounded", "user", None, False),
]
NAMED = ("outcome", "adjustment", "confounderWeight", "unobservedWeight", "fitIntercept")
TOL = {"weighted": 0.03, "probabilistic": 0.01, "poisson": 0.003}
EXTENDED: dict[str, dict[str, Any]] = {
    "everywhere": {**ALL, "outcome": "weighted"},
    "rated": RATED,
    "factors and features": FACTORS,
    "many sweeps": {**ALL, "outcome": "probabilistic", "maxIter": 6, "confounderReg": 2.5},
    # So many gradient steps that each sweep ends where the reference's does.
    "gradients": {**ALL, "outcome": "weighted", "rank": 1, "solver": "cg"},
}
CONVERGED = 1e-4  # where users converge, they do so to a tolerance
EVERYONE = np.nonzero(np.ones(NAMES.counts.shape))


def assert_matches(model: Outcome, dense: OutcomeReference, tolerance: float) -> None:
    np.testing.assert_allclose(model.objective, dense.objective, rtol=1e-7)
    assert_same(model.users[:, : dense.x.theta.shape[1]], dense.x.theta, tolerance)
    assert_same(model.gamma, np.asarray(dense.x.weight), tolerance)
    assert_same(model.items[:, : dense.x.beta.shape[1]], dense.x.beta, max(tolerance / 1e3, 1e-8))
    assert model.intercept == pytest.approx(dense.x.intercept, rel=1e-8)
    assert_same(model.scores(*EVERYONE), dense.predicted.ravel(), tolerance)


def posterior_of(model: Exposure) -> Posterior:
    return Posterior((model.users * model.user_rate, model.user_rate), (model.items * model.item_rate, model.item_rate))


def test_stage_one_matches_the_dense_reference(spark: SparkSession, stage_one: Exposure) -> None:
    state, elbo = NAMES.exposure_reference(spark)
    np.testing.assert_allclose(stage_one.elbo, elbo, rtol=1e-7)
    assert_same(stage_one.users, state.user_mean, CONVERGED)
    assert_same(stage_one.items, state.item_mean, 1e-9)


@pytest.mark.parametrize("member", FAMILY, ids=lambda member: "-".join(map(str, member)))
def test_every_family_matches_its_reference(
    spark: SparkSession, ratings: Ratings, stage_one: Exposure, member: tuple[Any, ...]
) -> None:
    """Step by step, and at the end: one more dense sweep from there gains about what the tolerance says, at most."""
    settings, tol = dict(zip(NAMED, member, strict=True)), TOL[member[0]]
    own = stage_one if settings["adjustment"] == "deconfounded" else None
    model = fit_outcome(ratings, outcome(**settings, maxIter=30, tol=tol), own)
    assert 2 < len(model.objective) < 30
    assert model.facts.converged
    dense = NAMES.reference(spark, settings, len(model.objective), own and posterior_of(own))
    assert_matches(model, dense, CONVERGED if settings["outcome"] == "poisson" else 1e-8)
    assert abs(np.subtract(*dense.ends)) <= 3 * tol * abs(dense.ends[0])  # gains need not shrink from step to step


@pytest.mark.parametrize("kind", EXTENDED)
def test_all_terms_match_the_reference(spark: SparkSession, ratings: Ratings, stage_one: Exposure, kind: str) -> None:
    settings = EXTENDED[kind]
    posterior = posterior_of(stage_one)
    features = (USER_FEATURES, ITEM_FEATURES) if "features" in kind else (None, None)
    model = fit_outcome(ratings, outcome(**settings), stage_one, features=features)
    covariates = covariates_of(posterior, settings, "features" in kind)
    dense = NAMES.reference(spark, settings, settings["maxIter"], posterior, covariates)
    assert_matches(model, dense, 1e-7)
    assert model.facts.final_objective == pytest.approx(dense.ends[0], rel=1e-8)
    assert_same(np.asarray(model.user_bias), dense.x.user_bias, 1e-7)
    assert_same(np.asarray(model.item_bias), dense.x.item_bias, 1e-7)


def test_convergence_is_reported_and_what_does_not_belong_is_refused(ratings: Ratings, stage_one: Exposure) -> None:
    for converged, tol in ((False, 1e-9), (True, 0.99)):
        assert fit_outcome(ratings, outcome(adjustment="none", maxIter=10, tol=tol)).facts.converged == converged
    with pytest.raises(ConfigError, match="adjustment=deconfounded with none"):
        fit_outcome(ratings, outcome())
    with pytest.raises(ConfigError, match="adjustment=ipw with an exposure model"):
        fit_outcome(ratings, outcome(adjustment="ipw"), stage_one)
    with pytest.raises(ConfigError, match="propensityCol"):
        fit_outcome(ratings, outcome(adjustment="ipw", propensityCol="p"))


@pytest.mark.parametrize("weight", ["user", "pooled"])
@pytest.mark.parametrize("kind", ["weighted", "probabilistic"])
def test_few_conjugate_gradients_never_go_uphill_and_come_as_far(
    ratings: Ratings, stage_one: Exposure, kind: str, weight: str
) -> None:
    """Three steps a sweep end within a hundredth of Cholesky's sweeps, or lower: J has several minima."""
    settings = {"outcome": kind, "confounderWeight": weight, "maxIter": 30}
    solvers = ("cholesky", "cg")
    exact, few = (np.array(fit_outcome(ratings, outcome(**settings, solver=s), stage_one).objective) for s in solvers)
    for history in (exact, few):
        assert (np.diff(history) <= 1e-12 * history[0]).all()
    assert few[-1] <= 1.01 * exact[-1]
