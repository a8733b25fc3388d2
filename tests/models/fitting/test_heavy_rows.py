"""Items whose pairs are too many for one block: the fit is the one that holds them whole, whatever model and layout."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorizationModel
from tests.models.world import NAMES, by_id, exposure, outcome
from tests.problems import assert_same

BLOCKS: dict[str, Any] = {"numUserBlocks": 2, "numItemBlocks": 3, "exchange": "blocks"}
HELD: dict[str, Any] = {"numUserBlocks": 3, "numItemBlocks": 2, "exchange": "broadcast"}
MOST = 3
PAIRS_OF_ITEMS = (NAMES.counts > 0).sum(axis=0)


def splitting(estimator: Any, most: int = MOST) -> Any:
    """The same estimator, for which more pairs make an item heavy."""
    estimator.heavyPairs = most
    return estimator


def marked(spark: SparkSession) -> DataFrame:
    """One pair in four is held out, those of heavy items too."""
    return NAMES.frame(spark).withColumn("held", F.pmod(F.xxhash64("user", "item"), F.lit(4)) == 0)


def test_some_items_are_heavy_and_some_are_not() -> None:
    assert 1 < (PAIRS_OF_ITEMS > MOST).sum() < len(PAIRS_OF_ITEMS)


# Exposure


def assert_same_exposure(one: PoissonFactorizationModel, other: PoissonFactorizationModel) -> None:
    np.testing.assert_allclose(one.elboHistory, other.elboHistory, rtol=1e-9)
    np.testing.assert_allclose(one.validationHistory, other.validationHistory, rtol=1e-9)
    assert one.elbo == pytest.approx(other.elbo, rel=1e-9)
    for side in ("userFactors", "itemFactors"):
        mine, theirs = by_id(getattr(one, side)), by_id(getattr(other, side))
        assert mine["id"] == theirs["id"]
        for column in ("shape", "rate"):
            assert_same(mine[column], theirs[column], 1e-7)


@pytest.mark.parametrize("layout", [BLOCKS, HELD], ids=["blocks", "broadcast"])
@pytest.mark.parametrize(
    "settings", [{"countCol": "count"}, {"acceleration": True, "maxIter": 12}, {"validationIndicatorCol": "held"}]
)
def test_an_exposure_model(spark: SparkSession, settings: dict[str, Any], layout: dict[str, Any]) -> None:
    """Plain steps; long ones, from balanced factors; judged by held-out pairs."""
    whole = exposure(**settings).fit(marked(spark))
    split = splitting(exposure(**settings, **layout)).fit(marked(spark))
    assert_same_exposure(split, whole)
    for model in (whole, split):
        model.release()


# Outcome

ALL: dict[str, Any] = {
    "fitBiases": True,
    "userBiasReg": 0.9,
    "itemBiasReg": 1.7,
    "confounderWeight": "pooled",
    "standardizeConfounder": True,
    "leaveOneOut": True,
    "confounderVariance": True,
    "estimateConfounderReg": True,
}
MODELS: dict[str, dict[str, Any]] = {
    "weighted": {"outcome": "weighted"},
    "weighted by ratings": {"outcome": "weighted", "adjustment": "ipw"},
    "weighted, all terms": {"outcome": "weighted", **ALL},
    "probabilistic": {"outcome": "probabilistic", "adjustment": "none"},
    "probabilistic, by count": {"outcome": "probabilistic", "unobservedWeight": 0.0, **ALL, "confounderLink": "log"}
    | {"regByCount": True},
    "weighted by exposure": {"outcome": "probabilistic", "adjustment": "ipw", "propensitySource": "exposure"},
    "one gamma": {"outcome": "probabilistic", "confounderWeight": "global"},
    "held out": {"outcome": "weighted", "validationIndicatorCol": "held", "fitBiases": True},
    "long steps": {"outcome": "weighted", "acceleration": True, "maxIter": 8},
    "gradients": {"outcome": "weighted", "solver": "cg", "cgSteps": 3, "fitBiases": True},
    "poisson": {"outcome": "poisson", "adjustment": "none"},
    "poisson, gammas": {"outcome": "poisson", "unobservedWeight": 0.2},
    "poisson, one gamma": {"outcome": "poisson", "confounderWeight": "global", "maxIter": 4},
    "poisson, weighted": {"outcome": "poisson", "adjustment": "ipw"},
    "poisson, held out": {"outcome": "poisson", "validationIndicatorCol": "held", "acceleration": True, "maxIter": 6},
    "two starts": {"outcome": "weighted", "adjustment": "none", "restarts": 2},
}


def fit(estimator: DeconfoundedMF, spark: SparkSession) -> DeconfoundedMFModel:
    if (
        estimator.getOrDefault("adjustment") == "deconfounded"
        or estimator.getOrDefault("propensitySource") == "exposure"
    ):
        estimator.setExposureModel(exposure())
    return estimator.fit(marked(spark))


def assert_same_outcome(one: DeconfoundedMFModel, other: DeconfoundedMFModel, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(one.objectiveHistory, other.objectiveHistory, rtol=tolerance)
    np.testing.assert_allclose(one.validationHistory, other.validationHistory, rtol=tolerance)
    assert one.objective == pytest.approx(other.objective, rel=tolerance)
    assert one.intercept == pytest.approx(other.intercept, rel=tolerance)
    for mine, theirs in zip(map(by_id, one.tables()), map(by_id, other.tables()), strict=True):
        assert mine["id"] == theirs["id"]
        assert mine.keys() == theirs.keys()
        for column in mine.keys() - {"id", "idx"}:
            filled = [np.nan_to_num(side[column].astype(float)) for side in (mine, theirs)]  # a bias that there is not
            assert_same(*filled, tolerance)


@pytest.mark.parametrize("layout", [BLOCKS, HELD], ids=["blocks", "broadcast"])
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_an_outcome_model(spark: SparkSession, settings: dict[str, Any], layout: dict[str, Any]) -> None:
    whole = fit(outcome(**settings), spark)
    split = fit(splitting(outcome(**settings, **layout)), spark)
    assert_same_outcome(split, whole)
    for model in (whole, split):
        model.release()
