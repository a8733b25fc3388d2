"""Evaluation of a saved model: the table of metrics, the report, dropped test ratings, refusals."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel
from dcrec_spark.jobs.evaluate.job import Evaluate
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.models.outcome.tables import FactorTables
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import Outcome, failure_of, names_in, publish, read_table, record_of, run_directory, run_job

FIT = {
    "exposure.rank": 2,
    "exposure.max_iter": 2,
    "outcome.outcome": "probabilistic",
    "outcome.rank": 2,
    "outcome.max_iter": 2,
}
SCALE = {"validation.scale_min": 1, "validation.scale_max": 5}
TITLES = "item,title\n" + "".join(f"i{i:02},Emma & <i>Ivanhoe</i> {i}\n" for i in range(15))

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def draw() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test ratings of 20 users and 15 items, by a hash: about half of the pairs, and a quarter."""
    parts: list[list[Any]] = [[], []]
    for user, item in np.ndindex(20, 15):
        number = crc32(f"{user},{item}".encode())
        if number % 4 < 3:
            parts[number % 4 // 2].append((f"u{user:02}", f"i{item:02}", 1.0 + number // 7 % 5))
    training, test = (pd.DataFrame(part, columns=["user", "item", "rating"]) for part in parts)
    return training, test


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both sets of ratings, titles, the run ``deconfounded``, and the model ``other``, of no run."""
    folder = tmp_path_factory.mktemp("evaluated")
    training, test = draw()
    training.to_parquet(folder / "training.parquet")
    strangers = pd.DataFrame([("stranger", "i01", 5.0), ("u01", "strange", 5.0)], columns=test.columns)
    pd.concat([test, training.head(3), strangers]).to_parquet(folder / "test.parquet")
    training.head(4).to_parquet(folder / "seen.parquet")
    training.head(100).to_parquet(folder / "less.parquet")
    (folder / "titles.csv").write_text(TITLES, encoding="utf-8")
    places = {"input.path": folder / "training.parquet", "output.path": folder / "deconfounded"}
    publish(Retrain, {**FIT, **SCALE, **places, "recommend.top_n": 15})
    model = DeconfoundedMFModel.load(str(run_directory(folder / "deconfounded") / "model"))
    users, items = model.tables()
    tables = FactorTables.cached(users.withColumn("gamma", F.lit(0.0)), items)
    model._copyValues(DeconfoundedMFModel(tables, model.facts, model.exposureModel)).save(str(folder / "other"))
    model.release()
    return folder


def settings_of(trained: Path, output: Path) -> dict[str, Any]:
    places = {
        "model.path": trained / "deconfounded",
        "input.path": trained / "training.parquet",
        "evaluation.test_path": trained / "test.parquet",
        "output.path": output,
    }
    return {**SCALE, "recommend.top_n": 3, **places}


@pytest.fixture(scope="module")
def compared(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    output = tmp_path_factory.mktemp("compared") / "out"
    more = {"evaluation.compare_with": trained / "other", "evaluation.titles_path": trained / "titles.csv"}
    outcome = run_job(Evaluate, {**settings_of(trained, output), **more})
    return outcome, run_directory(output)


def text_of(run: Path) -> str:
    page = (run / "report" / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"<svg[^>]*>.*?</svg>", "", page.partition("<body>")[2], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def potential(trained: Path) -> pd.DataFrame:
    """user, item, score of all unseen pairs, as the run recommends them."""
    table = read_table(run_directory(trained / "deconfounded"), "recommendations")
    return table.rename(columns={"user_id": "user", "item_id": "item"})[["user", "item", "score"]]


def test_a_run_is_published_with_a_record_of_what_was_dropped(compared: tuple[Outcome, Path]) -> None:
    outcome, run = compared
    verify(str(run))
    assert {path.name for path in run.iterdir()} == {
        "metrics", "rejects", "report", "runs", "run.json", "manifest.json"
    }  # fmt: skip
    record = record_of(run)
    assert (record["job"], record["status"]) == ("evaluate", "published")
    counts = {name: record["counts"][f"test_{name}"] for name in ("ratings", "overlap", "unknown", "items_missing")}
    assert counts == {"ratings": len(draw()[1]), "overlap": 3, "unknown": 2, "items_missing": 1}
    assert str(run / "report" / "report.html") in outcome.printed.replace("\n", "")
    metrics = read_table(run, "metrics").set_index(["split", "model", "metric"]).value
    numbers = [metrics["test", "this model", "mse"], metrics["test", "this model", "catalogue_ndcg@5(2^rel-1)"]]
    (line,) = (line.split() for line in outcome.printed.splitlines() if line.strip().startswith("this model"))
    assert [line[2], line[6]] == [f"{number:.3f}" for number in numbers]


def test_metrics_match_the_dense_reference(compared: tuple[Outcome, Path], trained: Path) -> None:
    training, test = draw()
    table = read_table(compared[1], "metrics")
    found = table[table.split == "test"].set_index(["model", "metric"])
    assert found.index.is_unique
    predicted = test.merge(potential(trained), on=["user", "item"], validate="1:1")
    item_mean = training.groupby("item").rating.mean()
    expected = {
        "this model": (predicted.score - predicted.rating) ** 2,
        "item mean": (test.item.map(item_mean) - test.rating) ** 2,
    }
    for model, errors in expected.items():
        row = found.loc[(model, "mse")]
        assert row.value == pytest.approx(errors.mean())
        assert row.ci_low < row.value < row.ci_high
        assert row.n == len(test)
    difference = found.loc[("this model - item mean", "mse")]
    assert difference.value == pytest.approx(np.subtract(*(e.mean() for e in expected.values())))
    popularity = training.item.value_counts()
    unseen = potential(trained).assign(score=lambda f: f.item.map(popularity))
    listed = unseen.sort_values(["user", "score", "item"], ascending=[True, False, True]).groupby("user").head(5)
    assert found.loc[("popularity", "catalogue_coverage@5")].value == pytest.approx(listed.item.nunique() / 15)
    assert not {("random", "mse"), ("popularity", "mae")} & set(found.index)
    strata = table[table.split.str.startswith("test, users with ") & (table.model == "this model")]
    assert strata[strata.metric == "mse"].n.sum() == len(test)


def test_the_report_shows_both_models_and_reasons(compared: tuple[Outcome, Path], trained: Path) -> None:
    text = text_of(compared[1])
    assert text.startswith("Evaluation: probabilistic matrix factorization, deconfounded, rank 2"), text[:80]
    assert str(trained) not in text
    for part in (
        "Test ratings dropped because their pair is in training: 3.",
        "Test ratings dropped because a model does not know their user or item: 2.",
        "because of Emma & <i>Ivanhoe</i>",
        "The 90 % interval of a recommended item is",
        "of the recommended items are extrapolations",
        "no difference shown",  # so few users can't tell
        "compared model",
        "Items by training ratings",
    ):
        assert part in text, part
    assert re.search(r"predict and rank [\d.]+", text)


def test_alone_a_model_is_compared_with_a_baseline_model_and_other_training_ratings_give_no_reasons(
    trained: Path, tmp_path: Path
) -> None:
    alone = publish(Evaluate, {**settings_of(trained, tmp_path / "out"), "input.path": trained / "less.parquet"})
    table, text = read_table(alone, "metrics"), text_of(alone)
    table = table[table.split == "test"].set_index(["model", "metric"])
    assert table.loc[("baseline model", "mse"), "value"] != table.loc[("this model", "mse"), "value"]
    assert "the same settings without a confounder" in text
    assert "are not those that run" in record_of(alone)["warnings"][0]
    assert "are not those that run" in text
    assert "There are no reasons:" in text
    assert "because of i" not in text


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no test is named": ({"evaluation.test_path": "null"}, 2, "setting evaluation.test_path: found null"),
    "all of it was seen": ({"evaluation.test_path": "{folder}/seen.parquet"}, 3, "none of its 4 ratings can be used"),
    "no titles are there": ({"evaluation.titles_path": "{folder}/none.csv"}, 3, "check evaluation.titles_path"),
    "no second model": ({"evaluation.compare_with": "{folder}/none"}, 3, "setting evaluation.compare_with: there is"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_evaluated_is_refused(what: str, trained: Path, tmp_path: Path) -> None:
    changed, code, message = REFUSED[what]
    chosen = {name: value.format(folder=trained) for name, value in changed.items()}
    run_job(Evaluate, {**settings_of(trained, tmp_path / "out"), **chosen}, code=code, words=message)
    assert names_in(tmp_path / "out") == set()
    if what == "all of it was seen":  # which the run finds when it has begun
        record = failure_of(tmp_path / "out")
        assert (record["job"], record["exit_code"]) == ("evaluate", 3)
