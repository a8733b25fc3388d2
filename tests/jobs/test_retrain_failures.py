"""Bad input, bad settings, bad luck: the right exit code, a message that names things, and nothing half-published."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.parquet import ParquetSink, verify
from dcrec_spark.publish.protocol import publish
from tests.jobs.job import (
    SMALL,
    Outcome,
    failure_of,
    names_in,
    read_table,
    record_of,
    run_directory,
    run_retrain,
)

HEADER = "user,item,rating"
GOOD = [f"u{user},i{item},{1 + (user * item) % 5}" for user in range(6) for item in range(6) if (user + item) % 3]
CSV = {**SMALL, "input.format": "csv", "validation.scale_min": 1, "validation.scale_max": 5}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def write_csv(path: Path, rows: Iterable[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
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


def assert_old_tables_stay(output: Path, published: Path) -> None:
    """The run of before is the current one, untouched, and nothing of another run lies beside it."""
    assert names_in(output) == names_in(published)
    assert run_directory(output).name == run_directory(published).name
    verify(str(run_directory(output)))


def assert_recorded(output: Path, outcome: Outcome, status: str = "failed") -> None:
    record = failure_of(output)
    assert (record["status"], record["exit_code"]) == (status, outcome.code)
    assert outcome.message in record["error"]
    assert record["configuration"]["output"]["path"] == str(output)


# ---- input that is refused

REFUSED = {
    "a missing column": ("user,film,rating", GOOD, ["'item'", "'film'", "input.columns.item"]),
    "ratings that are no numbers": (
        HEADER,
        [row.rpartition(",")[0] + ",good" for row in GOOD[:12]] + GOOD[12:],
        ["12 of 24 rows are bad", "validation.max_reject_share is 0.05", "unparsable_rating (12 rows)", '"good"'],
    ),
    "no rows": (HEADER, [], ["has no rows", "input.path"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_input_that_cannot_be_used_is_refused(what: str, output: Path, published: Path, tmp_path: Path) -> None:
    header, rows, expected = REFUSED[what]
    source = write_csv(tmp_path / "ratings.csv", rows, header)

    outcome = run_retrain({**CSV, "input.path": source, "output.path": output})

    assert (outcome.code, outcome.error["kind"]) == (3, "DataError")
    assert [text for text in expected if text not in outcome.message] == [], outcome.message
    assert_recorded(output, outcome)
    assert_old_tables_stay(output, published)


def test_a_checkpoint_directory_that_cannot_be_made(output: Path, published: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "ratings.csv", GOOD)
    outcome = run_retrain({**CSV, "input.path": file, "output.path": output, "spark.checkpoint_dir": file / "below"})
    assert outcome.code == 2
    assert "spark.checkpoint_dir" in outcome.message
    assert str(file / "below") in outcome.message
    assert_old_tables_stay(output, published)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [("/none.csv", 3, "check input.path"), ("null", 2, "setting input.path: found null")],
)
def test_input_that_is_not_there_or_not_named(
    path: str, code: int, message: str, output: Path, published: Path
) -> None:
    outcome = run_retrain({**CSV, "input.path": path, "output.path": output})
    assert outcome.code == code
    assert message in outcome.message
    assert_recorded(output, outcome)
    assert_old_tables_stay(output, published)


# ---- ratings too few for any factor


@pytest.mark.parametrize(("biases", "code"), [(True, 0), (False, 1)])
def test_a_fit_without_factors_is_published_where_biases_tell_items_apart(
    biases: bool, code: int, tmp_path: Path
) -> None:
    source = write_csv(tmp_path / "ratings.csv", GOOD)
    given = {"input.format": "csv", "input.path": source, "output.path": tmp_path / "out", "outcome.fit_biases": biases}
    outcome = run_retrain({**given, "outcome.adjustment": "none", "outcome.reg_param": 1e6})
    assert outcome.code == code, outcome
    record = failure_of(tmp_path / "out") if code else record_of(run_directory(tmp_path / "out"))
    assert "factors are zero" in " ".join([record["error"] or "", *record["warnings"]])


# ---- input that is mended or left out


def test_bad_rows_go_to_the_rejects_with_their_reasons_and_duplicates_are_merged(tmp_path: Path) -> None:
    bad = {
        "u1,n1,NaN": ["nan_rating"],
        "u1,n2,inf": ["infinite_rating"],
        "u1,n3,7": ["out_of_scale"],
        "u1,n4,0.5": ["out_of_scale"],
        "u1,n5,four": ["unparsable_rating"],
        "u1,n6,": ["null_rating"],
        ",n7,3": ["null_user"],
        "  ,n8,": ["empty_user", "null_rating"],
        "u1,n9,3,surplus": ["malformed_row"],
    }
    source = write_csv(tmp_path / "ratings.csv", [*GOOD, *GOOD[:4], GOOD[0], *bad])
    rules = {"validation.max_reject_share": 0.5, "validation.duplicates": "mean"}

    outcome = run_retrain({**CSV, **rules, "input.path": source, "output.path": tmp_path / "out"})

    assert outcome.code == 0, outcome
    run = run_directory(tmp_path / "out")
    rejects = read_table(run, "rejects")
    assert sorted(map(tuple, rejects.reasons)) == sorted(map(tuple, bad.values()))
    for row, expected in bad.items():
        item = row.split(",")[1]
        (found,) = [list(reasons) for raw, reasons in zip(rejects.raw, rejects.reasons, strict=True) if item in raw]
        assert found == expected, row
    record = record_of(run)
    assert record["counts"] == {
        "rows_in": 38, "accepted": 29, "rejected": 9, "ratings": 24, "merged_duplicates": 5, "users": 6, "items": 6,
    }  # fmt: skip
    assert record["reasons"] == {
        "nan_rating": 1, "infinite_rating": 1, "out_of_scale": 2, "unparsable_rating": 1, "null_rating": 2,
        "null_user": 1, "empty_user": 1, "malformed_row": 1,
    }  # fmt: skip
    assert set(rejects.run_id) == {record["run_id"]}
    assert not read_table(run, "recommendations").item_id.str.startswith("n").any()
    assert "9 rejected" in outcome.printed


# ---- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outcome.rnk": 3}, "unknown setting outcome.rnk: did you mean outcome.rank?"),
        ({"output.path": "null"}, "setting output.path: found null, expected the directory for the tables"),
        ({"output.path": "gs://bucket/x"}, "output.path is 'gs://bucket/x': gs: is an object store"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used(settings: dict[str, object], message: str, output: Path, published: Path) -> None:
    outcome = run_retrain({**CSV, "output.path": output, **settings})
    assert (outcome.code, outcome.error["kind"]) == (2, "ConfigError")
    assert message in outcome.message
    assert names_in(output) == names_in(published)
    assert not (output / "failed").exists()


def test_a_rank_that_the_ratings_cannot_fill_is_refused(output: Path, published: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "ratings.csv", GOOD)
    outcome = run_retrain({**CSV, "input.path": source, "output.path": output, "outcome.rank": 4000})
    assert (outcome.code, outcome.error["kind"]) == (2, "ConfigError")
    assert outcome.message.startswith(
        "setting outcome.rank: found 4000, expected at most 10: rank can't exceed the number of users or"
    )
    assert_old_tables_stay(output, published)


def test_an_outcome_without_intervals_publishes_none(output: Path, published: Path, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "ratings.csv", GOOD)
    settings = {
        "input.path": path,
        "output.path": output,
        "outcome.outcome": "poisson",
        "recommend.extra": "[intervals]",
    }
    outcome = run_retrain({**CSV, **settings})
    assert outcome.code == 2
    assert "recommend.extra: found intervals, expected a list without it for outcome.outcome=poisson" in outcome.message
    assert_old_tables_stay(output, published)


# ---- a dry run


def test_a_dry_run_checks_and_writes_nothing(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "ratings.csv", GOOD)
    settings = {"input.path": source, "output.path": tmp_path / "out", "spark.checkpoint_dir": tmp_path / "checkpoints"}
    outcome = run_retrain({**CSV, **settings}, "--dry-run")
    assert outcome.code == 0, outcome
    assert "nothing was written" in outcome.printed
    assert "user_id string, item_id string, rating string model" in " ".join(outcome.printed.split())
    assert os.listdir(tmp_path) == ["ratings.csv"]


def test_a_dry_run_that_finds_a_fault_writes_nothing_either(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "ratings.csv", GOOD, "user,film,rating")
    outcome = run_retrain({**CSV, "input.path": source, "output.path": tmp_path / "out"}, "--dry-run")
    assert outcome.code == 3
    assert os.listdir(tmp_path) == ["ratings.csv"]
