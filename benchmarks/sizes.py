"""Fits of both stages by data size: seconds by stage, memory of all processes, bytes exchanged.

    python -m benchmarks.sizes NAME...      measures these, each in a fresh process; without a name all but the large
    python -m benchmarks.sizes --list       the names

Each adds itself to benchmarks/results/sizes.json. Those whose master is "standalone" start a cluster of two workers
on loopback, with one core each.
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

import click
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measure import measure_apart
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.spark.session import build_session
from tests.spark.standalone import spark_home, standalone_cluster

# Of scores: above, ranking would take longer than all else.
MOST_SCORES = 10**10


class Size(NamedTuple):
    """Ratings and models to measure. kind : of the ratings, see :func:`ratings_of`."""

    kind: str
    users: int
    items: int
    ratings: int
    rank: int
    master: str = "local[2]"
    exchange: str = "blocks"
    iterations: int = 4


SIZES = {
    "1m-10": Size("power law", 20_000, 5_000, 1_000_000, 10),
    "1m-50": Size("power law", 20_000, 5_000, 1_000_000, 50),
    "1m-100": Size("power law", 20_000, 5_000, 1_000_000, 100),
    "3m-50-many-users": Size("power law", 300_000, 20_000, 3_000_000, 50),
    "10m-10": Size("power law", 70_000, 10_000, 10_000_000, 10),
    "10m-50": Size("power law", 70_000, 10_000, 10_000_000, 50),
    "10m-10-one-process": Size("power law", 70_000, 10_000, 10_000_000, 10, exchange="auto"),
    "100m-10-one-process": Size("power law", 700_000, 50_000, 100_000_000, 10, exchange="auto"),
    "100m-50-one-process": Size("power law", 700_000, 50_000, 100_000_000, 50, exchange="auto"),
    "wide-standalone": Size("power law", 1_000_000, 1_000_000, 20_000_000, 10, "standalone", iterations=2),
    "skewed-standalone": Size("skewed", 300_000, 250_000, 20_000_000, 50, "standalone", iterations=2),
    "100m-10-standalone": Size("power law", 700_000, 50_000, 100_000_000, 10, "standalone", iterations=2),
    "100m-50-standalone": Size("power law", 700_000, 50_000, 100_000_000, 50, "standalone", iterations=2),
    "wide-50-standalone": Size("power law", 1_000_000, 1_000_000, 20_000_000, 50, "standalone", iterations=2),
}
# Spark's own page counts what is sent; by default it forgets all stages but the last thousand.
SHOWN = {"spark.ui.enabled": "true", "spark.ui.retainedStages": "1000000", "spark.ui.retainedJobs": "1000000"}
LARGE = tuple(name for name, size in SIZES.items() if size.ratings > 10_000_000)
# A driver that holds nothing large, and two executors, with room left for their Python workers.
OF_STANDALONE = {
    "spark.driver.memory": "2g",
    "spark.executor.memory": "6g",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "16",
}


def ratings_of(size: Size) -> Path:
    """Ratings drawn by activity and popularity; skewed: an item of 60 % of users, a user of 80 % of items."""
    if size.kind == "power law":
        return data.synthetic(size.users, size.items, size.ratings)
    return data.skewed(size.users, size.items, size.ratings)


class Memory(threading.Thread):
    """Watches how much memory this process and all those that it started take together, shared pages once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._all, self._worker, self._ended = 0, 0, threading.Event()

    def run(self) -> None:
        """Look once a second."""
        while not self._ended.wait(1.0):
            held = {process: _proportional(process) for process in family(os.getpid())}
            workers = [size for process, size in held.items() if _is_worker(process)]
            self._all, self._worker = max(self._all, sum(held.values())), max([self._worker, *workers])

    def end(self) -> dict[str, float]:
        """Return the peak of all together, and that of the largest Python worker, in GB."""
        self._ended.set()
        self.join()
        return {"peak_gb": round(self._all / 2**20, 2), "worker_peak_gb": round(self._worker / 2**20, 2)}


def family(process: int) -> list[int]:
    """Return a process and its descendants."""
    found = [process]
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            named = children.read_text().split()
        except OSError:  # it has ended meanwhile
            continue
        for child in named:
            found += family(int(child))
    return found


def _is_worker(process: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return False


def _proportional(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended meanwhile
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


@contextmanager
def cluster_of(size: Size) -> Iterator[tuple[str, dict[str, str]]]:
    """Give the master to fit with and what it has to be told; a standalone one runs until the end of the block."""
    if size.master != "standalone":
        yield size.master, {}
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        standalone_cluster(spark_home(Path(folder)), "127.0.0.1", "127.0.0.1", memory="7g") as address,
    ):
        yield address, OF_STANDALONE


def measured(size: Size, master: str, conf: dict[str, str]) -> dict[str, object]:
    """Fit both stages, so many iterations each, and say what each stage took."""
    path = ratings_of(size)
    spark = build_session("sizes", master, {**SHOWN, **conf})
    spark.sparkContext.setCheckpointDir(str(data.CACHE / "checkpoints"))
    ends: dict[str, list[float]] = {"exposure": [], "outcome": []}

    def note(stage: str, iteration: int, objective: float) -> None:
        ends[stage].append(time.perf_counter())

    exposure = PoissonFactorization(rank=size.rank, maxIter=size.iterations, tol=0.0, exchange=size.exchange)
    outcome = DeconfoundedMF.forCounts(rank=size.rank, maxIter=size.iterations).setParams(
        exposureModel=exposure, tol=0.0, exchange=size.exchange
    )
    exposure.listener = outcome.listener = note
    memory = Memory()
    memory.start()
    start = time.perf_counter()
    model = outcome.fit(spark.read.parquet(str(path)))
    rows = {"users": model.userFactors.count(), "items": model.itemFactors.count()}
    fitted = time.perf_counter()
    if size.users * size.items <= MOST_SCORES:
        model.recommendForAllUsers(10).write.format("noop").mode("overwrite").save()
    ranked = time.perf_counter()
    one, two = ends["exposure"], ends["outcome"]
    seconds = {
        "layout": one[0] - start,
        "iteration": median(b - a for a, b in pairwise(one)),
        "between": two[0] - one[-1],
        "sweep": median(b - a for a, b in pairwise(two)),
        "tables": fitted - two[-1],
        "fit": fitted - start,
    }
    if size.users * size.items <= MOST_SCORES:
        seconds["ranking"] = ranked - fitted
    sent = shuffled(spark)
    return {
        **size._asdict(),
        **rows,
        "cores": spark.sparkContext.defaultParallelism,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        **memory.end(),
        **sent,
    }


def shuffled(spark: SparkSession) -> dict[str, float]:
    """Return the stages so far, and the GB that they sent and spilled."""
    context = spark.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete") as answer:
        stages = json.load(answer)
    sent, spilled = (sum(stage[name] for stage in stages) / 2**30 for name in ("shuffleWriteBytes", "diskBytesSpilled"))
    return {"stages": len(stages), "shuffled_gb": round(sent, 3), "spilled_gb": round(spilled, 3)}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(SIZES)))
@click.option("--list", "listed", is_flag=True, help="Show the names.")
@click.option("--here", is_flag=True, help="Measure one in this process, and print it.")
def main(names: tuple[str, ...], listed: bool, here: bool) -> None:
    if listed:
        print("\n".join(SIZES))
        return
    if here:
        with cluster_of(SIZES[names[0]]) as (master, conf):
            print(json.dumps(measured(SIZES[names[0]], master, conf)))
            build_session().stop()  # before its cluster
        return
    for name in names or [name for name in SIZES if name not in LARGE]:
        ratings_of(SIZES[name])
        found = measure_apart("sizes", name)
        print(name, json.dumps(found["seconds"]), found["peak_gb"], "GB", flush=True)


if __name__ == "__main__":
    main()
