"""Versions of Spark: those that are refused, and what stands in where a method is missing."""

from collections.abc import Callable
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.spark.compat import (
    apply_in_arrow,
    collect_arrow,
    frame_of_arrow,
    group_by_place,
    is_utf8,
    keys_of_partitions,
    place,
    require_supported,
    try_cast,
)
from tests.frames import frame_of

N = 7


@pytest.mark.parametrize("version", ["3.4.4", "5.0.0", "4.10.1"])
@pytest.mark.parametrize(
    "use",
    [
        lambda version: require_supported(Mock(version=version)),
        lambda version: lay_out(Mock(**{"sparkSession.version": version}), "user", "item", {}, Mock(), Mock()),
    ],
    ids=["session", "fit"],
)
def test_other_versions_are_refused(use: Callable[[str], object], version: str) -> None:
    with pytest.raises(ConfigError, match=rf"Spark {version} is not supported: .* 3.5, 4.0, 4.1, 4.2 and 4.3; install"):
        use(version)


def test_connect_of_3_5_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"from 4\.0 on, and this is Spark 3\.5\.9: use a classic session"):
        require_supported(Mock(spec=["version"], version="3.5.9"))


@pytest.fixture
def numbered(spark: SparkSession) -> DataFrame:
    return place(spark.range(100).select("id", (F.col("id") % N).cast("int").alias("number")), N, "number")


def test_each_number_is_in_its_partition(numbered: DataFrame) -> None:
    partitions = numbered.select("number", F.spark_partition_id().alias("partition")).distinct().collect()
    assert sorted((row.number, row.partition) for row in partitions) == [(n, n) for n in range(N)]


def test_groups_of_placed_rows_are_where_they_were_placed(spark: SparkSession, numbered: DataFrame) -> None:
    """Two shuffles, one of each side. A number without rows of one side has an empty table of it."""
    few = place(spark.range(3).select(F.col("id").cast("int").alias("few")), N, "few")

    def count(left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.table({"number": left["number"][:1], "left": [left.num_rows], "right": [right.num_rows]})

    both = group_by_place(numbered, "number").cogroup(group_by_place(few, "few"))
    counted = apply_in_arrow(both, count, "number int, left long, right long")
    assert sorted(map(tuple, counted.collect())) == [(n, 14 + (n < 2), int(n < 3)) for n in range(N)]
    assert counted._jdf.queryExecution().executedPlan().toString().count("Exchange ") == 2


def test_a_table_comes_back_as_it_went(spark: SparkSession) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, None]),
            "cell": pa.array([b"a", None, b""], pa.binary()),
            "list": pa.array([[0.5], [], None], pa.list_(pa.float64())),
            "text": ["x", None, "z"],
        }
    )
    assert collect_arrow(frame_of_arrow(spark, table)).to_pydict() == table.to_pydict()
    assert collect_arrow(frame_of_arrow(spark, table).where("id > 5")).schema.names == table.schema.names
    grouped = frame_of_arrow(spark, table.slice(0, 2)).groupBy()
    ids = apply_in_arrow(grouped, lambda rows: rows.select(["id", "cell"]), "id long, cell binary")
    assert collect_arrow(ids).to_pydict() == {"id": [1, 2], "cell": [b"a", None]}


def test_what_cannot_be_cast_is_null(spark: SparkSession) -> None:
    texts = frame_of(spark, [("1.5",), ("x",)], "text string")
    bytes_ = F.unhex(F.lit("FF41")).cast("string")
    found = texts.select(
        try_cast(F.col("text"), "double").alias("number"), is_utf8(F.col("text")), is_utf8(bytes_)
    ).collect()
    assert [tuple(row) for row in found] == [(1.5, True, False), (None, True, False)]


@pytest.mark.parametrize("n", [1, N, 5000])
def test_the_key_of_a_partition_is_hashed_to_it(spark: SparkSession, n: int) -> None:
    keys = frame_of(spark, enumerate(keys_of_partitions(n)), "number int, key int")
    assert keys.where(F.pmod(F.hash("key"), F.lit(n)) != F.col("number")).count() == 0
