"""A backfill of past days, by the how-to page's command, carried out by a real Airflow: scheduler, server and all."""

import time
from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.publish.current import current_run
from tests.clusters.commands import HOW_TO, blocks_of
from tests.jobs.job import read_table, record_of
from tests.schedulers.airflow_home import DAG, Airflow, real_night

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(1200)]

DAYS = ["2026-01-05", "2026-01-06"]


def backfilled(airflow: Airflow, command: str) -> None:
    """Create a backfill; Airflow takes one at a time of a DAG, and notes a while later that one is done."""
    deadline = time.monotonic() + 300
    while (made := airflow.run_program(["bash", "-euc", command])).returncode != 0:
        assert "Another backfill is running" in made.stdout + made.stderr, made.stdout + made.stderr
        assert time.monotonic() < deadline, airflow.logs()
        time.sleep(2)


def ended(airflow: Airflow, published: int, output: Path) -> list[dict[str, Any]]:
    """Wait until as many runs are published and Airflow's are over; all of Airflow's, in the order of their ends."""
    deadline = time.monotonic() + 400
    while True:
        runs = airflow.table("dags", "list-runs", DAG)
        states = {run["state"] for run in runs}
        assert states <= {"queued", "running", "success"}, airflow.logs()
        if states == {"success"} and len(published_days(output)) == published:
            return sorted(runs, key=lambda run: str(run["end_date"]))
        assert time.monotonic() < deadline, airflow.logs()
        time.sleep(1)


def published_days(output: Path) -> list[str]:
    records = [record_of(run) for run in output.glob("run_id=*")]
    return [record["run_date"] for record in sorted(records, key=lambda record: str(record["started_at"]))]


def test_past_days_are_published_in_order_and_one_that_is_backfilled_again_replaces_itself(tmp_path: Path) -> None:
    output, airflow = tmp_path / "out", Airflow(tmp_path / "airflow")
    unpause, backfill, again = blocks_of(HOW_TO / "schedule.md", "Airflow", "bash")[1].splitlines()
    with airflow.carrying_out(real_night(tmp_path)):
        until_listed(airflow)
        assert airflow.run_program(["bash", "-euc", unpause]).returncode == 0
        (scheduled,) = ended(airflow, 1, output)  # a DAG in service has had its last night
        last_night = str(scheduled["logical_date"])[:10]

        backfilled(airflow, backfill)
        runs = ended(airflow, 3, output)
        assert [str(run["logical_date"])[:10] for run in runs] == [last_night, *DAYS]
        assert runs[1]["end_date"] <= runs[2]["start_date"]
        assert published_days(output) == [last_night, *DAYS]
        current = current_run(str(output))
        assert current.record["run_date"] == DAYS[-1]

        backfilled(airflow, again)
        runs = ended(airflow, 4, output)
        assert len(runs) == 3  # Airflow's run of the day is the one of before
        assert published_days(output) == [last_night, *DAYS, DAYS[0]]
        replaced = current_run(str(output))
        assert replaced.record["run_date"] == DAYS[0]
        lists = read_table(output / f"run_id={replaced.record['run_id']}", "recommendations")
        assert set(lists["run_date"].astype(str)) == {DAYS[0]}
        assert set(lists["run_id"]) == {replaced.record["run_id"]}


def until_listed(airflow: Airflow) -> None:
    deadline = time.monotonic() + 120
    while not airflow.table("dags", "list"):
        assert time.monotonic() < deadline, airflow.logs()
        time.sleep(1)
