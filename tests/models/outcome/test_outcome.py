"""DeconfoundedMF as its users call it: the dense twin's factors by id, whichever model and layout."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.engine.convergence import History
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.fitting import layout_settings
from tests.frames import frame_of
from tests.models.world import NAMES, NUMBERS, OUTCOME, OutcomeTwin, World, by_id, exposure, outcome
from tests.problems import assert_same
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


def a_hat_of(model: PoissonFactorizationModel | None) -> Array:
    """E[pi] . E[lambda] of all pairs, (U, I): stage 1 is compared with its own twin elsewhere."""
    assert model is not None
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    a_hat: Array = (users["shape"] / users["rate"]) @ (items["shape"] / items["rate"]).T
    return a_hat


def assert_is_the_twin(model: DeconfoundedMFModel, world: World, twin: OutcomeTwin, tolerance: float = 1e-8) -> None:
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    assert (users["id"], items["id"]) == (world.users, world.items)
    np.testing.assert_allclose(model.objectiveHistory, twin.objective, rtol=1e-8)
    assert_same(users["features"], twin.user_features, tolerance)
    assert_same(users["gamma"], twin.gamma, tolerance)
    assert_same(items["features"], twin.item_features, tolerance)
    assert model.intercept == pytest.approx(twin.intercept, rel=1e-8)


def assert_same_model(one: DeconfoundedMFModel, other: DeconfoundedMFModel, tolerance: float) -> None:
    np.testing.assert_allclose(one.objectiveHistory, other.objectiveHistory, rtol=tolerance)
    assert one.intercept == pytest.approx(other.intercept, rel=tolerance)
    for side, columns in (("userFactors", ["features", "gamma"]), ("itemFactors", ["features"])):
        mine, theirs = by_id(getattr(one, side)), by_id(getattr(other, side))
        assert mine["id"] == theirs["id"]
        for column in columns:
            assert_same(mine[column], theirs[column], tolerance)


# The twin

# The family is compared whole where it is fast, in tests/local/test_fits.py; here, one of each kind of step, on Spark.
ON_SPARK = [
    ("weighted", "ipw", "user", None),
    ("weighted", "deconfounded", "user", None),
    ("probabilistic", "none", "user", None),
    ("probabilistic", "deconfounded", "global", None),
    ("poisson", "ipw", "user", None),
    ("poisson", "deconfounded", "user", 0.2),
]
LAYOUTS = [{"exchange": "broadcast"}, {"numBlocks": 2, "exchange": "blocks"}]


@pytest.mark.parametrize(
    ("number", "kind", "adjustment", "weight", "w0"),
    [(n, *member) for n, member in enumerate(ON_SPARK)],
    ids=["-".join(map(str, member)) for member in ON_SPARK],
)
def test_a_member_of_the_family_is_its_dense_twin(
    spark: SparkSession,
    stage_one: PoissonFactorizationModel,
    number: int,
    kind: str,
    adjustment: str,
    weight: str,
    w0: float | None,
) -> None:
    """Step by step; fits that end by themselves are compared in one process."""
    which = {"outcome": kind, "adjustment": adjustment, "confounderWeight": weight, "unobservedWeight": w0}
    model = outcome(**which, exposureModel=stage_one, **LAYOUTS[number % 2]).fit(NAMES.frame(spark))
    a_hat = a_hat_of(stage_one) if adjustment == "deconfounded" else None
    twin = NAMES.twin(spark, kind, a_hat, len(model.objectiveHistory), weight, w0, adjustment == "ipw")
    assert_is_the_twin(model, NAMES, twin, 1e-4 if kind == "poisson" else 1e-8)  # users settle to a tolerance there
    model.release()


def test_classical_fits_have_no_exposure_model_and_integer_ids_keep_their_type(spark: SparkSession) -> None:
    model = outcome(adjustment="none").fit(NUMBERS.frame(spark))
    assert_is_the_twin(model, NUMBERS, NUMBERS.gaussian_twin(spark, "weighted"))
    assert model.exposureModel is None
    assert not by_id(model.userFactors)["gamma"].any()
    assert model.meanRating == pytest.approx(NUMBERS.ratings[NUMBERS.counts > 0].mean())
    model.release()


def test_exposures_may_be_counts(spark: SparkSession) -> None:
    """In blocks too, where counts and ratings travel side by side."""
    layout = {"exchange": "blocks", "numBlocks": 2}
    estimator = outcome(outcome="probabilistic", exposureModel=exposure(countCol="count"), **layout)
    model = estimator.fit(NUMBERS.frame(spark))
    a_hat = a_hat_of(model.exposureModel)
    assert_is_the_twin(model, NUMBERS, NUMBERS.gaussian_twin(spark, "probabilistic", a_hat))
    model.release()


def test_without_an_intercept_it_stays_at_zero(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    for kind, tolerance in (("weighted", 1e-8), ("poisson", 1e-4)):
        model = outcome(outcome=kind, fitIntercept=False, exposureModel=stage_one).fit(NAMES.frame(spark))
        twin = NAMES.twin(spark, kind, a_hat_of(stage_one), 2, "user", None, ipw=False, intercept=False)
        assert_is_the_twin(model, NAMES, twin, tolerance)
        assert model.intercept == 0.0
        model.release()


def test_a_fit_ends_when_it_has_settled(spark: SparkSession) -> None:
    """The last step, and only the last, changed the objective by less than the tolerance."""
    model = outcome(adjustment="none", maxIter=30, tol=0.05).fit(NAMES.frame(spark))
    change = np.abs(np.diff(model.objectiveHistory)) / np.array(model.objectiveHistory[:-1])
    assert change[-1] < 0.05
    assert (change[:-1] >= 0.05).all()
    model.release()


@pytest.mark.parametrize("settings", [{}, {"confounderWeight": "pooled"}], ids=["user", "pooled"])
@pytest.mark.parametrize("kind", ["weighted", "probabilistic"])
def test_few_conjugate_gradients_never_go_uphill_and_come_as_far(
    spark: SparkSession, stage_one: PoissonFactorizationModel, kind: str, settings: dict[str, Any]
) -> None:
    """Three steps a sweep end within a hundredth of Cholesky's sweeps, or lower: J has several minima."""
    histories = {}
    for solver in ("cholesky", "cg"):
        of_sweeps = {"outcome": kind, "solver": solver, "maxIter": 30, "tol": 0.0}
        model = outcome(**of_sweeps, **settings, exposureModel=stage_one).fit(NAMES.frame(spark))
        histories[solver] = np.array(model.objectiveHistory)
        model.release()
    for history in histories.values():
        assert (np.diff(history) <= 1e-12 * history[0]).all()
    assert histories["cg"][-1] <= 1.01 * histories["cholesky"][-1]


def test_conjugate_gradients_are_the_same_in_any_number_of_blocks(
    spark: SparkSession, stage_one: PoissonFactorizationModel
) -> None:
    settings = {"solver": "cg", "confounderWeight": "pooled", "exposureModel": stage_one}
    layouts = ({"exchange": "local"}, {"exchange": "blocks", "numBlocks": 3})
    alone, in_blocks = (outcome(**settings, **layout).fit(NAMES.frame(spark)) for layout in layouts)
    assert_same_model(alone, in_blocks, 1e-9)
    alone.release(), in_blocks.release()


def test_conjugate_gradients_are_refused_where_there_are_no_least_squares(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"solver=cg with outcome=poisson, .*: leave solver out"):
        outcome(outcome="poisson", solver="cg").fit(NAMES.frame(spark))


@pytest.mark.parametrize("adjustment", ["none", "ipw", "deconfounded"])
@pytest.mark.parametrize(
    "weight", [{"confounderWeight": "user"}, {"confounderWeight": "global", "precision": "float32"}]
)
def test_balanced_factors_never_lower_the_elbo_where_pairs_weigh_less(
    spark: SparkSession, stage_one: PoissonFactorizationModel, adjustment: str, weight: dict[str, str]
) -> None:
    settings = {"outcome": "poisson", "adjustment": adjustment, "unobservedWeight": 0.2, **weight}
    own = {"exposureModel": stage_one} if adjustment == "deconfounded" else {}
    model = outcome(**settings, **own, maxIter=30, tol=0.0).fit(NAMES.frame(spark))
    slack = 1e-4 if model.getOrDefault("precision") == "float32" else 0.0
    assert (np.diff(model.objectiveHistory) >= -slack).all()
    model.release()


def test_users_are_the_minimiser_given_the_final_items(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """The gradient of J is zero in theta and gamma: folding a user in with his own ratings changes nothing."""
    users, items = by_id(fitted.userFactors), by_id(fitted.itemFactors)
    factors = dense.Factors(users["features"], items["features"], users["gamma"], fitted.intercept)
    problem = NAMES.problem("weighted", a_hat_of(fitted.exposureModel))
    for u in range(len(NAMES.users)):
        left, right = dense.user_system(problem, factors, u)
        solution = np.append(users["features"][u], users["gamma"][u])
        assert np.abs(left @ solution - right).max() < 1e-9 * np.abs(right).max()


# Layout


def test_sides_may_lie_differently(
    spark: SparkSession,
    fitted: DeconfoundedMFModel,
    stage_one: PoissonFactorizationModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Auto holds the items on the driver here, and places the users, in more blocks than there are rows."""
    monkeypatch.setattr(layout_settings, "BROADCAST_BYTES", 8 * 8 * len(NAMES.items))
    model = outcome(exposureModel=stage_one, numBlocks=11).fit(NAMES.frame(spark))
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
    """Two checkpoints in four sweeps, into the checkpoint directory or, where there is none, on local disk."""
    if not reliable:
        monkeypatch.setattr(SparkContext, "getCheckpointDir", lambda self: None)
    estimator = outcome(adjustment="none", exchange="blocks", checkpointInterval=2, maxIter=4)
    model = estimator.fit(NUMBERS.frame(spark))
    assert len(model.objectiveHistory) == 4
    twin = NUMBERS.gaussian_twin(spark, "weighted", sweeps=4)
    assert_is_the_twin(model, NUMBERS, twin)
    model.release()
    assert_same(by_id(model.itemFactors)["features"], twin.item_features, 1e-8)  # computed again


def shuffles_there(spark: SparkSession) -> list[int]:
    """Number the shuffles whose files Spark has not deleted yet; a later one has a larger number."""
    jvm: Any = spark._jvm
    numbers = jvm.org.apache.spark.SparkEnv.get().mapOutputTracker().shuffleStatuses().keysIterator()
    there = []
    while numbers.hasNext():
        there.append(int(numbers.next()))
    return there


@pytest.mark.long
def test_with_the_lineage_the_shuffles_of_past_sweeps_go(spark: SparkSession) -> None:
    """Else the executors' disks would hold those of all sweeps: a driver that holds little collects no garbage."""
    there: list[list[int]] = []
    estimator = outcome(adjustment="none", exchange="blocks", checkpointInterval=2, maxIter=16, tol=0.0)
    estimator.listener = lambda stage, iteration, objective: there.append(shuffles_there(spark))
    estimator.fit(NUMBERS.frame(spark)).release()
    first = max(there[0])
    assert max(there[-1]) - first >= 2 * 15, "each sweep shuffles for the users and for the items"
    most = max(sum(number > first for number in numbers) for numbers in there)
    assert most <= 2 * 6, "those of three checkpoints' sweeps at most"


def test_users_alike_are_those_whose_factors_point_the_same_way(fitted: DeconfoundedMFModel) -> None:
    """As items are, under the users' ids; nobody is like himself."""
    found = fitted.similarUsers(2).toPandas()
    features = by_id(fitted.userFactors)["features"]
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -np.inf)
    ids = sorted(row["id"] for row in fitted.userFactors.collect())
    best = [sorted(row, reverse=True)[:2] for row in likeness.tolist()]
    for user, expected in zip(ids, best, strict=True):
        of_user = found[found.user_id == user].sort_values("rank")
        assert list(of_user["rank"]) == [1, 2]
        np.testing.assert_allclose(of_user.similarity, expected, atol=1e-12)
        places = [ids.index(other) for other in of_user.similar_user_id]
        np.testing.assert_allclose(likeness[ids.index(user), places], expected, atol=1e-12)


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
    stranger = frame_of(spark, [("stranger", "1", 4.0, 1)], NAMES.frame(spark).schema)
    with pytest.raises(DataError, match=r"1 user ids, such as 'stranger', are not in the fitted exposure model"):
        outcome(exposureModel=stage_one).fit(NAMES.frame(spark).union(stranger))


def test_without_an_exposure_model_one_is_fitted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exposureRank factors and this estimator's seed; both stages are told to the listener."""
    record = History.record
    monkeypatch.setattr(History, "record", lambda self, value: record(self, value) or setattr(self, "converged", True))
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
    return frame_of(spark, pairs, f"user {world.id_types[0]}, note long, item {world.id_types[1]}")


def test_prediction_is_the_sum_of_its_parts_for_every_pair(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    a_hat = a_hat_of(fitted.exposureModel)
    twin = NAMES.gaussian_twin(spark, "weighted", a_hat)
    answer = fitted.predictParts(all_pairs(spark, NAMES))
    assert answer.columns == ["user", "note", "item", "prediction", "preference", "confounder"]
    found = {(row.user, row.item): (row.prediction, row.preference, row.confounder) for row in answer.collect()}
    order = [found[user, item] for user in NAMES.users for item in NAMES.items]
    prediction, liked, drawn = np.transpose(order).reshape(3, *a_hat.shape)
    assert_same(liked, twin.user_features @ twin.item_features.T, 1e-8)
    assert_same(drawn, twin.gamma[:, None] * (a_hat - a_hat.mean()) / a_hat.std(), 1e-8)
    assert_same(prediction, liked + drawn + fitted.intercept, 1e-12)


def test_transform_adds_the_prediction_alone(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    answer = fitted.copy({fitted.predictionCol: "potential"}).transform(all_pairs(spark, NAMES))
    assert answer.columns == ["user", "note", "item", "potential"]


def test_a_column_of_the_output_s_name_is_refused(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Of two of one name Spark would not know which is meant."""
    pairs = all_pairs(spark, NAMES)
    message = "'prediction' is there already, and predictionCol adds one of that name: set pre"
    with pytest.raises(DataError, match=message):
        fitted.transform(fitted.transform(pairs))
    with pytest.raises(DataError, match="'confounder' is there already"):
        fitted.predictParts(pairs.withColumnRenamed("note", "confounder"))


@pytest.mark.parametrize("cold", ["nan", "drop", "mean"])
def test_cold_start(spark: SparkSession, fitted: DeconfoundedMFModel, cold: str) -> None:
    """An unknown user, an unknown item, no user at all, and one known pair."""
    strangers = [("nobody", "1"), ("zoë", "nothing"), (None, "1")]
    pairs = frame_of(spark, [*strangers, ("zoë", "1")], "user string, item string")
    model = fitted.copy({fitted.coldStartStrategy: cold})
    found = {(row.user, row.item): (row.prediction, row.confounder) for row in model.predictParts(pairs).collect()}
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
    assert users.columns == ["id", "features", "bias", "gamma", "exposure_shape", "exposure_rate"]
    assert items.columns == ["id", "features", "bias", "exposure_shape", "exposure_rate"]
    state = NAMES.exposure_twin(spark, counted=False).state
    assert_same(by_id(users)["exposure_shape"], state.user_shape, 1e-4)
    assert_same(by_id(items)["exposure_rate"], state.item_rate, 1e-8)
    assert by_id(users)["features"].shape == (len(NAMES.users), OUTCOME["rank"])
