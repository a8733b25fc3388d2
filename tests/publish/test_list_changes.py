"""Two tables of lists side by side: rows that came, went and moved, and their figures."""

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.publish.audit import changes, turnover
from tests.frames import frame_of

MONDAY = {"ada": ["i1", "i2", "i3"], "bob": ["i2", "i1"], "gone": ["i1"]}
TUESDAY = {"ada": ["i2", "i1", "i4"], "bob": ["i2", "i1"], "new": ["i9"]}


def table(spark: SparkSession, lists: dict[str, list[str]]) -> DataFrame:
    rows = [
        (user, item, rank, float(len(items) - rank))
        for user, items in lists.items()
        for rank, item in enumerate(items, start=1)
    ]
    return frame_of(spark, rows, "user_id string, item_id string, rank int, score double")


def test_rows_that_came_went_and_moved(spark: SparkSession) -> None:
    found = changes(table(spark, MONDAY), table(spark, TUESDAY)).orderBy("user_id", "item_id").collect()
    assert [tuple(row) for row in found] == [
        ("ada", "i1", "moved", 1, 2),
        ("ada", "i2", "moved", 2, 1),
        ("ada", "i3", "removed", 3, None),
        ("ada", "i4", "added", None, 3),
        ("gone", "i1", "removed", 1, None),
        ("new", "i9", "added", None, 1),
    ]


def test_without_a_run_before_every_row_is_added(spark: SparkSession) -> None:
    found = changes(None, table(spark, MONDAY)).collect()
    assert {row["change"] for row in found} == {"added"}
    assert len(found) == 6


def test_places_that_hold_another_item(spark: SparkSession) -> None:
    assert turnover(table(spark, MONDAY), table(spark, TUESDAY)) == (5, 1)
