"""Ids become dense indices in sorted order, whatever the type and the partitioning."""

import random
from collections.abc import Iterable, Sequence

import pytest
from chispa import assert_df_equality
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.data.ids import encode, index_ids
from dcrec_spark.errors import DataError
from tests.frames import frame_of, persisted, persisted_before


def frame(spark: SparkSession, ids: list[object], kind: str, partitions: int = 3) -> DataFrame:
    rows = [(identity,) for identity in ids]
    return frame_of(spark, rows, f"id {kind}").repartition(partitions)


def assert_indexed(df: DataFrame, expected: Sequence[object]) -> None:
    kind = df.schema["id"].dataType.simpleString()
    result = index_ids(df, "id")
    assert [field.simpleString() for field in result.schema] == [f"id:{kind}", "idx:bigint"]
    assert sorted((row.idx, row.id) for row in result.collect()) == list(enumerate(expected))
    result.unpersist()


def by_bytes(ids: Iterable[str]) -> list[str]:
    return sorted(set(ids), key=lambda text: text.encode())


@settings(max_examples=3)
@example(["", " ", "A", "e\u0301", "\U0001d518", "\uffff", 'say "x"', "two\nlines", "10", "9", "\\", "`"])
@example([])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=60))
def test_every_id_has_its_rank(spark: SparkSession, ids: list[str]) -> None:
    assert_indexed(frame(spark, list(ids), "string"), by_bytes(ids))


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_partitions_and_order_of_rows_do_not_matter(spark: SparkSession, adaptive: str) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    ids: list[object] = [f"u{number}" for number in range(600)]
    expected = by_bytes(map(str, ids))
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for partitions in (1, 7):
            random.Random(partitions).shuffle(ids)
            assert_indexed(frame(spark, ids, "string", partitions), expected)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))


def test_indices_stay_when_they_are_computed_once_more(spark: SparkSession) -> None:
    """Another sort would draw other samples, and cut its partitions elsewhere."""
    sampled, adaptive = "spark.sql.execution.rangeExchange.sampleSizePerPartition", "spark.sql.adaptive.enabled"
    before = spark.conf.get(adaptive)
    spark.conf.set(sampled, "2")
    spark.conf.set(adaptive, "false")
    try:
        result = index_ids(frame(spark, list(range(2000)), "long"), "id")
        result.unpersist(blocking=True)
        for _ in range(3):
            assert result.selectExpr("id + 1 as id", "idx").where("id - 1 != idx").count() == 0
    finally:
        spark.conf.unset(sampled)
        spark.conf.set(adaptive, str(before))


def test_what_is_no_id_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="column 'id' has null ids"):
        index_ids(frame(spark, ["a", None], "string"), "id")
    with pytest.raises(DataError, match="column 'id' is double"):
        index_ids(frame(spark, [1.0], "double"), "id")
    with pytest.raises(DataError, match="no column 'user': found id"):
        index_ids(frame(spark, ["a"], "string"), "user")


def test_encode_replaces_ids_by_indices_and_keeps_the_rest(spark: SparkSession) -> None:
    rows = [("b", 20, 4.0, 7), ("a", 10, 3.0, 8), ("b", 3, 5.0, 9)]
    ratings = frame_of(spark, rows, "user_id string, item_id long, rating double, `a.b` long")
    users, items = index_ids(ratings, "user_id"), index_ids(ratings, "item_id")
    encoded = encode(ratings, users, items)
    rows = [(0, 1, 3.0, 8), (1, 0, 5.0, 9), (1, 2, 4.0, 7)]
    expected = frame_of(spark, rows, "user_idx long, item_idx long, rating double, `a.b` long")
    # chispa orders rows by name, and would take the dot for a field of a struct.
    plain = ("user_idx", "item_idx", "rating", "a_b")
    assert encoded.columns[-1] == "a.b"
    assert_df_equality(encoded.toDF(*plain), expected.toDF(*plain), ignore_row_order=True, ignore_nullable=True)
    users.unpersist()
    items.unpersist()


def test_the_result_outlives_what_it_was_made_from(spark: SparkSession) -> None:
    held = persisted_before(spark)
    source = frame(spark, list(range(1000)), "long").persist()
    result = index_ids(source, "id")
    source.unpersist(blocking=True)
    assert result.filter("id != idx").count() == 0
    assert len(persisted(spark) - held) == 1
    result.unpersist(blocking=True)
    assert persisted(spark) == held
