"""How many rows a frame has at most, as far as Spark knows it without a job."""

from pyspark.sql import SparkSession

from dcrec_spark.spark.sizes import rows_at_most


def test_a_cache_that_was_computed_bounds_what_is_picked_from_it(spark: SparkSession) -> None:
    cached = spark.range(1000, numPartitions=3).selectExpr("id", "id % 3 AS rest").cache()
    assert rows_at_most(cached) is None
    cached.count()
    assert rows_at_most(cached) == 1000
    assert rows_at_most(cached.where("rest = 1").select("id")) == 1000
    assert rows_at_most(cached.unionAll(cached)) is None
    cached.unpersist()
    assert rows_at_most(cached) is None


def test_part_of_a_cache_is_no_bound(spark: SparkSession) -> None:
    cached = spark.range(1000, numPartitions=3).selectExpr("id + 1 AS id").cache()
    cached.limit(1).collect()
    assert rows_at_most(cached) is None
    cached.unpersist()


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
