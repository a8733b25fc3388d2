"""One task for each piece of work, all tasks with the same data in reach."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from threadpoolctl import threadpool_limits

from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.spark.lineage import broadcast, cores

Shared = TypeVar("Shared")
Work = TypeVar("Work")
Result = Mapping[str, Array]

# Tasks for each core in one job: results come back, and can be recorded, when a job ends.
ROUNDS = 4


def side_by_side(
    spark: SparkSession, shared: Shared, works: Sequence[Work], function: Callable[[Shared, Work], Result]
) -> Generator[Result, None, None]:
    """``function(shared, work)`` for each of ``works``, in their order, each in one task.

    Results come as they are there, a few for each core at a time, so that the caller can record them. What fails ends
    the job; what came before is with the caller.

    shared, works : what pickle can carry; ``shared`` travels to each executor once.
    """
    shared_value = broadcast(spark, (shared, list(works)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                everything, all_works = shared_value.value
                with threadpool_limits(1):  # each core has a task
                    cell = pack(function(everything, all_works[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "data": pa.array([cell], pa.binary())})

    wave = ROUNDS * cores(spark)
    try:
        for start in range(0, len(works), wave):
            end = min(start + wave, len(works))
            results = spark.range(start, end, 1, end - start).mapInArrow(run, "id long, data binary").toArrow()
            for row in results.sort_by("id").to_pylist():
                yield unpack(row["data"])
    finally:
        shared_value.destroy()
