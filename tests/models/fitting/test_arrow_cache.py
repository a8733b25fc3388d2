"""Tables made in this process are not collected; all others are."""

import gc
import weakref

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.models.fitting.factors import arrow_table, cached_frame, derive_frame, select_columns

TABLE = pa.table({"id": ["a", "b"], "idx": [0, 1], "bias": [0.5, None]})


@pytest.fixture
def without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(frame: DataFrame) -> pa.Table:
        raise AssertionError(f"collected: {frame.columns}")

    monkeypatch.setattr(DataFrame, "toArrow", refuse)


@pytest.mark.usefixtures("without_collecting")
def test_tables_made_here_and_columns_of_them_are_not_collected(spark: SparkSession) -> None:
    frame = cached_frame(spark, TABLE)
    assert arrow_table(frame) == TABLE
    assert arrow_table(frame, ["idx"]) == TABLE.select(["idx"])
    named = select_columns(frame, {"idx": "place", "id": "id"})
    assert named.columns == arrow_table(named).column_names == ["place", "id"]
    assert [row.place for row in named.collect()] == arrow_table(named)["place"].to_pylist()


def test_a_frame_from_elsewhere_and_a_large_table_are_collected(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "id * 2 AS twice")
    made = derive_frame(frame, frame.select("twice"), lambda rows: pytest.fail(f"made of rows from elsewhere: {rows}"))
    assert arrow_table(made)["twice"].to_pylist() == [0, 2, 4]
    assert arrow_table(frame, ["twice"]).column_names == ["twice"]
    large, small = (cached_frame(spark, TABLE, TABLE.nbytes - less) for less in (1, 0))
    assert arrow_table(small) is TABLE
    assert arrow_table(large) is not TABLE


def test_table_is_released_with_its_frame(spark: SparkSession) -> None:
    frame = cached_frame(spark, TABLE)
    made = derive_frame(frame, frame.select("id"), lambda rows: rows.select(["id"]))
    gone, made_gone = weakref.ref(frame), weakref.ref(made)
    del frame
    gc.collect()
    assert gone() is None
    assert arrow_table(made)["id"].to_pylist() == ["a", "b"]
    del made
    gc.collect()
    assert made_gone() is None
