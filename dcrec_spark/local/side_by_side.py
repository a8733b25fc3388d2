"""Work side by side on the cluster: a task for each piece, and results that arrive as the tasks end."""

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from threadpoolctl import threadpool_limits

from dcrec_spark.spark.compat import collect_arrow
from dcrec_spark.spark.lineage import broadcast, cores

Shared = TypeVar("Shared")
Work = TypeVar("Work")
Result = TypeVar("Result")

# Tasks for each core in one Spark job: results return, and can be recorded, when a job ends.
ROUNDS = 4


def side_by_side(
    spark: SparkSession,
    shared: Shared,
    works: Sequence[Work],
    function: Callable[[Shared, Work], Result],
) -> Generator[Result, None, None]:
    """Yield ``function(shared, work)`` for each of ``works``, in their order, each computed by one task.

    Results arrive a few for each core at a time, so that the caller can record them. An error ends the job. The
    caller has the results before it. Spark sends ``shared`` to each executor once. All can be pickled.
    """
    shared_value = broadcast(spark, (shared, list(works)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                everything, all_works = shared_value.value
                with threadpool_limits(1):  # each core has a task
                    cell = pickle.dumps(function(everything, all_works[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "data": pa.array([cell], pa.binary())})

    wave = ROUNDS * cores(spark)
    try:
        for start in range(0, len(works), wave):
            end = min(start + wave, len(works))
            results = collect_arrow(spark.range(start, end, 1, end - start).mapInArrow(run, "id long, data binary"))
            for row in results.sort_by("id").to_pylist():
                yield pickle.loads(row["data"])
    finally:
        shared_value.destroy()
