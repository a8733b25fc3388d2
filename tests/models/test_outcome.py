"""DeconfoundedMF as its users call it: the dense twin's factors by id, whichever model and layout."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import DataError
from dcrec_spark.models import layout
from dcrec_spark.models.history import History
from tests.models.world import NAMES, NUMBERS, OUTCOME, World, by_id, exposure, outcome
from tests.problems import assert_same
from tests.reference import poisson as dense_poisson
from tests.reference import ridge as dense
from tests.reference.poisson import Array


@pytest.fixture(scope="module")
def stage_one(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    model = exposure().fit(NAMES.frame(spark))
    yield model
    model.release()


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> Iterator[DeconfoundedMFModel]:
    """Weighted, deconfounded, string ids, the exposure model fitted on the way."""
    model = outcome(exposureModel=exposure()).fit(NAMES.frame(spark))
    yield model
    model.release()


def a_hat_of(spark: SparkSession, world: World, counted: bool = False) -> Array:
    return dense_poisson.a_hat(world.exposure_twin(spark, counted).state)


def assert_is_the_twin(
    spark: SparkSession, model: DeconfoundedMFModel, world: World, kind: str, a_hat: Array | None
) -> None:
    twin = world.outcome_twin(spark, kind, a_hat, len(model.objectiveHistory))
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    assert (users["id"], items["id"]) == (world.users, world.items)
    assert_same(users["features"], twin.factors.user_preference, 1e-8)
    assert_same(users["gamma"], twin.factors.confounder_weight, 1e-8)
    assert_same(items["features"], twin.factors.item_attribute, 1e-8)
    assert model.intercept == pytest.approx(twin.factors.intercept, rel=1e-8)
    np.testing.assert_allclose(model.objectiveHistory, twin.objective, rtol=1e-8)


def assert_same_model(one: DeconfoundedMFModel, other: DeconfoundedMFModel, tolerance: float) -> None:
    np.testing.assert_allclose(one.objectiveHistory, other.objectiveHistory, rtol=tolerance)
    assert one.intercept == pytest.approx(other.intercept, rel=tolerance)
    for side, columns in (("userFactors", ["features", "gamma"]), ("itemFactors", ["features"])):
        mine, theirs = by_id(getattr(one, side)), by_id(getattr(other, side))
        assert mine["id"] == theirs["id"]
        for column in columns:
            assert_same(mine[column], theirs[column], tolerance)


# The twin


def test_weighted_deconfounded_is_the_twin(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    assert_is_the_twin(spark, fitted, NAMES, "weighted", a_hat_of(spark, NAMES))
    assert (np.diff(fitted.objectiveHistory) < 0).all()
    assert fitted.meanRating == pytest.approx(NAMES.ratings[NAMES.counts > 0].mean())


@pytest.mark.parametrize("kind", ["weighted", "probabilistic"])
def test_classical_is_the_twin_without_gamma(spark: SparkSession, kind: str) -> None:
    model = outcome(outcome=kind, adjustment="none").fit(NUMBERS.frame(spark))
    assert_is_the_twin(spark, model, NUMBERS, kind, None)
    assert model.exposureModel is None
    assert not by_id(model.userFactors)["gamma"].any()
    types = [factors.schema["id"].dataType.simpleString() for factors in (model.userFactors, model.itemFactors)]
    assert types == ["int", "bigint"]
    model.release()


def test_probabilistic_deconfounded_with_counts_is_the_twin(spark: SparkSession) -> None:
    estimator = outcome(outcome="probabilistic", exposureModel=exposure(countCol="count"), exchange="blocks")
    model = estimator.fit(NUMBERS.frame(spark))
    assert_is_the_twin(spark, model, NUMBERS, "probabilistic", a_hat_of(spark, NUMBERS, counted=True))
    model.release()


def test_users_are_the_minimiser_given_the_final_items(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """The gradient of J is zero in theta and gamma: folding a user in with his own ratings changes nothing."""
    users, items = by_id(fitted.userFactors), by_id(fitted.itemFactors)
    factors = dense.Factors(users["features"], items["features"], users["gamma"], fitted.intercept)
    problem = NAMES.problem("weighted", a_hat_of(spark, NAMES))
    for u in range(len(NAMES.users)):
        left, right = dense.user_system(problem, factors, u)
        solution = np.append(users["features"][u], users["gamma"][u])
        assert np.abs(left @ solution - right).max() < 1e-9 * np.abs(right).max()


# Layout


@pytest.mark.parametrize(
    "layout_of_work",
    [
        {"numUserBlocks": 1, "numItemBlocks": 1, "exchange": "broadcast"},
        {"numUserBlocks": 2, "numItemBlocks": 3, "exchange": "blocks"},
        {"numUserBlocks": 5, "numItemBlocks": 3, "exchange": "auto"},
        {"numUserBlocks": 40, "numItemBlocks": 20, "exchange": "broadcast"},
    ],
    ids=["one-block", "2x3-blocks", "5x3-mixed", "more-blocks-than-rows"],
)
def test_layout_changes_nothing(
    spark: SparkSession,
    fitted: DeconfoundedMFModel,
    stage_one: PoissonFactorizationModel,
    layout_of_work: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Auto holds the items on the driver here, and places the users. Stage 1 was laid out another way."""
    monkeypatch.setattr(layout, "HELD_BYTES", 8 * 4 * len(NAMES.items))
    model = outcome(exposureModel=stage_one, **layout_of_work).fit(NAMES.frame(spark))
    assert_same_model(model, fitted, 1e-8)


def test_order_and_partitions_of_the_input_change_nothing(
    spark: SparkSession, fitted: DeconfoundedMFModel, stage_one: PoissonFactorizationModel
) -> None:
    """Nor does it matter whether the exposure model is fitted on the way or before: not one bit."""
    model = outcome(exposureModel=stage_one).fit(NAMES.frame(spark, partitions=7, seed=99))
    assert model.objectiveHistory == fitted.objectiveHistory
    for side in ("userFactors", "itemFactors"):
        mine, theirs = by_id(getattr(model, side)), by_id(getattr(fitted, side))
        np.testing.assert_array_equal(mine["features"], theirs["features"])


def test_another_seed_starts_elsewhere(
    spark: SparkSession, fitted: DeconfoundedMFModel, stage_one: PoissonFactorizationModel
) -> None:
    model = outcome(exposureModel=stage_one, seed=6, maxIter=1).fit(NAMES.frame(spark))
    assert model.objectiveHistory[0] != pytest.approx(fitted.objectiveHistory[0], rel=1e-6)


def test_single_precision_ends_near_double(
    spark: SparkSession, fitted: DeconfoundedMFModel, stage_one: PoissonFactorizationModel
) -> None:
    """To a thousandth of the largest number: J and the intercept are sums that cancel."""
    model = outcome(exposureModel=stage_one, precision="float32").fit(NAMES.frame(spark))
    assert_same_model(model, fitted, 1e-3)


@pytest.mark.parametrize("reliable", [True, False], ids=["checkpoint-directory", "local-checkpoint"])
def test_a_placed_fit_outlives_the_end_of_its_lineage(
    spark: SparkSession, reliable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three checkpoints in six sweeps, into the checkpoint directory or, where there is none, on local disk."""
    if not reliable:
        monkeypatch.setattr(SparkContext, "getCheckpointDir", lambda self: None)
    estimator = outcome(adjustment="none", exchange="blocks", checkpointInterval=2, maxIter=6)
    model = estimator.fit(NUMBERS.frame(spark))
    assert len(model.objectiveHistory) == 6
    assert_is_the_twin(spark, model, NUMBERS, "weighted", None)
    model.release()


# Stage 1 from outside


def test_a_fitted_exposure_model_need_not_find_its_count_column(
    spark: SparkSession, stage_one: PoissonFactorizationModel
) -> None:
    """Its factors are there already."""
    counted = stage_one.copy({stage_one.countCol: "views"})
    model = outcome(exposureModel=counted, maxIter=1).fit(NAMES.frame(spark).drop("count"))
    assert model.exposureModel is counted


def test_an_exposure_model_that_lacks_an_id_is_refused(
    spark: SparkSession, stage_one: PoissonFactorizationModel
) -> None:
    stranger = spark.createDataFrame([("stranger", "1", 4.0, 1)], NAMES.frame(spark).schema)
    with pytest.raises(DataError, match=r"1 user ids, such as 'stranger', are not in the fitted exposure model"):
        outcome(exposureModel=stage_one).fit(NAMES.frame(spark).union(stranger))


def test_without_an_exposure_model_one_is_fitted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exposureRank factors and this estimator's seed; both stages are told to the listener."""
    settled_at = History.settled_at
    monkeypatch.setattr(History, "settled_at", lambda self, value: settled_at(self, value) or True)
    told: list[tuple[str, int]] = []
    estimator = outcome(exposureRank=4, maxIter=1, seed=23)
    estimator.listener = lambda stage, iteration, objective: told.append((stage, iteration))
    model = estimator.fit(NUMBERS.frame(spark))
    assert model.exposureModel is not None
    assert by_id(model.exposureModel.userFactors)["shape"].shape == (len(NUMBERS.users), 4)
    assert model.exposureModel.getOrDefault("seed") == 23
    assert told == [("exposure", 1), ("outcome", 1)]
    model.release()


# Predictions


def all_pairs(spark: SparkSession, world: World) -> DataFrame:
    pairs = [(user, number, item) for number, user in enumerate(world.users) for item in world.items]
    return spark.createDataFrame(pairs, f"user {world.id_types[0]}, note long, item {world.id_types[1]}")


def test_prediction_is_the_sum_of_its_parts_for_every_pair(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    a_hat = a_hat_of(spark, NAMES)
    twin = NAMES.outcome_twin(spark, "weighted", a_hat).factors
    model = fitted.copy({fitted.preferenceCol: "liked", fitted.confounderCol: "drawn"})
    answer = model.transform(all_pairs(spark, NAMES))
    assert answer.columns == ["user", "note", "item", "prediction", "liked", "drawn"]
    found = {(row.user, row.item): (row.prediction, row.liked, row.drawn) for row in answer.collect()}
    order = [found[user, item] for user in NAMES.users for item in NAMES.items]
    prediction, liked, drawn = np.transpose(order).reshape(3, *a_hat.shape)
    assert_same(liked, twin.user_preference @ twin.item_attribute.T, 1e-8)
    assert_same(drawn, twin.confounder_weight[:, None] * a_hat, 1e-8)
    assert_same(prediction, liked + drawn + fitted.intercept, 1e-12)


def test_parts_are_left_out_unless_asked_for(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    answer = fitted.copy({fitted.predictionCol: "potential"}).transform(all_pairs(spark, NAMES))
    assert answer.columns == ["user", "note", "item", "potential"]


@pytest.mark.parametrize("cold", ["nan", "drop", "mean"])
def test_cold_start(spark: SparkSession, fitted: DeconfoundedMFModel, cold: str) -> None:
    """An unknown user, an unknown item, no user at all, and one known pair."""
    strangers = [("nobody", "1"), ("zoë", "nothing"), (None, "1")]
    pairs = spark.createDataFrame([*strangers, ("zoë", "1")], "user string, item string")
    model = fitted.copy({fitted.coldStartStrategy: cold, fitted.confounderCol: "drawn"})
    found = {(row.user, row.item): (row.prediction, row.drawn) for row in model.transform(pairs).collect()}
    assert np.isfinite(found.pop(("zoë", "1"))).all()
    expected = {"nan": (np.nan, np.nan), "mean": (fitted.meanRating, 0.0)}
    if cold == "drop":
        assert not found
    else:
        assert sorted(map(str, found)) == sorted(map(str, strangers))
        for answer in found.values():
            np.testing.assert_array_equal(answer, expected[cold])


def test_published_tables_hold_all_that_is_known(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    users, items = fitted.factorTables()
    assert users.columns == ["id", "features", "gamma", "exposure_shape", "exposure_rate"]
    assert items.columns == ["id", "features", "exposure_shape", "exposure_rate"]
    state = NAMES.exposure_twin(spark, counted=False).state
    assert_same(by_id(users)["exposure_shape"], state.user_shape, 1e-8)
    assert_same(by_id(items)["exposure_rate"], state.item_rate, 1e-8)
    assert by_id(users)["features"].shape == (len(NAMES.users), OUTCOME["rank"])
