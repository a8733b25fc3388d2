"""Repeated runs on data that grow, to find what else grows.

    python -m benchmarks.soak --runs 50                     all in one process, as a service would run them
    python -m benchmarks.soak --runs 50 --own-processes     each in a process of its own, as a scheduler does

A run is the job retrain with a warm start from the run before. After each run and garbage collection the process is
measured: memory, open files, blocks that Spark keeps (cached rows and broadcasts), cached frames, entries in the
temporary directories, and entries of the output other than runs.

``growth_of`` compares the runs after the warm-up, the last half of them with the half before, by medians.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark import SparkContext
from rich.console import Console

from benchmarks.measure import RESULTS, versions
from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.runner import run_job
from dcrec_spark.publish.current import current_run

USERS, ITEMS, NEW_USERS = 60, 40, 2
SETTINGS: dict[str, object] = {
    "input.format": "csv",
    "exposure.rank": 4,
    "exposure.max_iter": 5,
    "outcome.rank": 3,
    "outcome.max_iter": 3,
    "model.warm_start": "previous",
    "model.checkpoint_seconds": 1,
    "spark.master": "local[2]",
}
# What a run may add, by the median of many; memory is up to the operating system and the garbage collectors.
ALLOWED = {
    "python_mb": 2.0,
    "jvm_mb": 6.0,
    "jvm_heap_mb": 1.0,
    "open_files": 0.1,
    "jvm_open_files": 0.5,
    "spark_blocks": 0.1,
    "cached_frames": 0.0,
    "temporary_entries": 0.0,
    "leftovers": 0.0,
}
_ONE_RUN = """
import sys
from pathlib import Path
from benchmarks.soak import run_once

run_once(Path(sys.argv[1]), int(sys.argv[2]))
"""
_MB = 2**20
Look = dict[str, float]


def rated(number: int) -> list[tuple[int, int]]:
    """Pairs of a run: some more users than in the run before, and all of its pairs."""
    users = range(USERS + NEW_USERS * number)
    return [(user, item) for user in users for item in range(ITEMS) if (7 * user + 11 * item + user * item) % 5 < 2]


def write_ratings(path: Path, number: int) -> None:
    """Write the ratings of a run."""
    rows = [f"{user},{item},{1 + user * item % 5}" for user, item in rated(number)]
    path.write_text("\n".join(["user,item,rating", *rows]), encoding="utf-8")


def run_once(folder: Path, number: int) -> None:
    """Run the job once, in this process."""
    write_ratings(folder / "ratings.csv", number)
    places = {
        "input.path": folder / "ratings.csv",
        "output.path": folder / "out",
        "spark.conf": f"{{spark.local.dir: {folder}/tmp, spark.sql.shuffle.partitions: '2'}}",
    }
    overrides = [f"{name}={value}" for name, value in {**SETTINGS, **places}.items()]
    with Reporter(Console(quiet=True)) as reporter:
        run_job(Retrain(), load_config(RetrainConfig, None, overrides), reporter)


def look(folder: Path) -> Look:
    """What this process and its JVM hold after a run."""
    gc.collect()
    context = SparkContext._active_spark_context
    if context is None:
        raise RuntimeError("a run leaves its session open")
    jvm: Any = context._jvm
    blocks = jvm.org.apache.spark.SparkEnv.get().blockManager().blockInfoManager()
    wait_for_cleaning(jvm.System.gc, blocks.size)
    runtime = jvm.Runtime.getRuntime()
    process = int(context._gateway.proc.pid)
    return {
        "python_mb": resident_mb("self"),
        "jvm_mb": resident_mb(process),
        "jvm_heap_mb": (runtime.totalMemory() - runtime.freeMemory()) / _MB,
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
        "jvm_open_files": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "spark_blocks": blocks.size(),
        "cached_frames": context._jsc.getPersistentRDDs().size(),
        **left_in(folder),
    }


def wait_for_cleaning(collect: Callable[[], None], blocks: Callable[[], int], still: float = 1.0) -> None:
    """Wait until Spark's cleaner, which the garbage collector triggers, has released its blocks.

    The cleaner does not report its end. It is done when two collections in a row leave as many blocks.
    """
    before, now = -1, blocks()
    while now != before:
        collect()
        time.sleep(still)
        before, now = now, blocks()


def left_in(folder: Path) -> Look:
    """What lies in the temporary directories, and in the output besides runs, pointer and lock."""
    temporary = [entry for place in ("tmp", "python") for entry in (folder / place).rglob("*") if entry.is_dir()]
    # Spark hashes its blocks into at most 64 folders for each of its directories; which of them are there says nothing.
    named = [entry for entry in temporary if len(entry.name) != 2]
    output = {entry.name for entry in (folder / "out").iterdir() if not entry.name.startswith("run_id=")}
    return {"temporary_entries": len(named), "leftovers": len(output - {"CURRENT", ".lock"})}


def resident_mb(process: int | str) -> float:
    """Memory of a process that is not paged out."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def growth_of(looks: Sequence[Look]) -> Look:
    """Growth of each quantity in a run, after a warm-up of a third of the runs."""
    measured = looks[len(looks) // 3 :]
    half = len(measured) // 2
    before, after = measured[:half], measured[-half:]
    runs = len(measured) - half
    return {
        name: round((median(look[name] for look in after) - median(look[name] for look in before)) / runs, 3)
        for name in measured[0]
    }


def too_much(growth: Mapping[str, float]) -> list[str]:
    """Name what grew more than it may."""
    return [
        f"{name} grew by {growth[name]:g} a run, allowed {ALLOWED[name]:g}"
        for name in growth
        if growth[name] > ALLOWED[name]
    ]


def in_one_process(folder: Path, runs: int) -> list[Look]:
    """Do all runs here, and look after each."""
    (folder / "python").mkdir()
    tempfile.tempdir = str(folder / "python")
    looks = []
    for number in range(runs):
        start = time.monotonic()
        run_once(folder, number)
        looks.append({**look(folder), "seconds": round(time.monotonic() - start, 1)})
        _show(number, looks[-1])
    return looks


def in_own_processes(folder: Path, runs: int) -> list[Look]:
    """Do each run in a process of its own, and look at the disk after each."""
    (folder / "python").mkdir()
    looks = []
    for number in range(runs):
        start = time.monotonic()
        environment = {**os.environ, "TMPDIR": str(folder / "python")}
        subprocess.run([sys.executable, "-c", _ONE_RUN, folder, str(number)], env=environment, check=True)
        looks.append({**left_in(folder), "seconds": round(time.monotonic() - start, 1)})
        _show(number, looks[-1])
    return looks


def _show(number: int, seen: Look) -> None:
    sys.stderr.write(f"run {number}: {json.dumps({name: round(value, 1) for name, value in seen.items()})}\n")


def soak(folder: Path, runs: int, own_processes: bool) -> dict[str, Any]:
    """All runs: measurements after each, and what grew."""
    looks = (in_own_processes if own_processes else in_one_process)(folder, runs)
    growth = growth_of([{name: value for name, value in look.items() if name != "seconds"} for look in looks])
    users = current_run(str(folder / "out")).record["counts"]["users"]
    return {"runs": runs, "users": users, "growth": growth, "too_much": too_much(growth), "looks": looks}


@click.command()
@click.option("--runs", default=50, show_default=True)
@click.option("--own-processes", is_flag=True, help="Each run in a process of its own.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the result goes; by default benchmarks/results.")
def main(runs: int, own_processes: bool, out: Path | None) -> None:
    """Do the runs, write the measurements, and exit with 1 where something grew too much."""
    own, name = (" --own-processes", "own-processes") if own_processes else ("", "one-process")
    with tempfile.TemporaryDirectory(prefix="dcrec-soak-") as folder:
        result = soak(Path(folder), runs, own_processes)
    (out or RESULTS / f"soak-{name}.json").write_text(
        json.dumps({**versions(f"python -m benchmarks.soak --runs {runs}{own}"), **result}, indent=1) + "\n",
        encoding="utf-8",
    )
    Console().print(result["growth"], *result["too_much"])
    sys.exit(bool(result["too_much"]))


if __name__ == "__main__":
    main()
