"""Judging a saved model: the table of metrics, the report, what is left out of the test, and what is refused."""

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
from dcrec_spark.jobs.evaluate.twin import twin_of
from dcrec_spark.models.outcome.tables import FactorTables
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import failure_of, names_in, read_table, record_of, run_directory, run_job, run_retrain
from tests.reference import metrics as by_hand

FIT = {
    "exposure.rank": 2,
    "exposure.max_iter": 2,
    "outcome.outcome": "probabilistic",
    "outcome.rank": 2,
    "outcome.max_iter": 2,
}
SCALE = {"validation.scale_min": 1, "validation.scale_max": 5}
EVALUATION = {
    "evaluation.cuts": "[2,3]",
    "evaluation.bootstrap": 40,
    "evaluation.sample_users": 2,
    "recommend.top_n": 3,
}
TITLES = "item,title\n" + "".join(f"i{i:02},Emma & <i>Ivanhoe</i> {i}\n" for i in range(15))

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def drawn() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test ratings of 20 users and 15 items, by a hash: about half of the pairs, and a quarter."""
    rows = [(f"u{u:02}", f"i{i:02}", crc32(f"{u},{i}".encode())) for u in range(20) for i in range(15)]
    parts: list[list[Any]] = [[], []]
    for user, item, number in rows:
        if number % 4 < 3:
            parts[number % 4 // 2].append((user, item, 1.0 + number // 7 % 5))
    training, test = (pd.DataFrame(part, columns=["user", "item", "rating"]) for part in parts)
    return training, test


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both sets of ratings, titles, the run ``deconfounded``, and the model ``other``, of no run."""
    folder = tmp_path_factory.mktemp("judged")
    training, test = drawn()
    training.to_parquet(folder / "training.parquet")
    strangers = pd.DataFrame([("stranger", "i01", 5.0), ("u01", "strange", 5.0)], columns=test.columns)
    pd.concat([test, training.head(3), strangers]).to_parquet(folder / "test.parquet")
    training.head(4).to_parquet(folder / "seen.parquet")
    (folder / "titles.csv").write_text(TITLES, encoding="utf-8")
    places = {"input.path": folder / "training.parquet", "output.path": folder / "deconfounded"}
    outcome = run_retrain({**FIT, **SCALE, **places, "recommend.top_n": 15, "audit.min_coverage": 0.25})
    assert outcome.code == 0, outcome
    model = DeconfoundedMFModel.load(str(run_directory(folder / "deconfounded") / "model"))
    without_gamma(model).save(str(folder / "other"))
    model.release()
    return folder


def without_gamma(model: DeconfoundedMFModel) -> DeconfoundedMFModel:
    """Another model of the same ids."""
    users, items = model.tables()
    tables = FactorTables.cached(users.withColumn("gamma", F.lit(0.0)), items)
    return model._copyValues(DeconfoundedMFModel(tables, model.facts, model.exposureModel))


@pytest.fixture
def settings(trained: Path, tmp_path: Path) -> dict[str, Any]:
    places = {
        "model.path": trained / "deconfounded",
        "input.path": trained / "training.parquet",
        "evaluation.test_path": trained / "test.parquet",
        "output.path": tmp_path / "out",
    }
    return {**SCALE, **EVALUATION, **places}


def text_of(run: Path) -> str:
    """The report as text; its pictures by their labels."""
    page = (run / "report" / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"<svg[^>]*>.*?</svg>", "", page.partition("<body>")[2], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_two_models_are_judged_side_by_side(trained: Path, settings: dict[str, Any]) -> None:
    more = {"evaluation.compare_with": trained / "other", "evaluation.titles_path": trained / "titles.csv"}
    outcome = run_job(Evaluate, {**settings, **more})

    assert outcome.code == 0, outcome
    run = run_directory(settings["output.path"])
    verify(str(run))
    assert {path.name for path in run.iterdir()} == {
        "metrics", "rejects", "report", "runs", "run.json", "manifest.json"
    }  # fmt: skip
    record, (training, test) = record_of(run), drawn()
    assert (record["job"], record["status"]) == ("evaluate", "published")
    counts = record["counts"]
    assert (counts["test_ratings"], counts["test_overlap"], counts["test_unknown"]) == (len(test), 3, 2)
    assert counts["test_items_missing"] == 1
    assert_metrics(read_table(run, "metrics"), training, test, trained)
    said = text_of(run)
    assert said.startswith("Evaluation: deconfounded probabilistic matrix factorization, "), said[:80]
    assert str(trained) not in said
    assert "3 test ratings of pairs that are in training too were dropped." in said
    assert "2 test ratings of users or items that a model does not know were left out" in said
    assert "Emma & <i>Ivanhoe</i>" in said
    assert "because of Emma & <i>Ivanhoe</i>" in said
    assert "are not those that run" not in said
    assert "The 90 % interval of a recommended item is" in said
    assert "of the places are extrapolations" in said
    assert re.search(r"min_coverage \d\.\d+ 0\.250 kept \d+ of 15 items are in some list", said)
    assert "no difference shown" in said  # so few users can't tell
    assert "of the items in the first 3 places of this model are not in those of compared model" in said
    assert re.search(r"[Ee]xposures look like draws from the model|do not trust a_hat", said)
    for step in ("validate", "predict and rank", "fit"):
        assert re.search(rf"{step} [\d.]+", said), step
    assert str(run / "report" / "report.html") in outcome.printed.replace("\n", "")


def assert_metrics(table: pd.DataFrame, training: pd.DataFrame, test: pd.DataFrame, trained: Path) -> None:
    """Against what the runs published, and plain loops."""
    found = table[table.split == "test"].set_index(["model", "metric"])
    assert found.index.is_unique
    predicted = test.merge(potential(trained / "deconfounded"), on=["user", "item"], validate="1:1")
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
    ndcg = [
        by_hand.ndcg(of.sort_values("score", ascending=False).rating.tolist(), [], 2, by_hand.Variant())
        for _, of in predicted.groupby("user")
    ]
    assert found.loc[("this model", "ndcg@2(2^rel-1)")].value == pytest.approx(np.mean(ndcg))
    popularity = training.item.value_counts()
    unseen = potential(trained / "deconfounded").assign(score=lambda f: f.item.map(popularity))
    listed = unseen.sort_values(["user", "score", "item"], ascending=[True, False, True]).groupby("user").head(3)
    coverage = found.loc[("popularity", "catalogue_coverage@3")]
    assert coverage.value == pytest.approx(listed.item.nunique() / 15)
    assert not {("random", "mse"), ("popularity", "mae")} & set(found.index)
    assert (
        found.loc[("this model", "ndcg(2^rel-1)"), "value"] != found.loc[("compared model", "ndcg(2^rel-1)"), "value"]
    )


def potential(output: Path) -> pd.DataFrame:
    """user, item, score of all unseen pairs, as the run recommends them."""
    table = read_table(run_directory(output), "recommendations")
    return table.rename(columns={"user_id": "user", "item_id": "item"})[["user", "item", "score"]]


def test_alone_a_model_is_compared_with_its_classical_twin(trained: Path, settings: dict[str, Any]) -> None:
    less = {"evaluation.predictive_check": "false", "evaluation.reasons": 0, "evaluation.bootstrap": 0}
    less |= {"evaluation.strata": 0}
    outcome = run_job(Evaluate, {**settings, **less})

    assert outcome.code == 0, outcome
    run = run_directory(settings["output.path"])
    said = text_of(run)
    assert "first 3 places of this model are not in those of classical twin" in said
    assert "Not done: evaluation.predictive_check is false." in said
    assert "Not done: evaluation.strata is 0." in said
    assert "because of" not in said
    assert "without intervals no difference can be shown" in said
    table = read_table(run, "metrics")
    table = table[table.split == "test"].set_index(["model", "metric"])
    assert table.ci_low.isna().all()
    assert table.loc[("classical twin", "ndcg(2^rel-1)"), "value"] <= 1
    assert table.loc[("classical twin", "mse"), "value"] != table.loc[("this model", "mse"), "value"]
    model = DeconfoundedMFModel.load(str(run_directory(trained / "deconfounded") / "model"))
    twin = twin_of(model)
    assert (twin.getOrDefault("adjustment"), twin.getOrDefault("exposureModel")) == ("none", None)
    assert twin.getOrDefault("unobservedWeight") == 1.0  # as the model has it, where a classical one has 0
    assert twin.getOrDefault("rank") == model.getOrDefault("rank")
    model.release()


def test_the_model_is_compared_within_strata(trained: Path, settings: dict[str, Any]) -> None:
    less = {"evaluation.predictive_check": "false", "evaluation.reasons": 0, "evaluation.certainty": "false"}
    more = {"evaluation.compare_with": trained / "other", "evaluation.strata": 2}
    outcome = run_job(Evaluate, {**settings, **less, **more})

    assert outcome.code == 0, outcome
    run, (training, test) = run_directory(settings["output.path"]), drawn()
    strata, table = record_of(run)["strata"], read_table(run, "metrics")
    assert not table[table.split != "test"].metric.str.contains("coverage").any()
    table = table.set_index(["model", "split", "metric"])
    assert table.index.is_unique
    bounds = [(stratum["side"], stratum["lowest"], stratum["highest"]) for stratum in strata]
    assert bounds == [("user", 7, 7), ("user", 8, 8), ("item", 10, 10)]  # all items have as many training ratings
    said = text_of(run)
    for stratum in strata:
        side, lowest, highest = (stratum[name] for name in ("side", "lowest", "highest"))
        counts = test[side].map(training[side].value_counts()).fillna(0)
        members = test[counts.between(lowest, highest)]
        split = f"test, {side}s with {lowest} training ratings"
        row = table.loc[("this model - compared model", split, "mse")]
        of_both = [table.loc[(model, split, "mse")] for model in ("this model", "compared model")]
        assert stratum["models"] == ["this model", "compared model"]
        assert (stratum["members"], row.n) == (members[side].nunique(), len(members))
        assert row.value == pytest.approx(of_both[0].value - of_both[1].value)
        predicted = members.merge(potential(trained / "deconfounded"), on=["user", "item"], validate="1:1")
        assert of_both[0].value == pytest.approx(((predicted.score - predicted.rating) ** 2).mean())
        assert stratum["differences"]["mse"] == {**row[["value", "ci_low", "ci_high"]].to_dict(), "n": row.n}
        assert row.ci_low < row.value < row.ci_high
        assert f" {lowest} {members[side].nunique()} " in said


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no test is named": ({"evaluation.test_path": "null"}, 2, "setting evaluation.test_path: found null"),
    "no test is there": ({"evaluation.test_path": "{folder}/none"}, 3, "setting evaluation.test_path: input parquet"),
    "all of it was seen": ({"evaluation.test_path": "{folder}/seen.parquet"}, 3, "none of its 4 ratings can be used"),
    "no titles are there": ({"evaluation.titles_path": "{folder}/none.csv"}, 3, "check evaluation.titles_path"),
    "no second model": ({"evaluation.compare_with": "{folder}/none"}, 3, "setting evaluation.compare_with: there is"),
    "no model": ({"model.path": "null"}, 2, "setting model.path: found null"),
    "other training ratings": (
        {"input.path": "{folder}/seen.parquet", "evaluation.compare_with": "{folder}/other"},
        3,
        "or leave the reasons out with evaluation.reasons=0",
    ),
    "the model's own place": ({"output.path": "{folder}/deconfounded"}, 2, "setting output.path: "),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_judged_is_refused(what: str, trained: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    changed, code, said = REFUSED[what]
    outcome = run_job(
        Evaluate, {**settings, **{k: v.format(folder=trained) for k, v in changed.items()}, "evaluation.bootstrap": 0}
    )
    assert outcome.code == code, outcome
    assert said in outcome.message
    assert names_in(tmp_path / "out") == set()
    if what == "all of it was seen":  # which is found out when the run has begun
        record = failure_of(settings["output.path"])
        assert (record["job"], record["exit_code"]) == ("evaluate", 3)
    if what == "other training ratings":
        assert "(input) are not those that run" in failure_of(settings["output.path"])["warnings"][0]


def test_a_dry_run_checks_and_writes_nothing(trained: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    outcome = run_job(Evaluate, settings, "--dry-run")
    assert outcome.code == 0, outcome
    assert "nothing was written" in outcome.printed
    assert list(tmp_path.iterdir()) == []
    outcome = run_job(Evaluate, {**settings, "evaluation.titles_path": trained / "seen.parquet"}, "--dry-run")
    assert outcome.code == 3
    assert "expected 'title' and one of 'item'" in outcome.message
