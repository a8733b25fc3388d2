"""Fits whose blocks memory does not hold, and fits in the driver's process, which take no more than is said."""

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.models.fitting.layout_settings import Driver, LayoutSettings
from dcrec_spark.spark.compat import collect_arrow, frame_of_arrow
from dcrec_spark.spark.session import build_session
from tests.spark.standalone import tell, told

pytestmark = pytest.mark.process

# More blocks than tasks run side by side.
FIT: dict[str, Any] = {
    "rank": 60, "maxIter": 2, "tol": 0.0, "seed": 3, "exchange": "blocks", "numBlocks": 4,
}  # fmt: skip
# What caches and sorts may take of a gigabyte: 22 MB, of which the blocks and their results need several times as
# much, and 430 MB. With half of the former a fit fails if both tasks hold a block and a message at the same time.
FRACTIONS = {"little": "0.03", "roomy": "0.6"}
# The operators that make what a fit caches: the blocks of a side, and their results.
CACHED = {"Exchange", "FlatMapCoGroupsInArrow"}
# A user has so many ratings, of every so manieth item.
OF_A_USER, APART = 300, 33


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, Any]:
    return told(__name__, "little", folder)


def test_what_has_no_room_in_memory_goes_to_disk(seen: dict[str, Any]) -> None:
    """Blocks, results, and the sorts that bring the two together. Shuffles sort on the way to over 200 blocks only."""
    assert set(seen["little"]["on_disk"]) >= CACHED
    assert seen["little"]["spilled"] > 0
    assert (seen["roomy"]["on_disk"], seen["roomy"]["spilled"]) == ([], 0)


def test_a_fit_in_little_memory_finds_what_a_roomy_one_does(seen: dict[str, Any], folder: Path) -> None:
    assert seen["little"]["numbers"] == seen["roomy"]["numbers"]
    for side in ("users", "items"):
        little, roomy = (pq.read_table(folder / f"{name}-{side}.parquet") for name in FRACTIONS)
        assert little.equals(roomy), side


@pytest.mark.parametrize(
    ("ratings", "rank"),
    [(3_000_000, 50), *(pytest.param(ratings, 10, marks=pytest.mark.long) for ratings in (3_000_000, 6_000_000))],
)
def test_a_fit_takes_no_more_than_it_is_said_to_take(ratings: int, rank: int) -> None:
    """And not much less, else fits that have room would go to blocks."""
    memory = told(__name__, "driver", ratings, rank)
    assert memory["allowed"] / 2 < memory["taken"] < memory["allowed"], memory


def status(spark: SparkSession, what: str) -> list[dict[str, Any]]:
    """Ask Spark's own page, which says what it has put on disk."""
    context = spark.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}") as answer:
        return list(json.load(answer))


def in_memory(fraction: str, place: str) -> dict[str, Any]:
    """Keep the factors; say which cached frames were on disk after an iteration, and how much was spilled."""
    conf = {"driver.memory": "1g", "sql.shuffle.partitions": "2", "ui.enabled": "true", "ui.port": "0"}
    conf["memory.fraction"] = fraction
    spark = build_session("memory", "local[2]", {f"spark.{name}": value for name, value in conf.items()})
    spark.sparkContext.setCheckpointDir(place)
    on_disk = set[str]()

    def look(stage: str, iteration: int, objective: float) -> None:
        on_disk.update(cached["name"].split()[0] for cached in status(spark, "storage/rdd") if cached["diskUsed"])

    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((6000, 1000)) < 0.008)
    rating = rng.integers(1, 6, len(user)).astype(float)
    exposure = PoissonFactorization(**FIT)
    estimator = DeconfoundedMF(**FIT, exposureModel=exposure)
    exposure.listener = estimator.listener = look
    model = estimator.fit(frame_of_arrow(spark, pa.table({"user": user, "item": item, "rating": rating})))
    for side, factors in zip(("users", "items"), model.factorTables(), strict=True):
        pq.write_table(collect_arrow(factors.orderBy("id")), f"{place}-{side}.parquet")
    numbers = [model.exposureModel.elboHistory, model.objectiveHistory, model.intercept]
    spilled = sum(stage["diskBytesSpilled"] for stage in status(spark, "stages?status=complete"))
    spark.stop()
    return {"on_disk": sorted(on_disk), "spilled": spilled, "numbers": numbers}


def drawn(spark: SparkSession, number: int) -> DataFrame:
    """Distinct pairs, spread evenly over users and items, rated from 1 to 5."""
    user, item = f"id div {OF_A_USER}", f"(id % {OF_A_USER}) * {APART} + (id div {OF_A_USER}) % {APART}"
    return spark.range(number).selectExpr(f"{user} AS user", f"{item} AS item", "CAST(id % 5 + 1 AS DOUBLE) AS rating")


def size(name: str) -> int:
    return 1024 * int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0])


def in_the_driver(number: int, rank: int) -> dict[str, float]:
    """How much memory a fit takes, and how much it takes to be its size, which decides whether it has room here."""
    spark = build_session("memory", "local[2]", {"spark.driver.memory": "3g"})
    allowed, decide = list[float](), LayoutSettings.is_local

    def noted(self: LayoutSettings, number: int, width: int, rows: Callable[[], int], driver: Driver) -> bool:
        allowed.append(self.bytes_in_process(number, width, rows()))
        return decide(self, number, width, rows, driver)

    LayoutSettings.is_local = noted  # type: ignore[method-assign]

    def fit(ratings: int) -> None:
        estimator = DeconfoundedMF(rank=rank, exposureRank=rank, maxIter=2, tol=0.0, exchange="local")
        estimator.fit(drawn(spark, ratings)).release()

    fit(600_000)  # loops are compiled, libraries loaded
    # The kernel gets what allocators keep of memory that was freed: how much that is depends on the moment.
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    before = size("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the largest size seen so far is forgotten
    fit(number)
    taken = size("VmHWM") - before
    spark.stop()
    return {"taken": taken, "allowed": allowed[-1]}


if __name__ == "__main__":
    if sys.argv[1] == "driver":
        tell(in_the_driver(*map(int, sys.argv[2:])))
    else:
        tell({name: in_memory(fraction, f"{sys.argv[2]}/{name}") for name, fraction in FRACTIONS.items()})
