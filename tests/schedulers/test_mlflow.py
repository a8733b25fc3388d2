"""A run told to a real MLflow, in a file of SQLite: what is there afterwards."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.job import SMALL, record_of, run_directory
from tests.spark.standalone import ROOT

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(600)]

PAIRS = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},item {item},{1 + (user * item) % 5}" for user, item in PAIRS)]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """A file of them."""
    file = tmp_path / "ratings.csv"
    file.write_text("\n".join(RATINGS), encoding="utf-8")
    return file


def retrain(ratings: Path, address: str) -> subprocess.CompletedProcess[str]:
    """The job, with MLflow beside the packages that it has."""
    settings = {
        **SMALL,
        "input.format": "csv",
        "input.path": ratings,
        "output.path": ratings.parent / "out",
        "run.mlflow_uri": address,
    }
    overrides = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, ROOT / "jobs" / "retrain.py", *overrides],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ['DCREC_SCHEDULERS']}/mlflow"},
        cwd=ratings.parent,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_a_run_is_in_mlflow_with_its_settings_and_figures(ratings: Path) -> None:
    file = ratings.parent / "mlflow.db"
    done = retrain(ratings, f"sqlite:///{file}")

    assert done.returncode == 0, done.stderr
    record = record_of(run_directory(ratings.parent / "out"))
    assert record["warnings"] == [] or not any("MLflow" in warning for warning in record["warnings"])
    with sqlite3.connect(file) as database:
        ((name, status),) = database.execute("select name, status from runs").fetchall()
        params = dict(database.execute("select key, value from params").fetchall())
        history = database.execute("select value from metrics where key = 'objective/outcome' order by step").fetchall()
        counts = dict(database.execute("select key, value from metrics where key like 'count/%'").fetchall())
    assert (name, status) == (record["run_id"], "FINISHED")
    assert params["outcome.rank"] == str(SMALL["outcome.rank"])
    assert [value for (value,) in history] == pytest.approx(record["objectives"]["outcome"])
    assert counts["count/users"] == 20


def test_a_server_that_is_away_costs_a_warning_and_not_the_run(ratings: Path) -> None:
    done = retrain(ratings, "http://bob:hunter2@127.0.0.1:9")

    assert done.returncode == 0, done.stderr
    (warning,) = (w for w in record_of(run_directory(ratings.parent / "out"))["warnings"] if "MLflow" in w)
    assert "run.mlflow_uri" in warning
    assert "hunter2" not in warning + done.stderr + done.stdout
