"""What is new since the last run: counted pair by pair, and a night without news ends at once or fits, as is asked."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.jobs.news import COMPARED, News, pairs_since, tells_enough
from tests.jobs.job import SMALL, names_in, record_of, run_directory, run_retrain

PAIRS = [(user, item) for user in range(12) for item in range(10) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},{item},{1 + (user * item) % 5}" for user, item in PAIRS)]
COLUMNS = "user_id long, item_id string, rating double, timestamp long, raw string"


@pytest.fixture
def nightly(tmp_path: Path) -> dict[str, object]:
    """Settings of a shop that skips nights without news."""
    (tmp_path / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    return {
        **SMALL,
        "input.format": "csv",
        "input.path": tmp_path / "ratings.csv",
        "input.unchanged": "skip",
        "output.path": tmp_path / "out",
        "run.metrics_file": tmp_path / "night.prom",
    }


def test_pairs_are_new_changed_or_gone_whatever_the_order_of_their_rows(spark: SparkSession) -> None:
    before = [
        (1, "a", 3.0, 10, "x"), (1, "b", 4.0, 10, "x"), (2, "a", 5.0, 11, "x"), (2, "a", 1.0, 12, "x"),
        (3, "a", None, 1, "x"), (4, "a", 2.0, 1, "x"), (None, "a", 1.0, 1, "x"),
    ]  # fmt: skip
    now = [
        (2, "a", 1.0, 12, "y"), (2, "a", 5.0, 11, "y"),  # the same rows
        (1, "a", 3.0, 99, "x"),  # rated once more
        (3, "a", 2.0, 1, "x"),  # was null
        (4, "a", 2.0, 1, "x"), (4, "a", 2.0, 1, "x"),  # twice by now
        (None, "a", 1.0, 1, "x"),
        (5, "a", 2.0, 1, "x"), (5, "b", 2.0, 1, "x"),
    ]  # fmt: skip
    frames = [spark.createDataFrame(rows, COLUMNS) for rows in (before, now)]
    assert pairs_since(*frames) == News(new=2, changed=3, gone=1)
    assert pairs_since(*reversed(frames)) == News(new=1, changed=3, gone=2)
    assert pairs_since(frames[0], frames[0].orderBy("timestamp")) == News(0, 0, 0)


@pytest.mark.parametrize("lacking", sorted(COMPARED))
def test_a_record_of_an_earlier_version_is_not_compared_with(lacking: str) -> None:
    record = dict.fromkeys(COMPARED, "retrain")
    assert tells_enough(record, "retrain")
    assert not tells_enough(record, "tune")
    assert not tells_enough({name: value for name, value in record.items() if name != lacking}, "retrain")


@pytest.mark.job
@pytest.mark.usefixtures("spark")
def test_a_night_without_news_leaves_the_run_that_is_served(nightly: dict[str, object], tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert run_retrain({**nightly, "run.run_date": "2026-11-20"}).code == 0
    first = run_directory(output)

    quiet = run_retrain({**nightly, "run.run_date": "2026-11-21"})

    assert quiet.code == 0, quiet
    assert run_directory(output) == first
    assert names_in(output) == {"CURRENT", first.name, "skipped"}
    (skipped,) = (output / "skipped").iterdir()
    record, served = record_of(skipped), record_of(first)
    assert (record["status"], record["exit_code"], record["run_date"]) == ("skipped", 0, "2026-11-21")
    assert record["unchanged_since"] == served["run_id"]
    assert record["data_fingerprint"] == served["data_fingerprint"]
    assert "fit" not in record["timings"]
    assert f"as in run {served['run_id']}, which stays" in " ".join(quiet.printed.split())
    metrics = (tmp_path / "night.prom").read_text()
    assert 'dcrec_run_published{job="retrain",name="dcrec"} 0.0' in metrics
    assert 'dcrec_run_exit_code{job="retrain",name="dcrec"} 0.0' in metrics


@pytest.mark.job
@pytest.mark.usefixtures("spark")
def test_other_ratings_other_settings_or_no_such_wish_make_a_run(nightly: dict[str, object], tmp_path: Path) -> None:
    output = tmp_path / "out"
    nights = [
        {},
        {"recommend.top_n": 3},  # the model is the same, and the lists are not
        {"recommend.top_n": 3, "input.unchanged": "run"},
        {"recommend.top_n": 3, "input.unchanged": "run"},
        {"recommend.top_n": 3},
    ]
    runs = []
    for settings in nights:
        assert run_retrain({**nightly, **settings}).code == 0
        runs.append(run_directory(output).name)
    with (tmp_path / "ratings.csv").open("a", encoding="utf-8") as ratings:
        ratings.write("\n0,3,5")
    assert run_retrain({**nightly, **nights[-1]}).code == 0
    runs.append(run_directory(output).name)
    assert len(set(runs)) == len(runs)
    assert not (output / "skipped").exists()


def test_lists_of_more_than_the_ratings_are_never_skipped(nightly: dict[str, object], tmp_path: Path) -> None:
    refused = run_retrain({**nightly, "recommend.exclude": tmp_path / "blocked.csv"})
    assert refused.code == 2
    assert "input.unchanged run where recommend.exclude is set" in refused.message
