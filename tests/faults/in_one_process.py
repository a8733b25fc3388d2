"""How much memory a fit in the driver's process takes, beside what it is allowed to: says both, in bytes."""

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF
from dcrec_spark.models.fitting.layout_settings import CollectedSize, Driver, LayoutSettings
from dcrec_spark.spark.session import build_session

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# A user has so many ratings, of every so manieth item.
OF_A_USER, APART = 300, 33


def drawn(spark: SparkSession, number: int) -> DataFrame:
    """Distinct pairs, spread evenly over users and items, rated from 1 to 5."""
    user, item = f"id div {OF_A_USER}", f"(id % {OF_A_USER}) * {APART} + (id div {OF_A_USER}) % {APART}"
    return spark.range(number).selectExpr(f"{user} AS user", f"{item} AS item", "CAST(id % 5 + 1 AS DOUBLE) AS rating")


def status(name: str) -> int:
    """Read a size of this process from what the kernel knows of it."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def fit(ratings: DataFrame, rank: int) -> None:
    DeconfoundedMF(rank=rank, exposureRank=rank, maxIter=2, tol=0.0, exchange="local").fit(ratings).release()


def give_back() -> None:
    """Give the kernel what allocators keep of memory that was freed: how much that is depends on the moment."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def note_what_is_allowed() -> list[float]:
    """Have fits add to this list what they take to be their size, which decides whether they have room here."""
    allowed: list[float] = []
    decide = LayoutSettings.is_local

    def noted(self: LayoutSettings, collected: CollectedSize, rows: Callable[[], int], driver: Driver) -> bool:
        allowed.append(self.bytes_in_process(collected, rows()))
        return decide(self, collected, rows, driver)

    LayoutSettings.is_local = noted  # type: ignore[method-assign]
    return allowed


def main(number: int, rank: int) -> None:
    spark = build_session("memory", "local[2]", {"spark.driver.memory": "3g"})
    allowed = note_what_is_allowed()
    fit(drawn(spark, 600_000), rank)  # loops are compiled, libraries loaded
    give_back()
    before = status("VmRSS")
    RESET.write_text("5")  # the largest size seen so far is forgotten
    fit(drawn(spark, number), rank)
    sys.stdout.write(json.dumps({"taken": status("VmHWM") - before, "allowed": allowed[-1]}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
