"""Executors and Python workers that die, tasks that fail or crawl: the published tables are those of a quiet run."""

import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.jobs.console import Reporter
from dcrec_spark.publish import parquet
from dcrec_spark.spark.session import build_session
from tests.faults.orders import VARIABLE, Orders
from tests.faults.test_driver import slowly
from tests.jobs.job import SMALL, names_in, read_table, run_directory, run_retrain
from tests.spark.standalone import environment, spark_home, standalone_cluster, tell, told, wait_for

pytestmark = pytest.mark.cluster

# The sweep after which executors die: the last checkpoint is one sweep old.
LATE = 7
# Both sides stay on the executors, so that each of them holds what the next half-step needs.
SETTINGS: dict[str, object] = {
    **SMALL,
    "input.format": "csv",
    "recommend.top_n": 3,
    "engine.exchange": "blocks",
    "engine.num_blocks": 2,
    "engine.checkpoint_interval": 2,
    # Far more sweeps than from one checkpoint to the next, so that it shows what would be lost without.
    "exposure.max_iter": LATE + 1,
    "outcome.max_iter": LATE + 1,
}

Order = tuple[str, str, int]


@dataclass(frozen=True)
class Fault:
    """What is ordered before a run, and after iterations of a stage; who dies while it writes a table; and settings."""

    at_once: Order | None = None
    after: Mapping[tuple[str, int], Order] = field(default_factory=dict)
    killed_writing: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)

    def orders(self) -> list[str]:
        given = [*filter(None, [self.at_once]), *self.after.values()]
        return sorted(f"{step}.{action}" for step, action, times in given for _ in range(times))


NO_CHECKPOINTS = "executor-and-no-checkpoints"
STAGE_1, STAGE_2 = {("exposure", LATE): ("update", "executor", 1)}, {("outcome", LATE): ("update", "executor", 1)}
WORKERS = {("exposure", 2): ("update", "worker", 1), ("outcome", 2): ("update", "worker", 1)}
FAULTS: dict[str, Fault] = {
    "undisturbed": Fault(),
    "executor-in-stage-1": Fault(after=STAGE_1),
    "executor-in-stage-2": Fault(after=STAGE_2),
    "executor-while-ranking": Fault(("rank", "executor", 1)),
    "executor-while-staging": Fault(killed_writing="recommendations"),
    "executor-twice": Fault(after={**STAGE_1, **STAGE_2}),
    NO_CHECKPOINTS: Fault(after=STAGE_2, settings={"engine.checkpoint_interval": 100}),
    "worker": Fault(("rank", "worker", 1), WORKERS),
    "task-on-its-first-attempts": Fault(("rank", "task", 3), {("outcome", 2): ("update", "task", 3)}),
    "slow-tasks": Fault(("rank", "stall", 1), {("outcome", 2): ("update", "stall", 1)}),
}
RATINGS = [f"{u},item {i},{1 + (u * i) % 5}" for u in range(60) for i in range(40) if (7 * u + 11 * i + u * i) % 4 == 0]
USERS = len({line.partition(",")[0] for line in RATINGS})
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
EXECUTOR_DIED = [param for param in DISTURBED if re.match("executor-(?!and-no)", str(param.values[0]))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("faults")
    (made / "ratings.csv").write_text("\n".join(["user,item,rating", *RATINGS]))
    return made


def runs_told(folder: Path, conf: Mapping[str, str], *names: str) -> dict[str, Any]:
    home = spark_home(folder)
    return told(__name__, folder, json.dumps(conf), *names, environment=environment(home), folder=folder, seconds=1700)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """One session for all that tests ask for, except that of speculation: what happened in each run."""
    asked = {item.callspec.params.get("run") for item in request.session.items if hasattr(item, "callspec")}
    return runs_told(folder, {}, *(name for name in FAULTS if name == "undisturbed" or name in asked))


@pytest.fixture(scope="module")
def speculation(folder: Path, runs: dict[str, Any]) -> dict[str, Any]:
    """A session that starts slow tasks a second time: on another host, so that there have to be two."""
    eager = {"interval": "50ms", "multiplier": "1.5", "quantile": "0.3", "minTaskRuntime": "500ms"}
    conf = {"spark.speculation": "true", **{f"spark.speculation.{name}": value for name, value in eager.items()}}
    with standalone_cluster(spark_home(folder), "127.0.0.1", "127.0.0.2") as master:
        conf |= {"spark.master": master, "spark.driver.host": "127.0.0.1"}
        return {**runs, **runs_told(folder, conf, "slow-tasks")}


def same_tables(folder: Path, run: str) -> None:
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
def test_a_disturbed_run_publishes_the_tables_of_a_quiet_one(run: str, folder: Path, runs: dict[str, Any]) -> None:
    assert runs[run]["code"] == 0, runs[run]
    assert runs[run]["left"] == []
    same_tables(folder, run)


def test_the_faults_have_happened(runs: dict[str, Any]) -> None:
    for name, run in runs.items():
        assert run["carried_out"] == FAULTS[name].orders(), name
        assert len(run["killed_writing"]) == (FAULTS[name].killed_writing is not None), name
        assert bool(run["lost"]) == name.startswith("executor"), name


# Updates of blocks since the last checkpoint, and those of the half-step that was under way on all blocks.
BLOCKS = 4
AT_MOST_LOST = BLOCKS * int(str(SETTINGS["engine.checkpoint_interval"])) + BLOCKS


def done_again(run: str, runs: dict[str, Any]) -> int:
    return int(runs[run]["updates"] - runs["undisturbed"]["updates"])


@pytest.mark.parametrize("run", EXECUTOR_DIED)
def test_what_a_lost_executor_costs_is_bounded_by_the_checkpoint_interval(run: str, runs: dict[str, Any]) -> None:
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
    assert run["carried_out"] == FAULTS["slow-tasks"].orders()
    assert run["updates"] > speculation["undisturbed"]["updates"]  # by the copies that overtook
    same_tables(folder, "slow-tasks")


def both_executors(spark: SparkSession) -> set[int]:
    pid, found = "java_method('java.lang.ProcessHandle', 'current') as pid", set[int]()

    def are_there() -> bool:
        nonlocal found
        found = {int(row.pid) for row in spark.range(8, numPartitions=8).selectExpr(pid).collect()}
        return len(found) == 2

    wait_for(are_there, lambda: f"executors: {found}")
    return found


def ordering(fault: Fault, orders: Orders) -> Callable[..., Any]:
    listener = Reporter.listener

    def listening(reporter: Reporter, totals: dict[str, int]) -> Any:
        report = listener(reporter, totals)

        def listen(stage: str, number: int, objective: float) -> None:
            report(stage, number, objective)
            if (stage, number) in fault.after:
                orders.place(*fault.after[stage, number])

        return listen

    return listening


def kill_the_writer(processes: set[int], part: str, stop: Event, killed: list[int]) -> None:
    while not stop.wait(0.01):
        for process in processes:
            with suppress(OSError):  # a file is closed, or the process ends, while it is looked at
                links = map(os.readlink, Path(f"/proc/{process}/fd").iterdir())
                if any(part in name and ".parquet" in name for name in links):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    return


def run(name: str, folder: Path, spark: SparkSession, orders: Orders) -> dict[str, Any]:
    fault, before, killed, stop = FAULTS[name], both_executors(spark), list[int](), Event()
    done, calls = Counter(orders.carried_out()), counted(orders)
    if fault.at_once:
        orders.place(*fault.at_once)
    settings = {
        **SETTINGS,
        **fault.settings,
        "input.path": folder / "ratings.csv",
        "output.path": folder / name,
        "spark.checkpoint_dir": folder / "checkpoints",
    }
    table = fault.killed_writing
    with ExitStack() as running:
        running.enter_context(mock.patch.object(Reporter, "listener", ordering(fault, orders)))
        if table is not None:
            running.enter_context(mock.patch.object(parquet, "write_table", slowly(table)))
            writer = Thread(target=kill_the_writer, args=(before, f"/{table}/", stop, killed))
            writer.start()
            running.callback(writer.join)
            running.callback(stop.set)
        outcome = run_retrain(settings, code=None)
    carried_out = Counter(orders.carried_out()) - done
    return {
        "code": outcome.code,
        "message": outcome.message,
        "carried_out": sorted(carried_out.elements()),
        "left": orders.open(),
        "killed_writing": killed,
        "lost": sorted(before - both_executors(spark)),
        "updates": counted(orders) - calls,
    }


def counted(orders: Orders) -> int:
    return sum(file.stat().st_size for file in (orders.folder / "calls").glob("update.*"))


def run_all(folder: Path, conf: Mapping[str, str], *names: str) -> dict[str, Any]:
    orders = Orders(folder / "orders")
    common = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.python.daemon.module": "tests.faults.daemon",
        f"spark.executorEnv.{VARIABLE}": str(orders.folder),
    }
    spark = build_session("faults", conf.get("spark.master", "local-cluster[2,1,1024]"), {**common, **conf})
    return {name: run(name, folder, spark, orders) for name in names}


if __name__ == "__main__":
    tell(run_all(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:]))
