"""Executors and Python workers that die, tasks that fail or crawl: the published tables are those of a quiet run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.faults.on_a_cluster import FAULTS, SETTINGS
from tests.jobs.job import names_in, read_table, run_directory
from tests.spark.standalone import daemon, environment, free_port, spark_home, wait_for_worker

pytestmark = pytest.mark.cluster

RATINGS = [
    "user,item,rating",
    *(f"{u},item {i},{1 + (u * i) % 5}" for u in range(60) for i in range(40) if (7 * u + 11 * i + u * i) % 4 == 0),
]
USERS = len({line.partition(",")[0] for line in RATINGS[1:]})
KEYS = {"recommendations": ["user_id", "rank"], "user_factors": ["id"], "item_factors": ["id"]}
# What tells a run from another one.
STAMP = ["run_id", "model_version", "run_date"]
# Each takes a minute or two: these are tried at every change, the others by make test-all.
AT_EVERY_CHANGE = {"executor-twice", "executor-while-staging"}
DISTURBED = [
    pytest.param(name, marks=[] if name in AT_EVERY_CHANGE else pytest.mark.long)
    for name in FAULTS
    if name not in ("undisturbed", "slow-tasks")
]
NO_CHECKPOINTS = "executor-and-no-checkpoints"
EXECUTOR_DIED = [
    param for param in DISTURBED if str(param.values[0]).startswith("executor") and param.values[0] != NO_CHECKPOINTS
]


def told(folder: Path, names: list[str], conf: dict[str, str]) -> dict[str, Any]:
    (folder / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-m", "tests.faults.on_a_cluster", folder, json.dumps(conf), *names],
        env=environment(spark_home(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-20_000:]
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """One session for all that tests ask for, except that of speculation: what happened in each run."""
    asked = {item.callspec.params.get("run") for item in request.session.items if hasattr(item, "callspec")}
    return told(folder, [name for name in FAULTS if name == "undisturbed" or name in asked], {})


@pytest.fixture(scope="module")
def speculation(folder: Path, runs: dict[str, Any]) -> dict[str, Any]:
    """A session that starts slow tasks a second time: on another host, so that there have to be two."""
    eager = {"interval": "50ms", "multiplier": "1.5", "quantile": "0.3", "minTaskRuntime": "500ms"}
    conf = {"spark.speculation": "true", **{f"spark.speculation.{name}": value for name, value in eager.items()}}
    with two_hosts(folder) as master:
        return {
            **runs,
            **told(folder, ["slow-tasks"], {"spark.master": master, "spark.driver.host": "127.0.0.1", **conf}),
        }


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    home, port = spark_home(folder), free_port()
    address = f"spark://127.0.0.1:{port}"
    of_worker = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", f"{folder}/work", address]
    with ExitStack() as running:
        on_master = ["--host", "127.0.0.1", "--port", f"{port}", "--webui-port", "0"]
        log = running.enter_context(daemon("Master", on_master, home))
        for number in (1, 2):
            options = ["--host", f"127.0.0.{number}", *of_worker]
            wait_for_worker(running.enter_context(daemon("Worker", options, home, number=number)), log)
        yield address


def same_tables(folder: Path, run: str) -> None:
    """The tables of a run are those of the undisturbed one, row by row, and its directory holds nothing else."""
    directory, undisturbed = run_directory(folder / run), run_directory(folder / "undisturbed")
    for table, keys in KEYS.items():
        found, expected = (
            read_table(place, table).drop(columns=STAMP, errors="ignore").sort_values(keys, ignore_index=True)
            for place in (directory, undisturbed)
        )
        assert not found.duplicated(keys).any(), table
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9, atol=1e-12, obj=table)
    assert len(read_table(directory, "recommendations")) == USERS * int(str(SETTINGS["recommend.top_n"]))
    assert len(read_table(directory, "runs")) == 1
    assert names_in(folder / run) == {"CURRENT", directory.name}


# The first test of a file waits for all runs.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", DISTURBED)
def test_a_disturbed_run_publishes_the_tables_of_an_undisturbed_one(
    run: str, folder: Path, runs: dict[str, Any]
) -> None:
    assert runs[run]["code"] == 0, runs[run]
    assert runs[run]["left"] == []
    same_tables(folder, run)


def test_the_faults_have_happened(runs: dict[str, Any]) -> None:
    expected: dict[str, tuple[list[str], int]] = {
        "undisturbed": ([], 0),
        "executor-in-stage-1": (["update.executor"], 0),
        "executor-in-stage-2": (["update.executor"], 0),
        "executor-while-ranking": (["rank.executor"], 0),
        "executor-while-staging": ([], 1),
        "executor-twice": (["update.executor"] * 2, 0),
        NO_CHECKPOINTS: (["update.executor"], 0),
        "worker": (["rank.worker", *["update.worker"] * 2], 0),
        "task-on-its-first-attempts": ([*["rank.task"] * 3, *["update.task"] * 3], 0),
    }
    for name, run in runs.items():
        assert (run["carried_out"], len(run["killed_writing"])) == expected[name], name
        assert bool(run["lost"]) == name.startswith("executor"), name


# Updates of blocks since the last checkpoint, and those of the half-step that was under way on all blocks.
BLOCKS = 4
AT_MOST_LOST = BLOCKS * int(str(SETTINGS["engine.checkpoint_interval"])) + BLOCKS


def done_again(run: str, runs: dict[str, Any]) -> int:
    """How many updates of blocks a run has made more than the undisturbed one."""
    again: int = runs[run]["updates"] - runs["undisturbed"]["updates"]
    return again


@pytest.mark.parametrize("run", EXECUTOR_DIED)
def test_what_a_lost_executor_costs_is_bounded_by_the_checkpoint_interval(run: str, runs: dict[str, Any]) -> None:
    """For each loss."""
    deaths = len(runs[run]["carried_out"]) + len(runs[run]["killed_writing"])
    assert done_again(run, runs) <= deaths * AT_MOST_LOST


@pytest.mark.long
@pytest.mark.parametrize("run", [NO_CHECKPOINTS])
def test_without_checkpoints_a_lost_executor_costs_more_than_it_may_with_them(run: str, runs: dict[str, Any]) -> None:
    """So the test before this one would fail if none were made."""
    assert done_again(run, runs) > AT_MOST_LOST


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_slow_task_that_is_started_twice_counts_once(folder: Path, speculation: dict[str, Any]) -> None:
    run = speculation["slow-tasks"]
    assert run["code"] == 0, run
    assert run["carried_out"] == ["rank.stall", "update.stall"]
    assert run["updates"] > speculation["undisturbed"]["updates"]  # by the copies that overtook
    same_tables(folder, "slow-tasks")
