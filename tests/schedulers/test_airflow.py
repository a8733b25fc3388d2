"""The DAG of examples/airflow, loaded and run by a real Airflow, in the environment that make test-schedulers makes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jobs.job import SMALL, names_in, record_of, run_directory
from tests.spark.standalone import ROOT

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1200)]

DAG = "dcrec_nightly"
PAST = "2026-01-05"
PAIRS = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},item {item},{1 + (user * item) % 5}" for user, item in PAIRS)]
# Notes what it is given, and ends with the first code of a file, or by a signal where that is negative.
STAND_IN = """#!/bin/sh
echo "$*" >> {folder}/calls
code=$(head -1 {folder}/codes)
sed -i 1d {folder}/codes
[ "$code" -lt 0 ] && kill "$code" $$
exit "$code"
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow whose database is ready."""
    home = tmp_path_factory.mktemp("airflow")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    environment = {
        **kept,
        "PATH": f"{os.environ['DCREC_SCHEDULERS']}/bin:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "DCREC_RETRY_SECONDS": "1",
    }
    ready = run(environment, "db", "migrate")
    assert ready.returncode == 0, ready.stderr
    return environment


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Airflow's."""
    return subprocess.run(
        ["airflow", *words], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def table(environment: dict[str, str], of: str) -> list[dict[str, Any]]:
    """A table of DAGs as Airflow lists it, after lines of its log."""
    listed = run(environment, "dags", of, "--local", "--output", "json")
    assert listed.returncode == 0, listed.stdout
    (line,) = (line for line in listed.stdout.splitlines() if line.startswith("["))
    rows: list[dict[str, Any]] = json.loads(line)
    return rows


def night(environment: dict[str, str], command: str, day: str = PAST) -> subprocess.CompletedProcess[str]:
    """The DAG's run for a day."""
    return run({**environment, "DCREC_COMMAND": command}, "dags", "test", DAG, day)


def test_airflow_loads_the_dag(airflow: dict[str, str]) -> None:
    assert table(airflow, "list-import-errors") == []
    assert [dag["dag_id"] for dag in table(airflow, "list")] == [DAG]


def test_a_past_day_is_backfilled_and_a_repeated_one_replaces_itself(airflow: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    sections: dict[str, dict[str, Any]] = {
        "input": {"format": "csv", "path": f"{tmp_path}/ratings.csv"},
        "output": {"path": f"{tmp_path}/out"},
    }
    for name, value in SMALL.items():
        section, _, setting = name.partition(".")
        sections.setdefault(section, {})[setting] = value
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    command = f"env PYTHONPATH={ROOT} {sys.executable} {ROOT}/jobs/retrain.py --config {tmp_path}/nightly.yaml"

    runs = []
    for _ in range(2):
        done = night(airflow, command)
        assert done.returncode == 0, done.stdout + done.stderr
        directory = run_directory(tmp_path / "out")
        runs.append(directory.name)
        assert record_of(directory)["run_date"] == PAST

    assert runs[0] != runs[1]
    assert names_in(tmp_path / "out") == {"CURRENT", *runs}


@pytest.mark.parametrize(
    ("codes", "tried", "succeeds"),
    [
        ([6, 7, 0], 3, True),  # interrupted, a full disk, done
        ([-9, 0], 2, True),  # killed
        ([1, 1, 0], 2, False),  # unexpected: once
        ([4, 0], 1, False),  # the audit
        ([5, 0], 1, False),  # another publisher
    ],
    ids=str,
)
def test_only_what_may_end_better_is_tried_again(
    codes: list[int], tried: int, succeeds: bool, airflow: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
    stand_in = tmp_path / "dcrec"
    stand_in.write_text(STAND_IN.format(folder=tmp_path))
    stand_in.chmod(0o755)

    done = night(airflow, f"{stand_in} retrain")

    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"retrain --set run.run_date={PAST}"] * tried, done.stdout + done.stderr
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
