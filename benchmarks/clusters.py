"""Whole fits over a cluster's blocks against MLlib's ALS, in turn: seconds, CPU seconds of all processes, bytes sent.

    python -m benchmarks.clusters NAME...     measures these, each in a fresh process
    python -m benchmarks.clusters --list      the names

Each adds itself to benchmarks/results/clusters.json. The cluster is local, its executors have one core each.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

import click
from pyspark.sql import SparkSession

from benchmarks import data
from benchmarks.measure import clock_fit, measure_apart
from benchmarks.peers import mllib
from benchmarks.sizes import SHOWN, family, shuffled
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.spark.failures import reason
from dcrec_spark.spark.session import build_session

ROUNDS = 2
TICKS = os.sysconf("SC_CLK_TCK")


class Case(NamedTuple):
    """Ratings, the models' rank and iterations, the executors and the heap of each.

    skewed : whether an item has 60 % of the users, and a user 80 % of the items.
    """

    users: int
    items: int
    ratings: int
    rank: int
    sweeps: int
    heap: str = "3g"
    both_stages: bool = False
    executors: int = 2
    skewed: bool = False

    def path(self) -> Path:
        """Return the file of the ratings."""
        return (data.skewed if self.skewed else data.synthetic)(self.users, self.items, self.ratings)


FEW, MANY = Case(70_000, 10_000, 10_000_000, 50, 5), Case(300_000, 300_000, 6_000_000, 10, 5)
CASES = {
    "few-items": FEW,
    "many-users-10": MANY,
    "many-users-50": MANY._replace(rank=50, sweeps=3),
    "wide": Case(1_000_000, 1_000_000, 20_000_000, 10, 3),
    "skewed": Case(300_000, 250_000, 6_000_000, 50, 3, skewed=True),
    "both-stages": MANY._replace(both_stages=True),
    "both-stages-10": MANY._replace(both_stages=True, sweeps=10),
    "few-items-1g": FEW._replace(heap="1g"),
    "many-users-10-1g": MANY._replace(heap="1g"),
    "many-users-50-1g": MANY._replace(rank=50, sweeps=3, heap="1g"),
    "both-stages-1g": MANY._replace(both_stages=True, heap="1g"),
    "one-executor": MANY._replace(executors=1),
    "four-executors": MANY._replace(executors=4),
    "half-on-one-executor": Case(150_000, 150_000, 3_000_000, 10, 5, executors=1),
    "double-on-four-executors": Case(600_000, 600_000, 12_000_000, 10, 5, executors=4),
}


def estimator(case: Case, precision: str) -> DeconfoundedMF:
    """The classical model, or both stages, over blocks."""
    settings: dict[str, Any] = {"maxIter": case.sweeps, "precision": precision, "exchange": "blocks", "tol": 0.0}
    model = DeconfoundedMF.forCounts(rank=case.rank).setParams(**settings)
    if case.both_stages:
        return model.setParams(exposureModel=PoissonFactorization(rank=case.rank, **settings))
    return model.setParams(adjustment="none")


def cpu_seconds() -> float:
    """Seconds that the cores have spent on this process and on all those that it started."""
    spent = 0
    for process in family(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        spent += int(fields[11]) + int(fields[12])
    return spent / TICKS


def lost_executors(spark: SparkSession) -> int:
    """Number of executors that ended before their time."""
    context = spark.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/allexecutors") as answer:
        return sum(not executor["isActive"] for executor in json.load(answer))


def measured(case: Case) -> dict[str, Any]:
    """Medians of some rounds after a warm one."""
    spark = build_session(
        "clusters", f"local-cluster[{case.executors},1,4096]", {**SHOWN, "spark.executor.memory": case.heap}
    )
    spark.sparkContext.setCheckpointDir(str(data.CACHE / "checkpoints"))
    ratings = spark.read.parquet(str(case.path())).repartition(2).persist()
    ratings.count()
    fits: dict[str, Callable[[], Any]] = {
        p: lambda p=p: estimator(case, p).fit(ratings) for p in ("float32", "float64")
    }
    fits["MLlib"] = lambda: mllib(case.rank, case.sweeps).fit(ratings)
    seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in fits}
    not_ended: dict[str, str] = {}
    for _ in range(ROUNDS + 1):
        for name in [name for name in fits if name not in not_ended]:
            cpu, sent = cpu_seconds(), shuffled(spark)["shuffled_gb"]
            try:
                seconds = clock_fit(fits[name])
            except Exception as error:  # noqa: BLE001 - with little memory, that is a result
                not_ended[name] = reason(error)
                continue
            seen[name].append((seconds, cpu_seconds() - cpu, shuffled(spark)["shuffled_gb"] - sent))
            print(name, *(round(number, 2) for number in seen[name][-1]), file=sys.stderr, flush=True)
    ended = [name for name in fits if name not in not_ended]
    names = "seconds", "cpu_seconds", "sent_gb"
    medians = {name: [round(median(turn), 2) for turn in zip(*seen[name][1:], strict=True)] for name in ended}
    found = {name: dict(zip(names, turn, strict=True)) for name, turn in medians.items()}
    ratios = {
        name: round(median(a[0] / b[0] for a, b in zip(seen[name][1:], seen["MLlib"][1:], strict=True)), 2)
        for name in ended
        if "MLlib" in ended and name != "MLlib"
    }
    lost = lost_executors(spark)
    # A lost executor takes the count of its CPU seconds with it.
    told = [name for name in names if not (lost and name == "cpu_seconds")]
    return {
        **case._asdict(),
        **{n: {name: turn[name] for name in told} for n, turn in found.items()},
        "ratio": ratios,
        "executors_lost": lost,
        "not_ended": not_ended,
    }


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(CASES)))
@click.option("--list", "listed", is_flag=True, help="Show the names.")
@click.option("--here", is_flag=True, help="Measure one in this process, and print it.")
def main(names: tuple[str, ...], listed: bool, here: bool) -> None:
    if listed:
        print("\n".join(CASES))
        return
    if here:
        print(json.dumps(measured(CASES[names[0]])))
        return
    for name in names:
        found = measure_apart("clusters", name)
        print(name, found["ratio"], found["not_ended"], flush=True)


if __name__ == "__main__":
    main()
