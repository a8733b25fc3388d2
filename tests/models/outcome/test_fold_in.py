"""New users and items from a few ratings; training rows folded in with their own data get their factors back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of
from tests.models.data_sets import (
    NAMES,
    NUMBERS,
    OUTCOME_PRIORS,
    by_id,
    dense_posterior,
    exposure,
    outcome,
    unknowns_of,
)
from tests.problems import assert_same
from tests.reference import poisson, ridge

MEMBERS: list[dict[str, Any]] = [
    {"outcome": "probabilistic", "confounderWeight": "global"},
    {"outcome": "poisson"},
    {"outcome": "poisson", "adjustment": "ipw"},
]


def rows_of(table: DataFrame, ids: list[str]) -> dict[str, Any]:
    columns = by_id(table)
    at = [columns["id"].index(i) for i in ids]
    return {name: values[at] for name, values in columns.items() if name not in ("id", "bias")}  # no biases here


def test_ids_of_another_kind_are_refused(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Spark would cast them to one another in silence, or find nothing."""
    numbers, stage_one = NUMBERS.frame(spark), fitted.exposureModel
    uses: list[Callable[[DataFrame], object]] = [
        *(fitted.foldInUsers, fitted.foldInItems, fitted.transform, outcome(exposureModel=stage_one).fit),
        *(stage_one.foldInUsers, stage_one.foldInItems, stage_one.transform),
        lambda df: fitted.recommendationTable(2, seen=df),
    ]
    for use in uses:
        with pytest.raises(ConfigError, match="user ids are int here and string in the given model: cast them alike"):
            use(numbers)
    with pytest.raises(ConfigError, match="user ids are int here"):
        fitted.recommendationTable(2, users=numbers.select("user"))


@pytest.mark.parametrize("settings", MEMBERS, ids=str)
def test_training_users_get_factors_back(
    spark: SparkSession, stage_one: PoissonFactorizationModel, settings: dict[str, Any]
) -> None:
    model = outcome(**settings, exposureModel=stage_one).fit(NAMES.frame(spark))
    users = ["a`tick", "zoë", "🦊"]
    folded = model.foldInUsers(NAMES.frame(spark).where(F.col("user").isin(users)))
    assert [row.id for row in folded.orderBy("id").collect()] == users
    before = rows_of(model.tables()[0].drop("idx"), users)
    for name, values in rows_of(folded, users).items():
        assert_same(values, before[name], 1e-9)
    folded.unpersist()


def test_a_new_item_is_where_its_users_hold_it(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    ratings = NAMES.frame(spark).where("item = '10'").withColumn("item", F.lit("new"))
    folded = fitted.foldInItems(ratings)
    posteriors = [f"{stage}_{part}" for stage in ("outcome", "exposure") for part in ("shape", "rate")]
    assert folded.columns == ["id", "features", "bias", "slopes", "covariates", *posteriors]
    users, item = by_id(fitted.tables()[0]), by_id(folded)
    lam = item["exposure_shape"] / item["exposure_rate"]
    pi = users["exposure_shape"] / users["exposure_rate"]
    i = NAMES.items.index("10")
    problem = NAMES.problem({}, fitted.facts.form.of(np.tile(pi @ lam.T, (1, len(NAMES.items)))))
    assert_same(item["features"][0], np.linalg.solve(*ridge.item_system(problem, unknowns_of(fitted), i)), 1e-8)


def test_a_new_user_without_a_known_item_has_rated_nothing(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Which the zeros of all items say; beside one who has rated something known. Unknown items count for nothing."""
    schema = "user string, item string, rating double"
    ratings = [("x", "nothing we know", 5.0), ("y", "10", 4.0), ("y", "nothing we know", 1.0)]
    folded = by_id(fitted.foldInUsers(frame_of(spark, ratings, schema)))
    alone = by_id(fitted.foldInUsers(frame_of(spark, [("y", "10", 4.0)], schema)))
    assert folded["id"] == ["x", "y"]
    assert_same(folded["features"][1], alone["features"][0], 1e-12)
    np.testing.assert_array_equal(folded["exposure_shape"][0], exposure().getOrDefault("shapePrior"))
    items, idle = by_id(fitted.tables()[1]), np.zeros_like(NAMES.counts)
    lam = items["exposure_shape"] / items["exposure_rate"]
    drawn = np.tile(lam @ (folded["exposure_shape"] / folded["exposure_rate"])[0], (len(idle), 1))
    problem = replace(NAMES, counts=idle, ratings=idle).problem({}, fitted.facts.form.of(drawn))
    solution = np.linalg.solve(*ridge.user_system(problem, unknowns_of(fitted), 0))
    assert_same(np.append(folded["features"][0], folded["gamma"][0]), solution, 1e-8)


def test_what_cannot_be_folded_in_is_named(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    schema = "user string, item string, rating double"
    with pytest.raises(DataError, match="none of the 1 rows has a known item id"):
        fitted.foldInUsers(frame_of(spark, [("x", "who?", 5.0)], schema))
    users = frame_of(spark, [("z", "who?", 5.0), ("y", "10", 3.0), ("x", "10", 5.0), ("x", "10", 4.0)], schema)
    with pytest.raises(DataError, match="user 'x' has more than one rating of item '10'"):
        fitted.foldInUsers(users)
    u = by_id(fitted.tables()[0])["id"][0]
    items = frame_of(spark, [("who?", "b", 5.0), (u, "b", 3.0), (u, "a", 5.0), (u, "a", 4.0)], schema)
    with pytest.raises(DataError, match=f"user '{u}' has more than one rating of item 'a'"):
        fitted.foldInItems(items)
    with pytest.raises(DataError, match="column 'rating' is missing"):
        fitted.foldInUsers(frame_of(spark, [("x", "10")], "user string, item string"))


def test_new_items_of_a_loaded_poisson_model_match_the_reference(
    spark: SparkSession, stage_one: PoissonFactorizationModel, tmp_path: Path
) -> None:
    outcome(outcome="poisson", exposureModel=stage_one).fit(NAMES.frame(spark)).save(f"{tmp_path}/model")
    loaded = DeconfoundedMFModel.load(f"{tmp_path}/model")
    folded = loaded.foldInItems(NAMES.frame(spark))
    state, data = dense_posterior(loaded, folded)
    moved = poisson.update_items(state, data, OUTCOME_PRIORS)
    assert_same(state.item_shape, moved.item_shape, 1e-4)
    assert_same(state.item_rate, moved.item_rate, 1e-8)
    folded.unpersist()
    loaded.release()
