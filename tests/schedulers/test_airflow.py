"""The DAG of examples/airflow, loaded and run by a real Airflow, in the environment that make test-all makes."""

import subprocess
from pathlib import Path

import pytest

from tests.jobs.job import names_in, record_of, run_directory
from tests.schedulers.airflow_home import DAG, Airflow, real_night

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1200)]

PAST = "2026-01-05"
# Notes what it is given, and ends with the first code of a file, or by a signal where that is negative.
STAND_IN = """#!/bin/sh
echo "$*" >> {folder}/calls
code=$(head -1 {folder}/codes)
sed -i 1d {folder}/codes
[ "$code" -lt 0 ] && kill "$code" $$
exit "$code"
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    return Airflow(tmp_path_factory.mktemp("airflow"))


def night(airflow: Airflow, command: str) -> subprocess.CompletedProcess[str]:
    return airflow.run("dags", "test", DAG, PAST, DCREC_COMMAND=command)


def test_airflow_loads_the_dag(airflow: Airflow) -> None:
    assert airflow.table("dags", "list-import-errors", "--local") == []
    assert [dag["dag_id"] for dag in airflow.table("dags", "list", "--local")] == [DAG]


def test_a_past_day_is_run_and_a_repeated_one_replaces_itself(airflow: Airflow, tmp_path: Path) -> None:
    command = real_night(tmp_path)

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
    codes: list[int], tried: int, succeeds: bool, airflow: Airflow, tmp_path: Path
) -> None:
    (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
    stand_in = tmp_path / "dcrec"
    stand_in.write_text(STAND_IN.format(folder=tmp_path))
    stand_in.chmod(0o755)

    done = night(airflow, f"{stand_in} retrain")

    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"retrain --set run.run_date={PAST}"] * tried, done.stdout + done.stderr
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
