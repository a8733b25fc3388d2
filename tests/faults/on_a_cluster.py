"""The main job on executors of its own, undisturbed and disturbed, each run into a directory of its own.

    python -m tests.faults.on_a_cluster FOLDER '{"spark.property": "value"}' one-run another-run ...

FOLDER holds the ratings; each run leaves its tables in FOLDER/<run>, and the last line of standard output says what
happened to it.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from dcrec_spark.jobs.console import Reporter
from dcrec_spark.publish import parquet
from dcrec_spark.spark.session import build_session
from tests.faults.orders import VARIABLE, Orders
from tests.faults.slow_tables import slowly
from tests.jobs.job import SMALL, run_retrain

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

    at_once: tuple[Order, ...] = ()
    after: Mapping[tuple[str, int], Order] = field(default_factory=dict)
    killed_writing: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


EXECUTOR_DIES: Order = ("update", "executor", 1)
WORKER_DIES: Order = ("update", "worker", 1)
FAULTS: dict[str, Fault] = {
    "undisturbed": Fault(),
    "executor-in-stage-1": Fault(after={("exposure", LATE): EXECUTOR_DIES}),
    "executor-in-stage-2": Fault(after={("outcome", LATE): EXECUTOR_DIES}),
    "executor-while-ranking": Fault(at_once=(("rank", "executor", 1),)),
    "executor-while-staging": Fault(killed_writing="recommendations"),
    "executor-twice": Fault(after={("exposure", LATE): EXECUTOR_DIES, ("outcome", LATE): EXECUTOR_DIES}),
    "executor-and-no-checkpoints": Fault(
        after={("outcome", LATE): EXECUTOR_DIES}, settings={"engine.checkpoint_interval": 100}
    ),
    "worker": Fault((("rank", "worker", 1),), after={("exposure", 2): WORKER_DIES, ("outcome", 2): WORKER_DIES}),
    "task-on-its-first-attempts": Fault(at_once=(("rank", "task", 3),), after={("outcome", 2): ("update", "task", 3)}),
    "slow-tasks": Fault(at_once=(("rank", "stall", 1),), after={("outcome", 2): ("update", "stall", 1)}),
}  # fmt: skip


def executors(spark: SparkSession) -> set[int]:
    asked = spark.range(8, numPartitions=8).selectExpr("java_method('java.lang.ProcessHandle', 'current') as pid")
    return {int(row.pid) for row in asked.collect()}


def both_executors(spark: SparkSession, seconds: float = 60) -> set[int]:
    deadline = time.monotonic() + seconds
    while len(found := executors(spark)) < 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"executors: {found}")
        time.sleep(0.2)
    return found


def ordering(fault: Fault, orders: Orders) -> Callable[..., Any]:
    """Make a listener of a run's iterations that places the orders which are due after them."""
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
    """Kill the first of the processes that has a file open whose path holds ``part``."""
    while not stop.wait(0.01):
        for process in processes:
            if any(part in name and ".parquet" in name for name in open_files_of(process)):
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                return


def open_files_of(process: int) -> list[str]:
    """Paths of what a process has open; none when it is gone."""
    names = []
    with suppress(OSError):  # closed, or ended, while it was looked at
        for link in Path(f"/proc/{process}/fd").iterdir():
            names.append(os.readlink(link))
    return names


def run(name: str, folder: Path, spark: SparkSession, orders: Orders) -> dict[str, Any]:
    fault, before, killed, stop = FAULTS[name], both_executors(spark), list[int](), Event()
    done, calls = orders.carried_out(), counted(orders)
    for order in fault.at_once:
        orders.place(*order)
    settings = {
        **SETTINGS,
        **fault.settings,
        "input.path": folder / "ratings.csv",
        "output.path": folder / name,
        "spark.checkpoint_dir": folder / "checkpoints",
    }
    writer = Thread(target=kill_the_writer, args=(before, f"/{fault.killed_writing}/", stop, killed))
    begun = time.monotonic()
    with mock.patch.object(Reporter, "listener", ordering(fault, orders)):
        if fault.killed_writing is None:
            outcome = run_retrain(settings)
        else:
            with mock.patch.object(parquet, "write_table", slowly(fault.killed_writing)):
                writer.start()
                outcome = run_retrain(settings)
                stop.set()
                writer.join()
    seconds = time.monotonic() - begun
    now_done, now_calls = orders.carried_out(), counted(orders)
    for order_done in done:
        now_done.remove(order_done)
    return {
        "code": outcome.code,
        "message": outcome.message,
        "seconds": round(seconds, 1),
        "carried_out": now_done,
        "left": orders.open(),
        "killed_writing": killed,
        "lost": sorted(before - both_executors(spark)),
        "updates": now_calls - calls,
    }


def counted(orders: Orders) -> int:
    return sum(file.stat().st_size for file in (orders.folder / "calls").glob("update.*"))


def main(folder: Path, names: list[str], conf: Mapping[str, str]) -> None:
    orders = Orders(folder / "orders")
    spark = build_session(
        "faults",
        conf.get("spark.master", "local-cluster[2,1,1024]"),
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.python.daemon.module": "tests.faults.daemon",
            f"spark.executorEnv.{VARIABLE}": str(orders.folder),
            **conf,
        },
    )
    told = {name: run(name, folder, spark, orders) for name in names}
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3:], json.loads(sys.argv[2]))
