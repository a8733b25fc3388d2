"""Items whose pairs are too many for one block: the fit is the one that holds them whole, whatever model and layout."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.models.fitting import layout_settings
from tests.models.fitting.test_resumption import Memory
from tests.models.world import NAMES, by_id, exposure, outcome
from tests.problems import assert_same

BLOCKS: dict[str, Any] = {"numBlocks": 2, "exchange": "blocks"}
HELD: dict[str, Any] = {"numBlocks": 3, "exchange": "broadcast"}
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


def test_what_is_heavy_follows_from_bytes_or_from_the_estimator() -> None:
    """Half a gigabyte of what pairs name, 816 bytes of each at rank 50; and nothing where a family can't split."""
    estimator = outcome()
    settings = layout_settings.layout_settings(estimator, width=102, splits=True)
    assert settings.heavy_pairs == 2**29 // 816
    assert layout_settings.layout_settings(splitting(estimator), width=102, splits=True).heavy_pairs == MOST
    assert layout_settings.layout_settings(estimator, width=102).heavy_pairs is None


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


@pytest.mark.long
@pytest.mark.parametrize("layout", [BLOCKS, HELD], ids=["blocks", "broadcast"])
@pytest.mark.parametrize("settings", [{"countCol": "count"}, {"maxIter": 14}, {"validationIndicatorCol": "held"}])
def test_an_exposure_model(spark: SparkSession, settings: dict[str, Any], layout: dict[str, Any]) -> None:
    """Plain steps; long ones and momentum, from balanced factors; judged by held-out pairs."""
    whole = exposure(**settings).fit(marked(spark))
    split = splitting(exposure(**settings, **layout)).fit(marked(spark))
    assert_same_exposure(split, whole)
    for model in (whole, split):
        model.release()


# Outcome

ALL: dict[str, Any] = {
    "fitBiases": True,
    "biasReg": 0.9,
    "confounderWeight": "pooled",
    "leaveOneOut": True,
}
MODELS: dict[str, dict[str, Any]] = {
    "weighted by ratings": {"outcome": "weighted", "adjustment": "ipw"},
    "weighted, all terms": {"outcome": "weighted", **ALL},
    "probabilistic": {"outcome": "probabilistic", "adjustment": "none"},
    "probabilistic, by count": {"outcome": "probabilistic", "unobservedWeight": 0.0, **ALL, "confounderLink": "log"}
    | {"regByCount": True},
    "weighted by exposure": {"outcome": "probabilistic", "adjustment": "ipw", "propensitySource": "exposure"},
    "one gamma": {"outcome": "probabilistic", "confounderWeight": "global"},
    "held out": {"outcome": "weighted", "validationIndicatorCol": "held", "fitBiases": True},
    "long steps": {"outcome": "weighted", "maxIter": 8},
    "gradients": {"outcome": "weighted", "solver": "cg", "fitBiases": True},
    "poisson": {"outcome": "poisson", "adjustment": "none"},
    "poisson, gammas": {"outcome": "poisson", "unobservedWeight": 0.2},
    "poisson, one gamma": {"outcome": "poisson", "confounderWeight": "global", "maxIter": 4},
    "poisson, weighted": {"outcome": "poisson", "adjustment": "ipw"},
    "poisson, held out": {"outcome": "poisson", "validationIndicatorCol": "held", "maxIter": 6},
}
# All their terms are among those of others.
PLAIN = {"weighted by ratings", "probabilistic", "poisson"}


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        *(pytest.param(kind, BLOCKS, marks=pytest.mark.long if kind in PLAIN else []) for kind in MODELS),
        *((kind, HELD) for kind in ("weighted, all terms", "poisson, gammas")),
    ],
    ids=[*MODELS, "broadcast: weighted, all terms", "broadcast: poisson, gammas"],
)
def test_an_outcome_model(spark: SparkSession, kind: str, layout: dict[str, Any]) -> None:
    settings = MODELS[kind]
    whole = fit(outcome(**settings), spark)
    split = fit(splitting(outcome(**settings, **layout)), spark)
    assert_same_outcome(split, whole)
    for model in (whole, split):
        model.release()


@pytest.mark.long
def test_single_precision_adds_the_parts_up_in_double(spark: SparkSession) -> None:
    settings = {"outcome": "weighted", "fitBiases": True, "precision": "float32"}
    whole = fit(outcome(**settings), spark)
    split = fit(splitting(outcome(**settings, **BLOCKS)), spark)
    assert_same_outcome(split, whole, 2e-4)
    for model in (whole, split):
        model.release()


@pytest.mark.parametrize("most", [1, 8], ids=["all heavy", "the heaviest alone"])
def test_whichever_are_heavy(spark: SparkSession, most: int) -> None:
    """Blocks of items without a pair; one heavy item."""
    whole = fit(outcome(outcome="poisson"), spark)
    split = fit(splitting(outcome(outcome="poisson", **BLOCKS), min(most, PAIRS_OF_ITEMS.max() - 1)), spark)
    assert_same_outcome(split, whole)
    for model in (whole, split):
        model.release()


def test_items_that_could_be_heavy_beyond_what_may_be_are_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The largest are split, and the fit is the same."""
    monkeypatch.setattr(layout_settings, "most_heavy", lambda width: 2)
    whole = fit(outcome(outcome="weighted", adjustment="none"), spark)
    split = fit(splitting(outcome(outcome="weighted", adjustment="none", **BLOCKS)), spark)
    third = np.sort(PAIRS_OF_ITEMS)[-3]
    assert "more than 2 items have more than 3 ratings: the largest are spread" in caplog.text
    assert f"one with up to {third} whole" in caplog.text
    assert_same_outcome(split, whole)
    for model in (whole, split):
        model.release()


# What comes before and after a fit


@pytest.mark.long
@pytest.mark.parametrize("family", [pytest.param("weighted", marks=pytest.mark.long), "poisson"])
def test_a_warm_start_a_fold_in_and_a_saved_model(spark: SparkSession, tmp_path: Path, family: str) -> None:
    settings: dict[str, Any] = {"outcome": family, "maxIter": 2}
    first = fit(splitting(outcome(**settings, **BLOCKS)), spark)
    first.write().overwrite().save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    assert_same_outcome(loaded, first, 1e-12)
    whole = fit(outcome(**settings, initialModel=first), spark)
    split = fit(splitting(outcome(**settings, **BLOCKS, initialModel=loaded)), spark)
    assert_same_outcome(split, whole)
    folded = [model.foldInUsers(marked(spark)) for model in (whole, splitting(split))]
    one, other = (by_id(table) for table in folded)
    assert one["id"] == other["id"]
    for column in ("features", "gamma"):
        assert_same(one[column], other[column], 1e-6)
    for model in (first, loaded, whole, split):
        model.release()


@pytest.mark.long
def test_an_interrupted_fit_goes_on(spark: SparkSession) -> None:
    """In stage 2, after its last sweep too, where only settling follows."""
    settings: dict[str, Any] = {"outcome": "poisson", "adjustment": "none", "maxIter": 3}
    whole = outcome(**settings).fit(NAMES.frame(spark))
    for sweeps in (1, 3):
        memory = Memory(sweeps)
        interrupted = splitting(outcome(**settings, **BLOCKS))
        interrupted.checkpoints = memory
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(NAMES.frame(spark))
        memory.left = float("inf")
        resumed = interrupted.fit(NAMES.frame(spark))
        assert_same_outcome(resumed, whole)
        resumed.release()
    whole.release()
