"""Settings of the session that are borrowed and given back, and bounds of rows without a job."""

from contextlib import ExitStack

from pyspark.sql import SparkSession

from dcrec_spark.spark.planning import (
    ADAPTIVE_CACHE,
    PARTITION_BYTES,
    SHUFFLE_PARTITIONS,
    few_partitions,
    rows_at_most,
)


def test_the_size_decides_and_never_more_than_the_session_has(plain: SparkSession) -> None:
    for size, partitions in [(0.0, "2"), (10.5 * PARTITION_BYTES, "11"), (1e15, "200")]:
        with few_partitions(plain, size):
            assert plain.conf.get(SHUFFLE_PARTITIONS) == partitions
        assert plain.conf.get(SHUFFLE_PARTITIONS) == "200"


def test_without_a_size_only_caches_may_be_merged(plain: SparkSession) -> None:
    before = plain.conf.get(ADAPTIVE_CACHE)
    with few_partitions(plain):
        assert (plain.conf.get(ADAPTIVE_CACHE), plain.conf.get(SHUFFLE_PARTITIONS)) == ("true", "200")
    assert plain.conf.get(ADAPTIVE_CACHE) == before


def test_the_largest_of_several_sizes_holds_while_it_is_there(plain: SparkSession) -> None:
    """As with two fits side by side, or with a fit that learns more of its size: the order of leaving is any."""
    small, large = ExitStack(), ExitStack()
    small.enter_context(few_partitions(plain, 3 * PARTITION_BYTES))
    large.enter_context(few_partitions(plain, 30 * PARTITION_BYTES))
    assert plain.conf.get(SHUFFLE_PARTITIONS) == "30"
    large.close()
    assert plain.conf.get(SHUFFLE_PARTITIONS) == "3"
    small.close()
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
    before = spark.conf.get("spark.sql.cbo.enabled")
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        cached = spark.range(1000).where("id % 2 < 5").cache()
        assert cached._jdf.queryExecution().optimizedPlan().stats().rowCount().isDefined()
        assert rows_at_most(cached) is None
        cached.unpersist()
    finally:
        spark.conf.set("spark.sql.cbo.enabled", before)
