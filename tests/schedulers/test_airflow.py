"""The DAG of examples/airflow, by a real Airflow in the environment that make test-all makes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.commands import HOW_TO, blocks_of
from tests.jobs.job import in_sections, names_in, record_of, run_directory, small_job
from tests.spark.standalone import ROOT, finished

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1200)]

DAG, PAST = "dcrec_nightly", "2026-01-05"
# Notes what it is given, and ends with the first code of a file, or by a signal where that is negative.
STAND_IN = """#!/bin/sh
echo "$*" >> {folder}/calls
code=$(head -1 {folder}/codes)
sed -i 1d {folder}/codes
[ "$code" -lt 0 ] && kill "$code" $$
exit "$code"
"""


class Airflow:
    """Commands of an Airflow whose database is ready."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
        self.environment = {
            **kept,
            "PATH": f"{os.environ['DCREC_SCHEDULERS']}/bin:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "DCREC_RETRY_SECONDS": "1",
        }
        ready = self.run("db", "migrate")
        assert ready.returncode == 0, ready.stderr

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return finished("airflow", *words, env={**self.environment, **variables})

    def table(self, *words: str) -> list[dict[str, Any]]:
        """What Airflow lists, after lines of its log."""
        listed = self.run(*words, "--output", "json")
        assert listed.returncode == 0, listed.stdout
        (line,) = (line for line in listed.stdout.splitlines() if line.startswith("["))
        return list(json.loads(line))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    return Airflow(tmp_path_factory.mktemp("airflow"))


def one_day(airflow: Airflow, command: str) -> subprocess.CompletedProcess[str]:
    return airflow.run("dags", "test", DAG, PAST, DCREC_COMMAND=command)


def test_airflow_loads_the_dag(airflow: Airflow) -> None:
    assert airflow.table("dags", "list-import-errors", "--local") == []
    assert [dag["dag_id"] for dag in airflow.table("dags", "list", "--local")] == [DAG]


def test_a_past_day_is_run_and_a_repeated_one_replaces_itself(airflow: Airflow, tmp_path: Path) -> None:
    settings = yaml.safe_dump(in_sections(small_job(tmp_path, 20, 15, "item ")))
    (tmp_path / "nightly.yaml").write_text(settings, encoding="utf-8")
    program = f"{sys.executable} {ROOT}/jobs/retrain.py --config {tmp_path}/nightly.yaml"

    runs = []
    for _ in range(2):
        done = one_day(airflow, f"env PYTHONPATH={ROOT} {program}")
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
    codes: list[int], tried: int, succeeds: bool, airflow: Airflow, tmp_path: Path
) -> None:
    (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
    stand_in = tmp_path / "dcrec"
    stand_in.write_text(STAND_IN.format(folder=tmp_path))
    stand_in.chmod(0o755)

    done = one_day(airflow, f"{stand_in} retrain")

    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"retrain --set run.run_date={PAST}"] * tried, done.stdout + done.stderr
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr


def test_the_commands_of_the_page_name_the_days_of_a_backfill(airflow: Airflow) -> None:
    """Airflow says which runs it would make; without a scheduler it makes none."""
    assert airflow.run("dags", "reserialize").returncode == 0
    unpause, *backfills = blocks_of(HOW_TO / "schedule.md", "Airflow", "bash")[1].splitlines()
    assert airflow.run(*unpause.split()[1:]).returncode == 0
    days = []
    for command in backfills:
        planned = airflow.run(*command.split()[1:], "--dry-run")
        assert planned.returncode == 0, planned.stdout + planned.stderr
        days.append(re.findall(r"^\| (\S+) 02:15:00", planned.stdout, re.MULTILINE))
    assert days == [[PAST, "2026-01-06"], [PAST]]
