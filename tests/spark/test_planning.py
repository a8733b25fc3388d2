"""Settings of the session while tables of the package are made: borrowed, and given back."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.spark.planning import (
    ADAPTIVE_CACHE,
    PARTITION_BYTES,
    SHUFFLE_PARTITIONS,
    borrowed,
    few_partitions,
)


@pytest.fixture
def wide(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with as many shuffle partitions as a plain one."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, "200")
    yield spark
    spark.conf.set(SHUFFLE_PARTITIONS, before)


def test_the_size_decides_and_never_more_than_the_session_has(wide: SparkSession) -> None:
    for size, partitions in [(0.0, "2"), (10.5 * PARTITION_BYTES, "11"), (1e15, "200")]:
        with few_partitions(wide, size):
            assert wide.conf.get(SHUFFLE_PARTITIONS) == partitions
        assert wide.conf.get(SHUFFLE_PARTITIONS) == "200"


def test_without_a_size_only_caches_may_be_merged(wide: SparkSession) -> None:
    before = wide.conf.get(ADAPTIVE_CACHE)
    with few_partitions(wide):
        assert (wide.conf.get(ADAPTIVE_CACHE), wide.conf.get(SHUFFLE_PARTITIONS)) == ("true", "200")
    assert wide.conf.get(ADAPTIVE_CACHE) == before


def test_the_largest_of_several_sizes_holds_while_it_is_there(wide: SparkSession) -> None:
    """As with two fits side by side, or with a fit that learns more of its size: the order of leaving is any."""
    small, large = ExitStack(), ExitStack()
    small.enter_context(few_partitions(wide, 3 * PARTITION_BYTES))
    large.enter_context(few_partitions(wide, 30 * PARTITION_BYTES))
    assert wide.conf.get(SHUFFLE_PARTITIONS) == "30"
    large.close()
    assert wide.conf.get(SHUFFLE_PARTITIONS) == "3"
    small.close()
    assert wide.conf.get(SHUFFLE_PARTITIONS) == "200"


def test_a_setting_that_was_not_set_is_unset_again(spark: SparkSession) -> None:
    name = "spark.sql.broadcastTimeout"
    default = spark.conf.get(name)
    with borrowed(spark, {name: "77"}):
        assert spark.conf.get(name) == "77"
    assert spark.conf.get(name) == default


def test_what_is_cached_inside_has_few_partitions(wide: SparkSession) -> None:
    counts = wide.range(1000).selectExpr("id % 7 as seventh").groupBy("seventh").count()
    with few_partitions(wide):
        cached = counts.persist()
        cached.count()
    try:
        assert cached.rdd.getNumPartitions() < 5
    finally:
        cached.unpersist()
