"""DeconfoundedMF as its users call it: the dense reference's factors by id, whichever model and layout."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of
from tests.models.data_sets import (
    FACTORS,
    NAMES,
    NUMBERS,
    OUTCOME,
    RATED,
    DataSet,
    OutcomeReference,
    Posterior,
    by_id,
    covariates_of,
    exposure,
    feature_frames,
    outcome,
)
from tests.problems import assert_same


def assert_matches(model: DeconfoundedMFModel, data: DataSet, dense: OutcomeReference, tolerance: float = 1e-8) -> None:
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    assert (users["id"], items["id"]) == (data.users, data.items)
    np.testing.assert_allclose(model.objectiveHistory, dense.objective, rtol=1e-7)
    assert_same(users["features"], dense.x.theta, tolerance)
    assert_same(users["gamma"], dense.x.weight, tolerance)
    assert_same(items["features"], dense.x.beta, tolerance)
    if model.getOrDefault("fitBiases"):
        assert_same(users["bias"], dense.x.user_bias, tolerance)
        assert_same(items["bias"], dense.x.item_bias, tolerance)
    assert model.intercept == pytest.approx(dense.x.intercept, rel=1e-7)


# The family is compared whole where it is fast, in tests/local/test_fits.py; here, one of each kind of step, on Spark.
ON_SPARK: dict[str, dict[str, Any]] = {
    "weighted-ipw": {"outcome": "weighted", "adjustment": "ipw", "exchange": "broadcast"},
    "probabilistic-global": {"outcome": "probabilistic", "confounderWeight": "global"},
    "poisson-weighted": {"outcome": "poisson", "unobservedWeight": 0.2, "numBlocks": 2, "exchange": "blocks"},
    "all-terms-rated": {**RATED, "exchange": "local"},
    "factors-and-features": FACTORS,
}


@pytest.mark.parametrize("kind", ON_SPARK)
def test_a_member_of_the_family_matches_its_dense_reference(
    spark: SparkSession, stage_one: PoissonFactorizationModel, kind: str
) -> None:
    settings, features = ON_SPARK[kind], feature_frames(spark) if "features" in kind else (None, None)
    given = {"exposureModel": stage_one, "userFeatures": features[0], "itemFeatures": features[1]}
    model = outcome(**settings, **given).fit(NAMES.frame(spark))
    posterior = Posterior.of(stage_one)
    p, q = covariates_of(posterior, settings, "features" in kind)
    own = None if settings.get("adjustment") == "ipw" else posterior
    dense = NAMES.reference(spark, settings, len(model.objectiveHistory), own, (p, q))
    tolerance = 1e-4 if settings["outcome"] == "poisson" else 1e-7  # users converge to a tolerance there
    assert_matches(model, NAMES, dense, tolerance)
    parts = NAMES.tables_of(model.predictParts(NAMES.all_pairs(spark)))
    assert_same(parts["prediction"], dense.predicted, tolerance)
    assert_same(parts["prediction"], parts["preference"] + parts["confounder"] + model.intercept, 1e-12)
    if p is not None and q is not None:
        table = by_id(model.tables()[0].drop("idx"))
        assert_same(table["slopes"], dense.x.kappa, tolerance)
        assert_same(table["covariates"], p, 1e-9)
        h = NAMES.confounder(posterior, settings)[1]
        composition = dense.x.kappa[:, :2] @ q[:, :2].T + p[:, :2] @ dense.x.rho[:, :2].T
        assert_same(parts["confounder"], dense.x.weight[:, None] * h + composition, tolerance)
    ranked = model.recommendationTable(2).orderBy("user_id", "rank").collect()
    best = np.argsort(-parts["prediction"], axis=1)[:, :2]
    assert [row.item_id for row in ranked] == [NAMES.items[i] for row in best for i in row]


def test_classical_fits_have_no_exposure_model_and_integer_ids_keep_their_type(spark: SparkSession) -> None:
    model = outcome(adjustment="none").fit(NUMBERS.frame(spark))
    assert_matches(model, NUMBERS, NUMBERS.reference(spark, {"adjustment": "none"}, 2))
    assert model.exposureModel is None
    assert not by_id(model.userFactors)["gamma"].any()
    assert model.meanRating == pytest.approx(NUMBERS.ratings[NUMBERS.observed].mean())


@pytest.mark.parametrize("settings", [RATED, FACTORS], ids=["all terms", "factors and features"])
def test_all_terms_are_saved_folded_into_explained_and_started_from(
    spark: SparkSession, stage_one: PoissonFactorizationModel, settings: dict[str, Any], tmp_path: Path
) -> None:
    ratings, some = NAMES.frame(spark), F.col("user").isin(["zoë", "🦊"])
    pairs = NAMES.all_pairs(spark).where(some)
    has_factors, features = settings is FACTORS, feature_frames(spark) if settings is FACTORS else (None, None)
    given = {"exposureModel": stage_one, "userFeatures": features[0], "itemFeatures": features[1]}
    fitted = outcome(**settings, **given).fit(ratings)
    fitted.save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    assert loaded.facts == fitted.facts
    before = {(r.user, r.item): r.prediction for r in fitted.transform(pairs).collect()}
    assert {(r.user, r.item): r.prediction for r in loaded.transform(pairs).collect()} == before
    folded = loaded.foldInUsers(ratings.where(some), features[0])
    served = {(r.user, r.item): r.prediction for r in loaded.withUsers(folded).transform(pairs).collect()}
    assert served == pytest.approx(before, rel=1e-6)
    explained = loaded.explain(pairs, ratings, n=2).collect()
    assert len(explained) == len(before)
    for row in explained:
        named = sum(reason.contribution for reason in row.reasons)
        parts = row.user_bias, row.item_bias, row.features, row.baseline, named, row.others
        assert (row.composition != 0) == (row.features != 0) == has_factors
        assert row.preference == pytest.approx(sum(parts), rel=1e-9, abs=1e-9)
        assert row.score == pytest.approx(row.preference + row.confounder + row.intercept, rel=1e-12)
        assert row.score == pytest.approx(before[row.user_id, row.item_id], rel=1e-6)
        assert row.user_bias != 0
    warm = outcome(**{**settings, "maxIter": 1}, **given, initialModel=fitted).fit(ratings)
    assert warm.objectiveHistory[0] < fitted.objectiveHistory[-1]
    with pytest.raises(ConfigError, match=r"fitBiases=True \(here False\)"):
        outcome(outcome="probabilistic", exposureModel=stage_one, initialModel=fitted).fit(ratings)
    loaded.release()
    folded.unpersist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outcome": "poisson", "confounderWeight": "pooled"}, "confounderWeight=pooled with outcome=poisson"),
        ({"outcome": "poisson", "fitBiases": True}, "fitBiases=True with outcome=poisson"),
        ({"outcome": "weighted", "confounderLink": "log"}, "confounderLink=log with unobservedWeight=1"),
        ({"outcome": "poisson", "solver": "cg"}, r"solver=cg with outcome=poisson, .*: leave solver out"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    spark: SparkSession, stage_one: PoissonFactorizationModel, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        outcome(**settings, exposureModel=stage_one).fit(NAMES.frame(spark))


def test_features_are_refused_where_nothing_has_slopes_and_by_a_start_without_them(
    spark: SparkSession, fitted: DeconfoundedMFModel, stage_one: PoissonFactorizationModel
) -> None:
    given: dict[str, Any] = {"userFeatures": feature_frames(spark)[0], "exposureModel": stage_one}
    with pytest.raises(ConfigError, match=r"userFeatures=.* with outcome=poisson, .*: leave userFeatures out"):
        outcome(outcome="poisson", **given).fit(NAMES.frame(spark))
    with pytest.raises(ConfigError, match=r"userFeatures: found \[.*\], and initialModel was fitted with \[\]"):
        outcome(**given, initialModel=fitted).fit(NAMES.frame(spark))


def test_order_and_partitions_change_nothing_the_seed_does_and_precision_hardly(
    spark: SparkSession, fitted: DeconfoundedMFModel, stage_one: PoissonFactorizationModel
) -> None:
    """Nor does it matter whether the exposure model is fitted on the way or before: not one bit, of either stage."""
    shuffled = NAMES.frame(spark, partitions=7, seed=99)
    again = outcome(exposureModel=exposure().fit(shuffled)).fit(shuffled)
    assert again.objectiveHistory == fitted.objectiveHistory
    assert again.exposureModel.elboHistory == stage_one.elboHistory
    for one, other, column in ((again, fitted, "features"), (again.exposureModel, stage_one, "shape")):
        for side in ("userFactors", "itemFactors"):
            np.testing.assert_array_equal(by_id(getattr(one, side))[column], by_id(getattr(other, side))[column])
    other = outcome(exposureModel=stage_one, seed=6, maxIter=1).fit(NAMES.frame(spark))
    assert other.objectiveHistory[0] != pytest.approx(fitted.objectiveHistory[0], rel=1e-6)
    # To a thousandth of the largest number: J and the intercept are sums that cancel.
    single = outcome(exposureModel=stage_one, precision="float32").fit(NAMES.frame(spark))
    np.testing.assert_allclose(single.objectiveHistory, fitted.objectiveHistory, rtol=1e-3)
    for side in ("userFactors", "itemFactors"):
        assert_same(by_id(getattr(single, side))["features"], by_id(getattr(fitted, side))["features"], 1e-3)


def shuffles_there(spark: SparkSession) -> list[int]:
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


def test_ids_of_any_number_type_fit_alike_and_come_back_equal(spark: SparkSession) -> None:
    """Whole numbers as double, as a StringIndexer makes them, and as decimal, as Oracle has them."""
    item = F.when(F.col("item") > 2**53, 77).otherwise(F.col("item"))  # what a double tells from its neighbours
    ratings = NUMBERS.frame(spark).withColumn("item", item)
    fits = [
        outcome(adjustment="none").fit(ratings.withColumns({name: F.col(name).cast(kind) for name in ("user", "item")}))
        for kind in ("long", "double", "decimal(38,0)")
    ]
    tables = [(by_id(model.userFactors), by_id(model.itemFactors)) for model in fits]
    for users, items in tables[1:]:
        assert (users["id"], items["id"]) == (tables[0][0]["id"], tables[0][1]["id"])
        np.testing.assert_array_equal(users["features"], tables[0][0]["features"])
    doubles = ratings.withColumns({name: F.col(name).cast("double") for name in ("user", "item")})
    assert fits[0].transform(doubles).where("isnan(prediction)").isEmpty()


def test_users_alike_are_those_whose_factors_point_the_same_way(fitted: DeconfoundedMFModel) -> None:
    users = by_id(fitted.userFactors)
    unit = users["features"] / np.linalg.norm(users["features"], axis=1, keepdims=True)
    found = fitted.similarUsers(2).toPandas()
    one, other = (unit[[users["id"].index(user) for user in found[name]]] for name in ("user_id", "similar_user_id"))
    np.testing.assert_allclose(found.similarity, (one * other).sum(axis=1), atol=1e-12)
    assert found["rank"].value_counts().to_dict() == {1: len(unit), 2: len(unit)}


def test_a_fitted_exposure_model_needs_no_count_column(
    spark: SparkSession, stage_one: PoissonFactorizationModel
) -> None:
    counted = stage_one.copy({stage_one.countCol: "views"})
    model = outcome(exposureModel=counted, maxIter=1).fit(NAMES.frame(spark).drop("count"))
    assert model.exposureModel is counted


def test_without_an_exposure_model_one_is_fitted(spark: SparkSession) -> None:
    """With exposureRank factors and this estimator's seed; both stages are reported to the listener."""
    heard: list[tuple[str, int]] = []
    estimator = outcome(exposureRank=4, maxIter=1, seed=23, tol=0.99)
    estimator.listener = lambda stage, iteration, objective: heard.append((stage, iteration))
    model = estimator.fit(NUMBERS.frame(spark))
    assert model.exposureModel is not None
    assert by_id(model.exposureModel.userFactors)["shape"].shape == (len(NUMBERS.users), 4)
    assert model.exposureModel.getOrDefault("seed") == 23
    assert heard[0] == ("exposure", 1)
    assert heard[-1] == ("outcome", 1)


def test_transform_adds_the_prediction_under_a_free_name(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Of two columns of one name Spark would not know which is meant."""
    pairs = NAMES.all_pairs(spark).withColumn("note", F.lit(1))
    answer = fitted.copy({fitted.predictionCol: "potential"}).transform(pairs)
    assert answer.columns == ["user", "item", "note", "potential"]
    message = "'prediction' is there already, and predictionCol adds one of that name: set pre"
    with pytest.raises(DataError, match=message):
        fitted.transform(fitted.transform(pairs))
    with pytest.raises(DataError, match="'confounder' is there already"):
        fitted.predictParts(pairs.withColumnRenamed("note", "confounder"))


@pytest.mark.parametrize("cold", ["nan", "drop", "mean"])
def test_cold_start(spark: SparkSession, fitted: DeconfoundedMFModel, cold: str) -> None:
    strangers = [("nobody", "1"), ("zoë", "nothing"), (None, "1")]
    pairs = frame_of(spark, [*strangers, ("zoë", "1")], "user string, item string")
    answers = fitted.copy({fitted.coldStartStrategy: cold}).predictParts(pairs).collect()
    found = {(row.user, row.item): (row.prediction, row.confounder) for row in answers}
    assert np.isfinite(found.pop(("zoë", "1"))).all()
    answer = {"nan": (np.nan, np.nan), "mean": (fitted.meanRating, 0.0)}.get(cold)
    assert found.keys() == (set(strangers) if answer else set())
    for value in found.values():
        np.testing.assert_array_equal(value, answer)


def test_published_tables_hold_all_that_is_known(fitted: DeconfoundedMFModel) -> None:
    users, items = fitted.factorTables()
    columns = ["id", "features", "bias", "slopes", "covariates", "gamma", "exposure_shape", "exposure_rate"]
    assert (users.columns, items.columns) == (columns, [name for name in columns if name != "gamma"])
    stage_one = by_id(fitted.exposureModel.userFactors)
    np.testing.assert_array_equal(by_id(users)["exposure_shape"], stage_one["shape"])
    assert by_id(users)["features"].shape == (len(NAMES.users), OUTCOME["rank"])
