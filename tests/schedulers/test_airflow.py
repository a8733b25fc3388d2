"""The DAG of examples/airflow, by a real Airflow in the environment that make test-all makes; and a backfill."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.publish.current import current_run
from tests.clusters.commands import HOW_TO, blocks_of
from tests.jobs.job import names_in, read_table, record_of, run_directory
from tests.schedulers.airflow_home import DAG, Airflow, job_command
from tests.spark.standalone import wait_for

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1200)]

PAST = "2026-01-05"
DAYS = [PAST, "2026-01-06"]
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


def one_day(airflow: Airflow, command: str) -> subprocess.CompletedProcess[str]:
    return airflow.run("dags", "test", DAG, PAST, DCREC_COMMAND=command)


def test_a_past_day_is_run_and_a_repeated_one_replaces_itself(airflow: Airflow, tmp_path: Path) -> None:
    command = job_command(tmp_path)

    runs = []
    for _ in range(2):
        done = one_day(airflow, command)
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


def backfilled(airflow: Airflow, command: str) -> None:
    """Create a backfill; Airflow takes one at a time of a DAG, and notes a while later that one is done."""

    def is_created() -> bool:
        made = airflow.run_program(["bash", "-euc", command])
        assert made.returncode == 0 or "Another backfill is running" in made.stdout + made.stderr, made
        return made.returncode == 0

    wait_for(is_created, airflow.logs, 300, pause=2)


def ended(airflow: Airflow, published: int, output: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []

    def are_over() -> bool:
        runs[:] = airflow.table("dags", "list-runs", DAG)
        states = {run["state"] for run in runs}
        assert states <= {"queued", "running", "success"}, airflow.logs()
        return states == {"success"} and len(published_days(output)) == published

    wait_for(are_over, airflow.logs, 400, pause=1)
    return sorted(runs, key=lambda run: str(run["end_date"]))


def published_days(output: Path) -> list[str]:
    records = [record_of(run) for run in output.glob("run_id=*")]
    return [record["run_date"] for record in sorted(records, key=lambda record: str(record["started_at"]))]


def test_past_days_are_published_in_order_and_one_that_is_backfilled_again_replaces_itself(tmp_path: Path) -> None:
    output, airflow = tmp_path / "out", Airflow(tmp_path / "airflow")
    unpause, backfill, again = blocks_of(HOW_TO / "schedule.md", "Airflow", "bash")[1].splitlines()
    with airflow.carrying_out(job_command(tmp_path)):
        wait_for(lambda: airflow.table("dags", "list"), airflow.logs, 120, pause=1)
        assert airflow.run_program(["bash", "-euc", unpause]).returncode == 0
        (scheduled,) = ended(airflow, 1, output)  # a DAG in service has had its last run
        last_day = str(scheduled["logical_date"])[:10]

        backfilled(airflow, backfill)
        runs = ended(airflow, 3, output)
        assert [str(run["logical_date"])[:10] for run in runs] == [last_day, *DAYS]
        assert runs[1]["end_date"] <= runs[2]["start_date"]
        assert published_days(output) == [last_day, *DAYS]
        assert current_run(str(output)).record["run_date"] == DAYS[-1]

        backfilled(airflow, again)
        runs = ended(airflow, 4, output)
        assert len(runs) == 3  # Airflow's run of the day is the one of before
        assert published_days(output) == [last_day, *DAYS, DAYS[0]]
        replaced = current_run(str(output))
        assert replaced.record["run_date"] == DAYS[0]
        lists = read_table(output / f"run_id={replaced.record['run_id']}", "recommendations")
        assert set(lists["run_date"].astype(str)) == {DAYS[0]}
        assert set(lists["run_id"]) == {replaced.record["run_id"]}
