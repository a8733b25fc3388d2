"""Features of users and items in jobs: they lower the error, reach new users, and are checked before any fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMFModel
from dcrec_spark.jobs.evaluate.job import Evaluate
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.serve import FoldIn
from dcrec_spark.jobs.tune.job import Tune
from tests.jobs.job import publish, read_table, record_of, run_job, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

USERS, ITEMS = 60, 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of users as CSV, one row missing, of items as Parquet, and tables that are refused.

    The old like even items, the young odd ones.
    """
    made, rng = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    age = rng.normal(40, 10, USERS)
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < 0.4)
    rating = 3 + 0.1 * (age[user] - 40) * np.where(item % 2, -1, 1) + rng.normal(0, 0.1, len(user))
    ratings = pd.DataFrame({"user": user, "item": item, "rating": rating.round(3)})
    users = pd.DataFrame({"user": np.arange(USERS), "age": age, "one.two": np.where(age > 40, None, 1.0)})
    held_out = ratings.index % 5 == 0
    ratings[~held_out].to_parquet(made / "train.parquet", index=False)
    ratings[held_out].to_parquet(made / "test.parquet", index=False)
    users[1:].to_csv(made / "users.csv", index=False)
    pd.DataFrame({"item": range(ITEMS), "odd": [i % 2 for i in range(ITEMS)]}).to_parquet(made / "items.parquet")
    users.assign(age="old").to_csv(made / "texts.csv", index=False)
    pd.concat([users, users[:1]]).to_parquet(made / "twice.parquet")
    users.assign(user=users.user + 1000).to_parquet(made / "strangers.parquet")
    users[["user"]].to_parquet(made / "ids.parquet")
    users.assign(user=users.user.astype(str)).to_parquet(made / "text-ids.parquet")
    return made


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, Any]:
    return {
        "input.path": folder / "train.parquet",
        "exposure.max_iter": 5,
        "exposure.tol": 0,
        "outcome.max_iter": 10,
        "outcome.tol": 0,
        "outcome.confounder_reg": 2,  # of the slopes too
        "audit.exposure_check": "off",
        "audit.list_check": "off",
        "output.path": folder / "out",
    }


@pytest.fixture(scope="module")
def published(settings: dict[str, Any], folder: Path) -> Path:
    places = {"input.user_features": folder / "users.csv", "input.item_features": folder / "items.parquet"}
    return publish(Retrain, {**settings, **places})


def test_features_that_decide_ratings_lower_the_error_and_the_record_names_them(
    spark: SparkSession, published: Path, settings: dict[str, Any], folder: Path
) -> None:
    record = record_of(published)
    assert record["features"] == {
        "user": {"columns": ["age", "one.two"], "rows": USERS - 1, "matched": USERS - 1},
        "item": {"columns": ["odd"], "rows": ITEMS, "matched": ITEMS},
    }
    assert any(w.startswith("1 of the 60 users have no row in input.user_features") for w in record["warnings"])
    without = publish(Retrain, {**settings, "output.path": folder / "without"})
    assert record["model_version"] != record_of(without)["model_version"]
    test = spark.read.parquet(str(folder / "test.parquet")).toDF("user_id", "item_id", "rating")
    errors = []
    for run in (published, without):
        model = DeconfoundedMFModel.load(str(run / "model"))
        errors.append(np.mean([(row.rating - row.prediction) ** 2 for row in model.transform(test).dropna().collect()]))
        model.release()
    assert errors[0] < 0.5 * errors[1]


def test_new_users_are_served_by_their_features(published: Path, folder: Path, tmp_path: Path) -> None:
    """Of two who have rated item 0 alike, the old one gets even items and the young one odd ones."""
    pd.DataFrame({"user": [500, 501], "item": [0, 0], "rating": [3.0, 3.0]}).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"one.two": ["", 1], "user": [500, 501], "age": [60, 20]}).to_csv(tmp_path / "ages.csv", index=False)
    given = {"input.format": "csv", "input.id_type": "long", "input.path": tmp_path / "new.csv"}
    given |= {"model.path": published, "recommend.top_n": 5}
    with_ages = {**given, "output.path": tmp_path / "out", "input.user_features": tmp_path / "ages.csv"}
    run = publish(FoldIn, with_ages)
    odd = {user: set(lists.item_id % 2) for user, lists in read_table(run, "recommendations").groupby("user_id")}
    assert odd == {500: {0}, 501: {1}}
    assert record_of(run)["features"]["user"] == {"columns": ["one.two", "age"], "rows": 2, "matched": 2}
    ids_alone = {**with_ages, "input.user_features": folder / "ids.parquet"}
    run_job(FoldIn, ids_alone, "--dry-run", code=3, words="expected columns of numbers")
    pd.DataFrame({"user": [500], "age": [60]}).to_csv(tmp_path / "ages.csv", index=False)
    run_job(FoldIn, with_ages, "--dry-run", code=2, words="found a table without one.two")
    outcome = publish(FoldIn, {**given, "output.path": tmp_path / "without"})
    assert any("setting input.user_features is null" in text for text in record_of(outcome)["warnings"])


def test_search_and_evaluation_have_features(
    published: Path, settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """A search that leaves no preference factors finds a low error by features, which the baseline has too."""
    features = {"input.user_features": folder / "users.csv", "input.item_features": folder / "items.parquet"}
    search = {name: value for name, value in settings.items() if not name.startswith("audit.")}
    search |= {"output.path": tmp_path / "search", "tuning.space.outcome.rank": "[2]", "tuning.metric": "mse"}
    (trial,) = read_table(publish(Tune, {**search, **features}), "trials").to_dict("records")
    assert trial["value"] < 0.3  # the ratings' variance is 1
    given = {"input.path": folder / "train.parquet", "evaluation.test_path": folder / "test.parquet"}
    run = publish(Evaluate, {**given, **features, "model.path": published, "output.path": tmp_path / "report"})
    metrics = read_table(run, "metrics").query("split == 'test' and metric == 'mse'").set_index("model").value
    assert metrics["baseline model"] < 0.3
    assert not [text for text in record_of(run)["warnings"] if "features" in text and "mean" not in text]


REFUSED: dict[str, tuple[str, str, int, str]] = {
    "no id of the ratings": ("user", "strangers.parquet", 3, "no rating is of one of its 60 users"),
    "a column of text": ("user", "texts.csv", 3, "column 'age' holds 'old'; expected finite numbers"),
    "an id twice": ("user", "twice.parquet", 3, "user 0 is in 2 rows; expected one"),
    "ids alone": ("user", "ids.parquet", 3, "found the ids alone; expected columns of numbers"),
    "ids of another type": ("user", "text-ids.parquet", 3, "column user holds string; expected bigint"),
    "no file": ("user", "nowhere.parquet", 3, "nothing is there; check input.user_features"),
    "the other side's table": ("item", "strangers.parquet", 3, "has no column 'item'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_features_that_can_not_be_used_are_refused_before_a_fit(
    case: str, settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    side, file, code, message = REFUSED[case]
    given = {**settings, f"input.{side}_features": folder / file, "output.path": tmp_path / "out"}
    outcome = run_retrain(given, "--dry-run", code=code, words=message)
    assert f"input.{side}_features" in outcome.message


def test_a_start_from_other_features_and_an_outcome_without_slopes_are_refused(
    published: Path, settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    given = {**settings, "input.user_features": folder / "users.csv", "output.path": tmp_path / "out"}
    for changed, words in (
        ({"model.warm_start": published}, "setting model.warm_start: itemFeatures: found []"),
        ({"outcome.outcome": "poisson"}, "where input.user_features is set; found poisson"),
    ):
        assert words in run_retrain({**given, **changed}, "--dry-run", code=2).message


def test_new_features_of_the_same_users_are_news(settings: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    users = pd.read_csv(folder / "users.csv")
    users.to_csv(tmp_path / "users.csv", index=False)
    given = {**settings, "input.user_features": tmp_path / "users.csv", "output.path": tmp_path / "out"}
    given |= {"input.unchanged": "skip", "model.warm_start": "previous", "outcome.max_iter": 1}
    first = publish(Retrain, given)
    assert "skipped: the ratings have the fingerprint" in " ".join(run_retrain(given).printed.split())
    users.assign(age=users.age.where(users.user != 7, 99)).to_csv(tmp_path / "users.csv", index=False)
    second = publish(Retrain, given)
    assert second != first
    assert record_of(second)["source"]["run_id"] == record_of(first)["run_id"]
