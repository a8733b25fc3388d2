"""Blends in jobs: weights in the record, one model for lists, serving, new users and evaluations, resumption."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark import BlendModel
from dcrec_spark.jobs.evaluate.job import Evaluate
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.serve import FoldIn, Recommend
from tests.jobs.job import assert_same_lists, column_of_vectors, publish, read_table, record_of, run_job, run_retrain
from tests.jobs.test_fit_checkpoints import interrupt

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

MEMBERS = ["none", "reconstruction", "factors"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Exposure raises ratings, so that each member explains some of them."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("blend")
    taste = np.outer(rng.gamma(2, 0.5, 80), rng.gamma(2, 0.5, 30))
    user, item = np.nonzero(rng.random(taste.shape) < 1 - np.exp(-0.5 * taste))
    rating = (3 + np.log(taste)[user, item] + rng.normal(0, 0.5, len(user))).clip(0.5).round(3)
    ratings = pd.DataFrame({"user": user, "item": item, "rating": rating})
    ratings[::7].to_parquet(folder / "test.parquet", index=False)
    ratings.drop(ratings.index[::7]).to_parquet(folder / "train.parquet", index=False)
    return {
        "input.path": folder / "train.parquet",
        "model.blend": f"[{','.join(MEMBERS)}]",
        "exposure.max_iter": 4,
        "exposure.tol": 0,
        "outcome.max_iter": 3,
        "outcome.tol": 0,
        "outcome.rank": 2,
        "audit.exposure_check": "off",
        "output.path": folder / "out",
    }


@pytest.fixture(scope="module")
def published(settings: dict[str, Any]) -> Path:
    return publish(Retrain, {**settings, "recommend.extra": "[overlap, fallback, similar_items]"})


def test_weights_are_recorded_and_lists_the_blends(
    spark: SparkSession, published: Path, settings: dict[str, Any]
) -> None:
    record = record_of(published)
    weights = record["blend"]["weights"]
    assert list(weights) == MEMBERS
    assert sum(weights.values()) == pytest.approx(1.0)
    errors = record["blend"]["validation_mse"]
    assert errors["blend"] <= min(errors[name] for name in MEMBERS) + 1e-12
    assert record["audit"]["compared"]["skipped"] == "the small fit for it takes no blend; set audit.held_out_share"
    assert set(record["iterations"]) >= {f"outcome {name}" for name in MEMBERS if weights[name] > 0}
    model = BlendModel.load(str(published / "model"))
    assert model.weights == pytest.approx(weights)
    lists = read_table(published, "recommendations")
    pairs = spark.createDataFrame(lists[["user_id", "item_id", "score"]])
    largest = model.transform(pairs).agg(F.max(F.abs(F.col("score") - F.col("prediction")))).collect()[0][0]
    assert largest < 1e-6
    few, tables = lists.head(20), (read_table(published, f"{side}_factors") for side in ("user", "item"))
    expected = sum(
        weights[name] * products_of(few, member.userFactors.toPandas(), member.itemFactors.toPandas())
        for name, member in model.members.items()
    )
    np.testing.assert_allclose(products_of(few, *tables), expected, rtol=1e-6)
    model.release()


def products_of(pairs: pd.DataFrame, users: pd.DataFrame, items: pd.DataFrame) -> Any:
    rows = users.set_index("id").loc[pairs.user_id], items.set_index("id").loc[pairs.item_id]
    return np.einsum("nk,nk->n", *(column_of_vectors(row, "features") for row in rows))


def test_other_jobs_take_the_blend(published: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    given = {"input.path": settings["input.path"], "model.path": published}
    again = publish(Recommend, {**given, "output.path": tmp_path / "served"})
    assert_same_lists(again, published)
    train = pd.read_parquet(settings["input.path"])
    train[train.user == 5].assign(user=900).to_parquet(tmp_path / "new.parquet", index=False)
    folded = publish(FoldIn, {**given, "input.path": tmp_path / "new.parquet", "output.path": tmp_path / "new"})
    found, known = (read_table(run, "recommendations").sort_values("rank") for run in (folded, published))
    expected = known[known.user_id == 5]
    assert list(found.item_id) == list(expected.item_id)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-6)
    test = {"evaluation.test_path": settings["input.path"].parent / "test.parquet"}
    judged = publish(Evaluate, {**given, **test, "output.path": tmp_path / "report"})
    metrics = read_table(judged, "metrics").query("split == 'test' and metric == 'mse'").set_index("model").value
    assert set(metrics.index) >= {"this model", "baseline model"}
    assert "a blend of models" in (judged / "report" / "report.html").read_text(encoding="utf-8")
    refused = {**given, "recommend.extra": "[intervals]", "output.path": tmp_path / "intervals"}
    run_job(Recommend, refused, code=2, words="expected a list without it for a blend")


def test_an_interrupted_blend_resumes_each_fit_where_it_was(
    published: Path, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**settings, "output.path": tmp_path / "out"}
    interrupt(given, monkeypatch, "outcome", 2)
    run = publish(Retrain, given)
    assert any("weights_none_outcome: resuming" in text for text in record_of(run)["warnings"])
    assert_same_lists(run, published)


def test_a_blend_without_an_exposure_model_publishes_all_but_the_overlap(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run = publish(
        Retrain, {**settings, "model.blend": "[none]", "recommend.extra": "[overlap]", "output.path": tmp_path / "out"}
    )
    assert not list(run.glob("*_overlap"))
    assert any(text.startswith("overlap is not published") for text in record_of(run)["warnings"])
    assert len(read_table(run, "recommendations"))


@pytest.mark.parametrize(
    "setting",
    [
        "outcome.adjustment=none",
        "outcome.outcome=poisson",
        "model.warm_start=previous",
        "recommend.exposure_weight=0.5",
        "recommend.extra=[intervals]",
        "recommend.extra=[vectors]",
    ],
)
def test_settings_that_a_blend_has_not_are_refused(setting: str, settings: dict[str, Any]) -> None:
    name, _, value = setting.partition("=")
    refused = run_retrain({**settings, name: value}, "--dry-run", code=2)
    assert name in refused.message
    assert "where model.blend is set" in refused.message
