"""Propensities from the exposure model, as weights of a fit and in the refit to all pairs: the dense twins'."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.gamma import noise
from tests.frames import frame_of
from tests.models.world import NAMES, OUTCOME, by_id, exposure, outcome
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
    ("doubly_robust", "layout"),
    [(True, {"exchange": "blocks", "numUserBlocks": 2, "numItemBlocks": 3}), (False, {"exchange": "local"})],
    ids=["doubly-robust", "plain"],
)
def test_a_refit_is_the_dense_twin(
    spark: SparkSession,
    stage_one: PoissonFactorizationModel,
    fitted: DeconfoundedMFModel,
    doubly_robust: bool,
    layout: dict[str, object],
    tmp_path: Path,
) -> None:
    estimator = outcome(weightCap=CAP, maxIter=SWEEPS, **layout)
    model = estimator.refit(fitted, NAMES.frame(spark), doublyRobust=doubly_robust)
    before = predictions(spark, fitted)
    weight = weights_of(stage_one) if doubly_robust else OBSERVED.astype(float)
    targets, everywhere = before + weight * (NAMES.ratings - before), np.ones(before.shape)
    history, expected = swept(spark, targets, everywhere, everywhere, True, float(NAMES.ratings[OBSERVED].mean()))
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
    ratings = NAMES.frame(spark)
    classical = outcome(adjustment="none", maxIter=1).fit(ratings)
    with pytest.raises(ConfigError, match="doublyRobust takes propensities from the exposure model"):
        outcome().refit(classical, ratings)
    stranger = ratings.limit(1).withColumn("user", F.lit("stranger"))
    with pytest.raises(DataError, match="1 user ids, such as 'stranger', are not in the model"):
        outcome().refit(fitted, ratings.union(stranger))
    classical.release()
