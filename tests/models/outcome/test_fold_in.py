"""New users and items from a few ratings; training rows folded in with their own data get their factors back."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel
from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.kernel_input import KernelInput
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.families.gamma_poisson import GammaPoisson, GammaPrior, start
from tests.frames import frame_of
from tests.models.world import NAMES, NUMBERS, OUTCOME_PRIORS, by_id, cached, dense_posterior, exposure, outcome
from tests.problems import assert_same
from tests.reference import poisson_outcome
from tests.reference import ridge as dense

MEMBERS: dict[str, dict[str, Any]] = {
    "weighted-deconfounded": {"outcome": "weighted"},
    "probabilistic-global": {"outcome": "probabilistic", "confounderWeight": "global", "exchange": "blocks"},
    "poisson-deconfounded": {"outcome": "poisson"},
    "poisson-ipw": {"outcome": "poisson", "adjustment": "ipw"},
}


Fit = Callable[[str], DeconfoundedMFModel]


@pytest.fixture(scope="module")
def fit(spark: SparkSession) -> Fit:
    """A member's model, fitted when it is first asked for."""
    return cache(lambda name: outcome(exposureModel=exposure(), **MEMBERS[name]).fit(NAMES.frame(spark)))


@pytest.fixture(scope="module")
def fitted(fit: Fit) -> DeconfoundedMFModel:
    return fit("weighted-deconfounded")


def of_users(spark: SparkSession, *users: str) -> DataFrame:
    return NAMES.frame(spark).where(F.col("user").isin(list(users)))


def rows_of(table: DataFrame, ids: list[str]) -> dict[str, Any]:
    columns = by_id(table)
    at = [columns["id"].index(i) for i in ids]
    return {name: values[at] for name, values in columns.items() if name not in ("id", "bias")}  # no biases here


def test_ids_of_another_kind_are_refused(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Spark would cast them to one another in silence, or find nothing."""
    numbers, stage_one = NUMBERS.frame(spark), fitted.exposureModel
    assert stage_one is not None
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


def test_folded_users_are_served_alone(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    chosen = NAMES.users[:2]
    ratings = of_users(spark, *chosen)
    served = fitted.withUsers(fitted.foldInUsers(ratings))
    assert served.numUsers == 2
    found = served.recommendationTable(3, ratings).orderBy("user_id", "rank").toPandas()
    expected = fitted.recommendationTable(3, ratings, ratings).orderBy("user_id", "rank").toPandas()
    assert set(expected.user_id) == set(chosen)
    assert found.item_id.tolist() == expected.item_id.tolist()
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-6)


@pytest.mark.parametrize("member", MEMBERS)
def test_training_users_get_their_factors_back(spark: SparkSession, fit: Fit, member: str) -> None:
    """Exposure, preference and confounder weight, from other blocks than in the fit."""
    fitted = fit(member)
    users = ["a`tick", "zoë", "🦊"]
    folded = fitted.foldInUsers(of_users(spark, *users))
    assert [row.id for row in folded.orderBy("id").collect()] == users
    before = rows_of(fitted.tables()[0].drop("idx"), users)
    for name, values in rows_of(folded, users).items():
        assert_same(values, before[name], 1e-9)
    folded.unpersist()


def test_a_user_of_the_fit_under_another_name_is_recommended_the_same(
    spark: SparkSession, fitted: DeconfoundedMFModel
) -> None:
    """The extended model knows him, and all others as before; released, it takes nothing with it and leaves nothing."""
    stranger, before_all = of_users(spark, "zoë").withColumn("user", F.lit("stranger")), cached(spark)
    folded = fitted.foldInUsers(stranger)
    model = fitted.extended(users=folded)
    assert model.numUsers == len(NAMES.users) + 1
    lists = {row.user: row.recommendations for row in model.recommendForAllUsers(3).collect()}
    before = {row.user: row.recommendations for row in fitted.recommendForAllUsers(3).collect()}
    assert [entry.item for entry in lists["stranger"]] == [entry.item for entry in before["zoë"]]
    assert {user: [e.item for e in lists[user]] for user in before} == {
        u: [e.item for e in r] for u, r in before.items()
    }
    model.release()
    folded.unpersist()
    assert cached(spark) == before_all


def test_a_new_item_is_where_its_users_hold_it(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """The dense twin's item, given the fitted users."""
    ratings = NAMES.frame(spark).where("item = '10'").withColumn("item", F.lit("new"))
    folded = fitted.foldInItems(ratings)
    assert folded.columns == [
        "id",
        "features",
        "bias",
        *[f"{m}_{p}" for m in ("outcome", "exposure") for p in ("shape", "rate")],
    ]
    users, item = by_id(fitted.tables()[0]), by_id(folded)
    lam = item["exposure_shape"] / item["exposure_rate"]
    pi = users["exposure_shape"] / users["exposure_rate"]
    i = NAMES.items.index("10")
    problem = NAMES.problem("weighted", np.tile(pi @ lam.T, (1, len(NAMES.items))), form=fitted.facts.form)
    factors = dense.Factors(users["features"], np.zeros((7, 3)), users["gamma"], fitted.intercept)
    assert_same(item["features"][0], np.linalg.solve(*dense.item_system(problem, factors, i)), 1e-8)


def test_new_items_of_a_loaded_poisson_model_are_the_twins(spark: SparkSession, fit: Fit, tmp_path: Path) -> None:
    """One more dense step moves them no further, and the file has all that it takes."""
    fit("poisson-deconfounded").save(f"{tmp_path}/model")
    fitted = DeconfoundedMFModel.load(f"{tmp_path}/model")
    folded = fitted.foldInItems(NAMES.frame(spark))
    state, data = dense_posterior(fitted, folded)
    moved = poisson_outcome.update_items(state, data, OUTCOME_PRIORS)
    assert_same(state.item_shape, moved.item_shape, 1e-4)
    assert_same(state.item_rate, moved.item_rate, 1e-8)
    folded.unpersist()
    fitted.release()


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
    problem = replace(NAMES, counts=idle, ratings=idle).problem("weighted", drawn, form=fitted.facts.form)
    factors = dense.Factors(np.zeros((len(idle), 3)), items["features"], np.zeros(len(idle)), fitted.intercept)
    solution = np.linalg.solve(*dense.user_system(problem, factors, 0))
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


def test_a_folded_in_row_starts_at_its_own_rate() -> None:
    """Beside one of the fit: its means are its own."""
    shape, rate = np.array([[2.0, 3.0], [4.0, 5.0]]), np.array([[4.0, 8.0], [16.0, 32.0]])
    model = GammaPoisson("exposure", "exposure_count", 2, GammaPrior(0.5, 0.6), 0, validates=True)
    inputs = KernelInput(Block({"row_key": np.arange(2)}), {"shape": shape, "rate": rate}, np.empty((0, 0)), {})
    update = start(inputs, model=model, is_user=False)
    np.testing.assert_array_equal(update.rows[:, 2:], shape / rate)


def test_where_rows_have_rates_of_their_own_a_new_one_starts_at_the_priors() -> None:
    """Its shapes come from the seed, as in a cold start; the others stay where they were."""
    shape, rate = np.array([[2.0, 3.0], [np.nan, np.nan]]), np.array([[4.0, 8.0], [np.nan, np.nan]])
    model = GammaPoisson("outcome", "rating", 2, GammaPrior(0.5, 0.6), 0, unobserved=0.2)
    keys = Block({"row_key": np.arange(2)})
    warm = start(KernelInput(keys, {"shape": shape, "rate": rate}, np.empty((0, 0)), {}), model=model, is_user=False)
    cold = start(KernelInput(keys, {}, np.empty((0, 0)), {}), model=model, is_user=False)
    np.testing.assert_array_equal(warm.memory["rate"], [[4.0, 8.0], [0.6, 0.6]])
    np.testing.assert_array_equal(warm.memory["shape"], [shape[0], cold.memory["shape"][1]])
