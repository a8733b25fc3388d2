"""Rows that this process has are not collected; all others are."""

import gc
import weakref

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.models.fitting import rows_here
from dcrec_spark.models.fitting.rows_here import derived, frame_of, picked, rows_of

TABLE = pa.table({"id": ["a", "b"], "idx": [0, 1], "bias": [0.5, None]})


@pytest.fixture
def without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(frame: DataFrame) -> pa.Table:
        raise AssertionError(f"collected: {frame.columns}")

    monkeypatch.setattr(DataFrame, "toArrow", refuse)


@pytest.mark.usefixtures("without_collecting")
def test_rows_made_here_are_remembered_and_so_is_what_is_picked_from_them(spark: SparkSession) -> None:
    frame = frame_of(spark, TABLE)
    assert rows_of(frame) == TABLE
    assert rows_of(frame, ["idx"]) == TABLE.select(["idx"])
    named = picked(frame, {"idx": "place", "id": "id"})
    assert named.columns == rows_of(named).column_names == ["place", "id"]
    assert [row.place for row in named.collect()] == rows_of(named)["place"].to_pylist()


def test_a_frame_from_elsewhere_is_collected(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "id * 2 AS twice")
    made = derived(frame, frame.select("twice"), lambda rows: pytest.fail(f"made of rows from elsewhere: {rows}"))
    assert rows_of(made)["twice"].to_pylist() == [0, 2, 4]
    assert rows_of(frame, ["twice"]).column_names == ["twice"]


def test_large_tables_are_not_remembered(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_here, "LARGEST_REMEMBERED", TABLE.nbytes - 1)
    assert frame_of(spark, TABLE) not in rows_here._ROWS
    monkeypatch.setattr(rows_here, "LARGEST_REMEMBERED", TABLE.nbytes)
    assert frame_of(spark, TABLE) in rows_here._ROWS


def test_rows_go_with_their_frame(spark: SparkSession) -> None:
    frame = frame_of(spark, TABLE)
    made = derived(frame, frame.select("id"), lambda rows: rows.select(["id"]))
    gone, made_gone = weakref.ref(frame), weakref.ref(made)
    del frame
    gc.collect()
    assert gone() is None
    assert rows_of(made)["id"].to_pylist() == ["a", "b"]
    del made
    gc.collect()
    assert made_gone() is None
