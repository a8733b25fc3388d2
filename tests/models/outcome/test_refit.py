"""Propensities from the exposure model, as weights of a fit and in the refit to all pairs: the dense twins'."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.evaluator import RatingEvaluator
from dcrec_spark.kernels.gamma import noise
from tests.frames import frame_of
from tests.models.world import NAMES, OUTCOME, by_id, cached, exposure, outcome
from tests.problems import assert_same
from tests.reference import biased
from tests.reference import exposure as dense_exposure
from tests.reference.poisson import Array

OBSERVED, CAP, SWEEPS = NAMES.counts > 0, 4.0, 3


@pytest.fixture(scope="module")
def stage_one(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    model = exposure().fit(NAMES.frame(spark))
    yield model
    model.release()


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, stage_one: PoissonFactorizationModel) -> Iterator[DeconfoundedMFModel]:
    settings = {"outcome": "probabilistic", "fitBiases": True, "standardizeConfounder": True}
    model = outcome(**settings, exposureModel=stage_one).fit(NAMES.frame(spark))
    yield model
    model.release()


def weights_of(stage_one: PoissonFactorizationModel) -> Array:
    """min(1 / p, CAP) of the rated pairs, (U, I), 0 elsewhere."""
    users, items = by_id(stage_one.userFactors), by_id(stage_one.itemFactors)
    sides = (users["shape"], users["rate"]), (items["shape"], items["rate"])
    p = 1.0 - np.exp(-dense_exposure.leave_one_out(*sides, OBSERVED.astype(float)))
    return np.where(OBSERVED, np.minimum(1.0 / np.maximum(p, 1e-3), CAP), 0.0)


def predictions(spark: SparkSession, model: DeconfoundedMFModel) -> Array:
    found = {(row.user, row.item): row.prediction for row in model.transform(all_pairs(spark)).collect()}
    return np.array([[found[u, i] for i in NAMES.items] for u in NAMES.users])


def all_pairs(spark: SparkSession) -> DataFrame:
    return frame_of(spark, [(u, i) for u in NAMES.users for i in NAMES.items], "user string, item string")


def swept(
    spark: SparkSession, targets: Array, weights: Array, mask: Array, biases: bool, intercept: float
) -> tuple[list[float], Array]:
    """Objectives of the dense twin's sweeps, and its predictions once the users are solved again."""
    nothing, ones = np.zeros(targets.shape), [np.ones(n) for n in targets.shape]
    regs = [OUTCOME[name] for name in ("userReg", "itemReg", "confounderReg", "interceptReg")]
    problem = biased.Problem(targets, weights, mask, nothing, nothing, "none", ones[0], ones[1], biases, *regs)
    uniform = np.clip(noise(OUTCOME["seed"], NAMES.keys(spark)[1], OUTCOME["rank"]), 2.0**-53, 1 - 2.0**-53)
    x, history = biased.start(problem, 0.1 * ndtri(uniform), OUTCOME["rank"], intercept), []
    for _ in range(SWEEPS):
        x = biased.sweep(problem, x)
        history.append(biased.objective(problem, x))
    return history, biased.predict(problem, biased.update_users(problem, x))


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("doublyRobust", {"exchange": "blocks", "numUserBlocks": 2, "numItemBlocks": 3}),
        ("allPairs", {"exchange": "local"}),
    ],
)
def test_a_refit_is_the_dense_twin(
    spark: SparkSession,
    stage_one: PoissonFactorizationModel,
    fitted: DeconfoundedMFModel,
    kind: str,
    layout: dict[str, object],
    tmp_path: Path,
) -> None:
    estimator = outcome(refit=kind, refitWeightCap=CAP, maxIter=SWEEPS, **layout)
    model = estimator.refitModel(fitted, NAMES.frame(spark))
    history, expected = refitted_twin(spark, stage_one, predictions(spark, fitted), kind)
    np.testing.assert_allclose(model.objectiveHistory, history, rtol=1e-8)
    assert_same(predictions(spark, model), expected, 1e-7)
    assert model.exposureModel is None
    assert not by_id(model.userFactors)["gamma"].any()
    model.save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    assert_same(predictions(spark, loaded), expected, 1e-7)
    with pytest.raises(ConfigError, match="refitted to the predictions of another one"):
        loaded.foldInUsers(NAMES.frame(spark))
    for each in (model, loaded):
        each.release()


def refitted_twin(
    spark: SparkSession, stage_one: PoissonFactorizationModel, before: Array, kind: str
) -> tuple[list[float], Array]:
    """Objectives of the dense twin's sweeps, and its predictions; before: those that it learns, (U, I)."""
    weight = weights_of(stage_one) if kind == "doublyRobust" else OBSERVED.astype(float)
    targets, everywhere = before + weight * (NAMES.ratings - before), np.ones(before.shape)
    return swept(spark, targets, everywhere, everywhere, True, float(NAMES.ratings[OBSERVED].mean()))


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("doublyRobust", {"exchange": "local"}),
        pytest.param(
            "allPairs", {"exchange": "blocks", "numUserBlocks": 2, "numItemBlocks": 3}, marks=pytest.mark.long
        ),
    ],
)
def test_a_fit_may_end_with_a_refit(
    spark: SparkSession, stage_one: PoissonFactorizationModel, kind: str, layout: dict[str, object]
) -> None:
    """Of the model that the same estimator fits without one; a map says what is done, and nothing is left."""
    ratings, given = NAMES.frame(spark), stage_one if kind == "allPairs" else exposure()
    settings = {"outcome": "probabilistic", "fitBiases": True, "maxIter": SWEEPS, "globalConfounderReg": 3.0}
    estimator = outcome(**settings, confounderWeight="pooled", exposureModel=given, refitWeightCap=CAP, **layout)
    first = estimator.fit(ratings)
    history, expected = refitted_twin(spark, stage_one, predictions(spark, first), kind)
    first.release()
    before = cached(spark)
    model = estimator.fit(ratings, {estimator.refit: kind})
    assert model.facts.refitted
    assert (model.getRefit(), model.getRefitWeightCap(), estimator.getRefit()) == (kind, CAP, "none")
    np.testing.assert_allclose(model.objectiveHistory, history, rtol=1e-8)
    assert_same(predictions(spark, model), expected, 1e-7)
    model.release()
    assert cached(spark) == before


def test_a_cross_validator_chooses_whether_to_refit(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    """The better of the two by the held-out folds, fitted to all ratings."""
    estimator = outcome(exposureModel=stage_one, outcome="probabilistic", maxIter=1, coldStartStrategy="drop")
    maps = ParamGridBuilder().addGrid(estimator.refit, ["none", "allPairs"]).build()
    judge = RatingEvaluator(metricName="mse")
    validator = CrossValidator(estimator=estimator, estimatorParamMaps=maps, evaluator=judge, numFolds=2, seed=1)
    chosen = validator.fit(NAMES.frame(spark))
    as_fitted, refitted = chosen.avgMetrics
    assert as_fitted != refitted
    best = chosen.bestModel
    assert isinstance(best, DeconfoundedMFModel)
    assert best.facts.refitted == (refitted < as_fitted)
    best.release()


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a link": (
        {"refit": "allPairs", "outcome": "probabilistic", "unobservedWeight": 0.0, "confounderLink": "sqrt"},
        "refit=allPairs with confounderLink=sqrt",
    ),
    "no exposure model": ({"refit": "doublyRobust", "adjustment": "none"}, "refit=doublyRobust with adjustment=none"),
    "propensities of ratings": (
        {"refit": "doublyRobust", "adjustment": "ipw"},
        "refit=doublyRobust with adjustment=ipw, which has no exposure model",
    ),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_refit_that_could_not_be_is_refused_before_anything_is_fitted(spark: SparkSession, what: str) -> None:
    settings, message = CONTRADICTIONS[what]
    estimator, iterations = outcome(**settings), []
    estimator.listener = lambda *sweep: iterations.append(sweep)
    with pytest.raises(ConfigError, match=message):
        estimator.fit(NAMES.frame(spark))
    assert iterations == []


def test_weights_may_come_from_the_exposures(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    """And a training user who is folded in gets his factors back."""
    which = {"outcome": "probabilistic", "adjustment": "ipw", "propensitySource": "exposure", "weightCap": CAP}
    model = outcome(**which, exposureModel=stage_one, maxIter=SWEEPS).fit(NAMES.frame(spark))
    weight = weights_of(stage_one)
    weight /= weight[OBSERVED].mean()
    mean, rated = NAMES.ratings[OBSERVED].mean(), OBSERVED.sum()
    first = float(mean * rated / (rated + OUTCOME["interceptReg"]))
    history, expected = swept(spark, NAMES.ratings, weight, OBSERVED.astype(float), False, first)
    np.testing.assert_allclose(model.objectiveHistory, history, rtol=1e-8)
    assert_same(predictions(spark, model), expected, 1e-7)
    folded = model.foldInUsers(NAMES.frame(spark).where(F.col("user") == "zoë"))
    at = NAMES.users.index("zoë")
    assert_same(by_id(folded)["features"][0], by_id(model.userFactors)["features"][at], 1e-6)
    model.release()


def test_what_can_t_be_refitted_is_refused(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    ratings, robust = NAMES.frame(spark), outcome(refit="doublyRobust")
    classical = outcome(adjustment="none", maxIter=1).fit(ratings)
    with pytest.raises(ConfigError, match="refit=doublyRobust takes propensities from the exposure model"):
        robust.refitModel(classical, ratings)
    with pytest.raises(ConfigError, match="refit=none: expected allPairs or doublyRobust"):
        outcome().refitModel(fitted, ratings)
    stranger = ratings.limit(1).withColumn("user", F.lit("stranger"))
    with pytest.raises(DataError, match="1 user ids, such as 'stranger', are not in the model"):
        robust.refitModel(fitted, ratings.union(stranger))
    classical.release()
