"""Settings of the session while fits run, its caches, bounds of rows without a job, and the end of work."""

from contextlib import ExitStack
from threading import Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark.spark import cancellation, lineage, planning
from dcrec_spark.spark.cancellation import end_work
from dcrec_spark.spark.lineage import cache_while_used, fixed_placement
from dcrec_spark.spark.planning import ADAPTIVE_CACHE, PARTITION_BYTES, SHUFFLE_PARTITIONS, few_partitions, rows_at_most
from dcrec_spark.spark.session import jvm_limits
from tests.frames import persisted
from tests.spark.standalone import wait_for


def test_the_size_decides_and_never_more_than_the_session_has(plain: SparkSession) -> None:
    """Without a size only caches may be merged. Of several, as of two fits, the largest holds while it is there."""
    for size, partitions in [(0.0, "2"), (10.5 * PARTITION_BYTES, "11"), (1e15, "200")]:
        with few_partitions(plain, size):
            assert plain.conf.get(SHUFFLE_PARTITIONS) == partitions
        assert plain.conf.get(SHUFFLE_PARTITIONS) == "200"
    before = plain.conf.get(ADAPTIVE_CACHE)
    with few_partitions(plain):
        assert (plain.conf.get(ADAPTIVE_CACHE), plain.conf.get(SHUFFLE_PARTITIONS)) == ("true", "200")
    assert plain.conf.get(ADAPTIVE_CACHE) == before
    small, large = ExitStack(), ExitStack()
    small.enter_context(few_partitions(plain, 3 * PARTITION_BYTES))
    large.enter_context(few_partitions(plain, 30 * PARTITION_BYTES))
    for leaving, partitions in ((large, "30"), (small, "3")):
        assert plain.conf.get(SHUFFLE_PARTITIONS) == partitions
        leaving.close()
    assert plain.conf.get(SHUFFLE_PARTITIONS) == "200"


def test_a_cache_that_was_computed_bounds_what_is_picked_from_it(spark: SparkSession) -> None:
    cached = spark.range(1000, numPartitions=3).selectExpr("id", "id % 3 AS rest").cache()
    assert rows_at_most(cached) is None
    cached.count()
    assert rows_at_most(cached) == 1000
    assert rows_at_most(cached.where("rest = 1").select("id")) == 1000
    assert rows_at_most(cached.unionAll(cached)) is None
    cached.unpersist()
    assert rows_at_most(cached) is None


def test_an_estimate_is_no_bound(spark: SparkSession) -> None:
    """With its cost-based optimizer Spark guesses how many rows a filter leaves, and may guess too few."""
    with planning.borrow(spark, {"spark.sql.cbo.enabled": "true"}):
        cached = spark.range(1000).where("id % 2 < 5").cache()
        assert cached._jdf.queryExecution().optimizedPlan().stats().rowCount().isDefined()
        assert rows_at_most(cached) is None
        cached.unpersist()


def test_a_task_has_its_share_of_the_heap(spark: SparkSession) -> None:
    heap, _ = jvm_limits(spark)
    of_task, tasks = lineage.task_memory(spark)
    assert tasks == lineage.cores(spark)
    assert 0.2 * heap < tasks * of_task < heap
    assert lineage.data_share(spark) == 0.6


@pytest.mark.parametrize(
    ("settings", "heap", "tasks"),
    [
        ({"spark.master": "yarn"}, 1024, 1),
        ({"spark.master": "yarn", "spark.executor.memory": "4g", "spark.executor.cores": "2"}, 4096, 2),
        ({"spark.master": "spark://host:7077", "spark.executor.memory": "2048M"}, 2048, 8),
        ({"spark.master": "local[8]", "spark.executor.memory": "4g", "spark.driver.memory": "2097152kb"}, 2048, 8),
        ({"spark.executor.memory": "6144", "spark.executor.cores": "4", "spark.memory.fraction": "0.4"}, 6144, 4),
    ],
)
def test_a_server_of_connect_has_the_memory_of_its_settings(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], heap: int, tasks: int
) -> None:
    """Without a word of cores an executor has all of its machine, here all of the cluster."""
    monkeypatch.setattr(lineage, "cores", lambda spark: 8)
    share = float(settings.get("spark.memory.fraction", 0.6))
    found = lineage.task_memory(SimpleNamespace(conf=settings))  # type: ignore[arg-type]
    assert found == ((heap - 300) * 2**20 * share / tasks, tasks)


def test_a_server_of_connect_is_given_no_checkpoint_directory(caplog: pytest.LogCaptureFixture) -> None:
    lineage.set_checkpoint_directory(SimpleNamespace(), "hdfs:///checkpoints")  # type: ignore[arg-type]
    assert "spark.checkpoint_dir is not used on Spark Connect" in caplog.text


def test_what_is_picked_from_kept_rows_is_picked_from_their_cache(spark: SparkSession) -> None:
    """Pieces of the cache without any of them are not read."""
    kept = lineage.keep(spark.range(100, numPartitions=4).selectExpr("id", "cast(id div 25 AS string) AS kind"))
    wanted = F.col("kind").isin(["1", "3"])
    assert sorted(row.id for row in kept.where(wanted).collect()) == [*range(25, 50), *range(75, 100)]
    scan = kept.rows.where(wanted)._jdf.queryExecution().executedPlan().toString()
    assert "InMemoryTableScan [id" in scan
    assert "[kind" in scan.partition("InMemoryTableScan [")[2].partition("]")[2]
    kept.release()


ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.mark.parametrize("before", [None, "true", "false"])
def test_fits_that_overlap_leave_the_session_as_it_was(spark: SparkSession, before: str | None) -> None:
    """The first one in is the first one out, as it happens with threads."""
    of_tests = str(spark.conf.get(ADAPTIVE))
    spark.conf.unset(ADAPTIVE)
    default = spark.conf.get(ADAPTIVE)
    if before is not None:
        spark.conf.set(ADAPTIVE, before)
    try:
        one, other = ExitStack(), ExitStack()
        one.enter_context(fixed_placement(spark))
        other.enter_context(fixed_placement(spark))
        one.close()
        assert spark.conf.get(ADAPTIVE) == "false"
        other.close()
        assert spark.conf.get(ADAPTIVE) == (before or default)
    finally:
        spark.conf.set(ADAPTIVE, of_tests)


def test_a_frame_is_cached_until_nobody_refers_to_it(spark: SparkSession) -> None:
    """Nor to one of the same plan, which shares its cache. It goes when the next one comes, and what was made from it
    stays right. Of a stopped context nothing is asked.
    """
    stopped = Mock(**{"sparkSession.sparkContext._jsc": None})
    lineage._ABANDONED.put(stopped)
    frame = cache_while_used(spark.range(3))
    before = persisted(spark)
    frame.count()
    (own,) = persisted(spark) - before
    doubled, equal = frame.selectExpr("2 * id"), cache_while_used(spark.range(3))
    del frame
    cache_while_used(spark.range(4)).unpersist()
    assert own in persisted(spark)
    del equal
    assert own in persisted(spark)
    cache_while_used(spark.range(5)).unpersist()
    assert own not in persisted(spark)
    assert [row[0] for row in doubled.collect()] == [0, 2, 4]
    stopped.unpersist.assert_not_called()


def test_no_task_runs_when_work_has_been_ended_and_the_session_lives_on(spark: SparkSession) -> None:
    rows = spark.range(20_000, numPartitions=2).where("reflect('java.lang.Thread', 'sleep', 20L) is not null")

    def count() -> None:
        with pytest.raises(Exception, match="cancelled"):
            rows.count()

    job = Thread(target=count, daemon=True)  # it would take minutes
    job.start()
    wait_for(lambda: cancellation._is_at_work(spark.sparkContext), lambda: "the job has not begun")
    try:
        end_work(60)
        assert not cancellation._is_at_work(spark.sparkContext)
        job.join(60)
        assert not job.is_alive()
        assert spark.range(3).count() == 3
    finally:
        spark.sparkContext.setLogLevel("WARN")
