"""Bad input, bad settings, bad luck: the right exit code, a message that names things, and nothing half-published."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.parquet import ParquetSink, verify
from dcrec_spark.publish.protocol import publish
from tests.jobs.job import SMALL, failure_of, names_in, read_table, record_of, run_directory, run_retrain

GOOD = [f"u{user},i{item},{1 + (user * item) % 5}" for user in range(6) for item in range(6) if (user + item) % 3]
CSV = {**SMALL, "input.format": "csv", "validation.scale_min": 1, "validation.scale_max": 5}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def write_csv(folder: Path, rows: Iterable[str]) -> Path:
    path = folder / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output directory that holds one run; what it published makes no difference to those that fail."""
    output = tmp_path_factory.mktemp("published") / "out"
    sink = ParquetSink.open(str(output), spark)
    publish(sink, "before", {"recommendations": spark.range(3)}, lambda _: {"job": "retrain"})
    return output


@pytest.fixture
def output(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "out"))


REFUSED: dict[str, tuple[dict[str, object], int, list[str]]] = {
    "a missing column": ({"input.columns.item": "film"}, 3, ["'item'", "'film'", "input.columns.item"]),
    "ratings that are no numbers": (
        {"input.columns.rating": "user"}, 3, ["24 rows are rejected", "unparsable_rating (24 rows)"]
    ),
    "a file that is not there": ({"input.path": "/none.csv"}, 3, ["check input.path"]),
    "no file is named": ({"input.path": "null"}, 2, ["setting input.path: found null"]),
    "a checkpoint directory that cannot be made": (
        {"spark.checkpoint_dir": "/dev/null/below"}, 2, ["spark.checkpoint_dir", "/dev/null/below"]
    ),
    "a rank that the ratings cannot fill": (
        {"outcome.rank": 4000}, 2,
        ["setting outcome.rank: found 4000, expected at most 10: rank can't exceed the number of users or"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_run_that_cannot_go_on_is_refused(what: str, output: Path, published: Path, tmp_path: Path) -> None:
    changed, code, expected = REFUSED[what]
    outcome = run_retrain({**CSV, "input.path": write_csv(tmp_path, GOOD), "output.path": output, **changed})
    assert (outcome.code, outcome.error["kind"]) == (code, "DataError" if code == 3 else "ConfigError")
    assert [text for text in expected if text not in outcome.message] == [], outcome.message
    record = failure_of(output)
    assert (record["status"], record["exit_code"]) == ("failed", code)
    assert outcome.message in record["error"]
    assert record["configuration"]["output"]["path"] == str(output)
    assert names_in(output) == names_in(published)
    assert run_directory(output).name == run_directory(published).name
    verify(str(run_directory(output)))


def test_bad_rows_go_to_the_rejects_with_their_reasons_and_duplicates_are_merged(tmp_path: Path) -> None:
    bad = {
        "u1,n1,NaN": ["nan_rating"],
        "u1,n5,four": ["unparsable_rating"],
        "  ,n8,": ["empty_user", "null_rating"],
        "u1,n9,3,surplus": ["malformed_row"],
    }
    source = write_csv(tmp_path, [*GOOD, *GOOD[:4], GOOD[0], *bad])
    rules = {"validation.max_reject_share": 0.5, "validation.duplicates": "mean"}
    outcome = run_retrain({**CSV, **rules, "input.path": source, "output.path": tmp_path / "out"})
    assert outcome.code == 0, outcome
    run = run_directory(tmp_path / "out")
    rejects, record = read_table(run, "rejects"), record_of(run)
    assert sorted(map(tuple, rejects.reasons)) == sorted(map(tuple, bad.values()))
    assert set(rejects.run_id) == {record["run_id"]}
    assert record["counts"] == {
        "rows_in": 33, "accepted": 29, "rejected": 4, "ratings": 24, "merged_duplicates": 5, "users": 6, "items": 6,
    }  # fmt: skip
    names = ("nan_rating", "unparsable_rating", "empty_user", "null_rating", "malformed_row")
    assert record["reasons"] == dict.fromkeys(names, 1)
    assert not read_table(run, "recommendations").item_id.str.startswith("n").any()
    assert "4 rejected" in outcome.printed


def test_a_dry_run_checks_and_writes_nothing(tmp_path: Path) -> None:
    source = write_csv(tmp_path, GOOD)
    settings = {"input.path": source, "output.path": tmp_path / "out", "spark.checkpoint_dir": tmp_path / "checkpoints"}
    outcome = run_retrain({**CSV, **settings}, "--dry-run")
    assert outcome.code == 0, outcome
    assert "nothing was written" in outcome.printed
    assert "user_id string, item_id string, rating string model" in " ".join(outcome.printed.split())
    assert os.listdir(tmp_path) == ["ratings.csv"]
