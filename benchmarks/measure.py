"""Timing in turn, and how a figure came about."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.spark.session import build_session

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyspark", "numpy", "scipy", "pyarrow", "numba", "implicit", "hpfrec", "cmfrec", "poismf")
Seconds = float
Contenders = dict[str, Callable[[], Seconds]]


def alternate(rounds: int, ours: Contenders, peers: Contenders) -> dict[str, Any]:
    """All in turn, after a warm-up round; medians, and each round's ratio of each of ours to each peer."""
    contenders = {**ours, **peers}
    seen: list[dict[str, Seconds]] = []
    for _ in range(rounds + 1):
        seen.append({name: run() for name, run in contenders.items()})
        print({name: round(seconds, 2) for name, seconds in seen[-1].items()}, file=sys.stderr, flush=True)
    seen = seen[1:]
    seconds = {name: round(median(turn[name] for turn in seen), 4) for name in contenders}
    ratios = {f"{a} / {b}": [round(turn[a] / turn[b], 3) for turn in seen] for a in ours for b in peers}
    return {"seconds": seconds, "ratio": {name: median(r) for name, r in ratios.items()}, "ratios": ratios}


def clock(work: Callable[[], object]) -> Seconds:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def clock_fit(fit: Callable[[], Any]) -> Seconds:
    """From the call until Spark has read the factors of both sides."""
    start = time.perf_counter()
    model = fit()
    model.userFactors.count(), model.itemFactors.count()
    seconds = time.perf_counter() - start
    if hasattr(model, "release"):
        model.release()
    return seconds


def clock_rows(make: Callable[[], DataFrame]) -> Seconds:
    """From the call until Spark has computed all rows, and dropped them."""
    return clock(lambda: make().write.format("noop").mode("overwrite").save())


def session(name: str = "bench") -> SparkSession:
    """Two cores of this machine."""
    return build_session(name, "local[2]")


def load(path: Path) -> DataFrame:
    """The ratings, cached and spread over the cores, for ours and the peer alike."""
    spark = session()
    ratings = spark.read.parquet(str(path)).repartition(spark.sparkContext.defaultParallelism).persist()
    ratings.count()
    return ratings


def measure_apart(module: str, name: str) -> dict[str, Any]:
    """Measure one of a module's names in a process of its own, and add it to ``benchmarks/results``."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--here", name]
    environment = {"PYSPARK_PYTHON": sys.executable, **os.environ}  # of the workers of a standalone cluster
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = {**json.loads(done.stdout.splitlines()[-1]), **versions(f"python -m benchmarks.{module} {name}")}
    results = RESULTS / f"{module}.json"
    seen = json.loads(results.read_text()) if results.exists() else {}
    results.write_text(json.dumps({**seen, name: found}, indent=2) + "\n")
    return found


def versions(command: str) -> dict[str, Any]:
    """Command and versions behind a figure."""
    found = {name: found for name in PACKAGES if (found := _version(name))}
    return {"command": command, "versions": {"python": platform.python_version(), **found}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
