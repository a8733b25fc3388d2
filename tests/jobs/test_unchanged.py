"""Runs whose input has not changed: skipped or fitted, as input.unchanged says."""

from pathlib import Path

import pytest

from dcrec_spark.jobs.retrain import _COMPARED, is_comparable
from tests.jobs.job import SMALL, names_in, record_of, run_directory, run_retrain

PAIRS = [(user, item) for user in range(12) for item in range(10) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},{item},{1 + (user * item) % 5}" for user, item in PAIRS)]


@pytest.fixture
def nightly(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    return {
        **SMALL,
        "input.format": "csv",
        "input.path": tmp_path / "ratings.csv",
        "input.unchanged": "skip",
        "output.path": tmp_path / "out",
        "run.metrics_file": tmp_path / "run.prom",
    }


def test_a_record_of_another_job_or_version_is_not_compared_with() -> None:
    record = dict.fromkeys(_COMPARED, "retrain")
    assert is_comparable(record, "retrain")
    assert not is_comparable(record, "tune")
    assert not is_comparable({name: value for name, value in record.items() if name != "input_snapshot"}, "retrain")


@pytest.mark.job
@pytest.mark.usefixtures("spark")
def test_a_run_without_new_ratings_leaves_the_published_run(nightly: dict[str, object], tmp_path: Path) -> None:
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
    metrics = (tmp_path / "run.prom").read_text()
    assert 'dcrec_run_published{job="retrain",name="dcrec"} 0.0' in metrics
    assert 'dcrec_run_exit_code{job="retrain",name="dcrec"} 0.0' in metrics


@pytest.mark.job
@pytest.mark.usefixtures("spark")
def test_other_ratings_or_settings_make_a_run(nightly: dict[str, object], tmp_path: Path) -> None:
    runs = set()
    # The second model is the same, and its lists are not; before the last run comes a rating.
    for more in ({}, {"recommend.top_n": 3}, {"recommend.top_n": 3, "input.unchanged": "run"}, {"recommend.top_n": 3}):
        if len(runs) == 3:
            (tmp_path / "ratings.csv").write_text("\n".join([*RATINGS, "0,3,5"]), encoding="utf-8")
        assert run_retrain({**nightly, **more}).code == 0
        runs.add(run_directory(tmp_path / "out").name)
    assert len(runs) == 4
    assert not (tmp_path / "out" / "skipped").exists()
