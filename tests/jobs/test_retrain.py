"""The main job on real ratings: the tables that it publishes hold what the model and the data say, to the last row."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import SMALL, column_of_vectors, publish, read_table, record_of, run_directory, run_retrain

STARS = {**SMALL, "validation.scale_min": 1, "validation.scale_max": 5}
TOP_N = 5
ROOT = Path(__file__).resolve().parents[2]
COAT = {
    **STARS,
    "input.format": "coat",
    "exposure.rank": 6,
    "exposure.max_iter": 6,
    "outcome.rank": 4,
    "outcome.max_iter": 5,
    "outcome.tol": 1e-9,  # which five sweeps do not reach
    "recommend.top_n": TOP_N,
}
TABLES = {"recommendations", "user_factors", "item_factors", "rejects", "runs"}

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def run(spark: SparkSession, data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("coat") / "out"
    outcome = run_retrain({**COAT, "input.path": data_folder / "coat" / "train.ascii", "output.path": output})
    assert "still falling by" in " ".join(outcome.printed.split())
    return run_directory(output)


@pytest.fixture(scope="module")
def ratings(data_folder: Path) -> pd.DataFrame:
    matrix = np.loadtxt(data_folder / "coat" / "train.ascii", dtype=int)
    user, item = np.nonzero(matrix)
    return pd.DataFrame({"user": user + 1, "item": item + 1, "rating": matrix[user, item]})


def test_every_row_is_counted(run: Path, ratings: pd.DataFrame) -> None:
    record = record_of(run)
    n, users, items = len(ratings), ratings.user.nunique(), ratings.item.nunique()
    assert record["counts"] == {
        "rows_in": n, "accepted": n, "rejected": 0, "ratings": n, "merged_duplicates": 0,
        "users": users, "items": items,
    }  # fmt: skip
    expected = {"recommendations": users * TOP_N, "user_factors": users, "item_factors": items, "rejects": 0, "runs": 1}
    assert record["tables"] == expected
    assert {name: len(read_table(run, name)) for name in TABLES} == expected
    assert {path.name for path in run.iterdir()} == TABLES | {"model", "run.json", "manifest.json"}
    verify(str(run))


def test_every_user_has_the_best_unseen_items_by_the_published_factors(run: Path, ratings: pd.DataFrame) -> None:
    users, items = (read_table(run, f"{side}_factors").sort_values("id") for side in ("user", "item"))
    assert set(users.id) == set(ratings.user)
    assert set(items.id) == set(ratings.item)
    of_exposures = [[column_of_vectors(t, f"exposure_{name}") for name in ("shape", "rate")] for t in (users, items)]
    exposure = [shape / rate for shape, rate in of_exposures]
    a_hat = exposure[0] @ exposure[1].T
    preference = column_of_vectors(users, "features") @ column_of_vectors(items, "features").T
    preference += users.bias.fillna(0).to_numpy()[:, None] + items.bias.fillna(0).to_numpy()
    confounder = users.gamma.to_numpy()[:, None] * (a_hat - a_hat.mean()) / a_hat.std()
    score = preference + confounder + record_of(run)["intercept"]
    row, col = np.searchsorted(users.id, ratings.user), np.searchsorted(items.id, ratings.item)
    score[row, col] = -np.inf
    best = np.argsort(-score, axis=1, kind="stable")[:, :TOP_N]

    table = read_table(run, "recommendations").sort_values(["user_id", "rank"])
    assert table.user_id.tolist() == np.repeat(users.id.to_numpy(), TOP_N).tolist()
    assert table["rank"].tolist() == list(range(1, TOP_N + 1)) * len(users)
    assert table.item_id.tolist() == items.id.to_numpy()[best].ravel().tolist()
    for name, values in (("score", score), ("preference", preference), ("confounder", confounder)):
        expected = np.take_along_axis(values, best, axis=1).ravel()
        # The job computes the means of exposures in float32.
        np.testing.assert_allclose(table[name], expected, rtol=0, atol=2e-6, err_msg=name)
    assert table.confounder.abs().max() > 1e-3


def test_the_query_of_the_docs_makes_the_published_scores(run: Path, spark: SparkSession) -> None:
    page = (ROOT / "docs" / "how-to" / "read-the-tables.md").read_text(encoding="utf-8")
    query = page.partition("-- scores.sql\n")[2].partition("```")[0]
    for table in ("user_factors", "item_factors", "runs"):
        spark.read.parquet(str(run / table)).createOrReplaceTempView(table)
    made = spark.sql(query).toPandas().set_index(["user_id", "item_id"])["score"]
    lists = read_table(run, "recommendations")
    found = made.loc[list(zip(lists.user_id, lists.item_id, strict=True))]
    np.testing.assert_allclose(found, lists.score, rtol=0, atol=1e-9)


def test_the_record_says_what_was_done(run: Path) -> None:
    record = record_of(run)
    assert (record["status"], record["exit_code"], record["error"]) == ("published", 0, None)
    assert f"run_id={record['run_id']}" == run.name
    assert record["started_at"] < record["finished_at"]
    assert {"start Spark", "validate", "exposure", "outcome", "fit"} <= record["timings"].keys()
    assert all(seconds >= 0 for seconds in record["timings"].values())
    assert record["versions"]["pyspark"].startswith("4.")
    assert record["reasons"] == {}
    assert {stage: len(values) for stage, values in record["objectives"].items()} == {"exposure": 6, "outcome": 5}
    assert record["converged"]["outcome"] is False
    (warning,) = (text for text in record["warnings"] if text.startswith("outcome stopped"))
    assert warning.startswith("outcome stopped after 5 iterations, the objective still falling by ")
    (row,) = read_table(run, "runs").to_dict("records")
    for name in ("run_id", "name", "status", "exit_code", "model_version", "config_hash", "data_fingerprint"):
        assert row[name] == record[name]
    assert dict(row["counts"]) == record["counts"]
    assert json.loads(row["configuration"]) == record["configuration"]


def test_a_classical_run_to_the_same_place_is_another_model_without_confounder(run: Path, data_folder: Path) -> None:
    place = {"input.path": data_folder / "coat" / "train.ascii", "output.path": run.parent}
    classical = publish(Retrain, {**COAT, **place, "outcome.adjustment": "none"})
    assert {path.name for path in run.parent.iterdir()} == {"CURRENT", ".lock", run.name, classical.name}
    one, other = record_of(run), record_of(classical)
    assert one["data_fingerprint"] == other["data_fingerprint"]
    assert {name for name in ("config_hash", "model_version") if one[name] == other[name]} == set()
    table = read_table(classical, "recommendations")
    assert len(table) == 290 * TOP_N
    assert (table.confounder == 0).all()
    assert (read_table(classical, "user_factors").gamma == 0).all()
    for name in ("user_factors", "item_factors"):
        assert read_table(classical, name)[["exposure_shape", "exposure_rate"]].isna().all(axis=None)
    assert other["objectives"].keys() == {"outcome"}
