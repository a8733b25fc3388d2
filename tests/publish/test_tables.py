"""Tables of a run: their columns, the promises to their readers, each broken once, and what changed since a run."""

import math
from datetime import date
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from dcrec_spark.errors import AuditError, DcrecError
from dcrec_spark.publish import schemas
from dcrec_spark.publish.audit import audit_overlap, audit_recommendations, changes, turnover
from tests.frames import frame_of

Row = tuple[str | None, int | None, str | None, float | None, float | None, float | None]

SCHEMA = "user_id string, rank int, item_id string, score double, preference double, confounder double"
GOOD: list[Row] = [("ada", 1, "i1", 3.0, 2.0, 1.0), ("ada", 2, "i2", 2.0, 2.0, 0.0), ("bob", 1, "i2", 1.0, 1.5, -0.5)]
SEEN = [("ada", "i3"), ("bob", "i1"), ("bob", "i3")]


def seen_by(spark: SparkSession, pairs: list[tuple[str, str]]) -> DataFrame:
    return frame_of(spark, pairs, "user_id string, item_id string").selectExpr("*", "3.0 as rating")


OVERLAP = "user_id string, ratings long, effective_ratings double, smallest_propensity double, mean_rating double"
OVERLAP += ", mean_low double, mean_high double"
SEEN_OF_ADA = ("ada", 3, 2.5, 0.1, 3.0, 2.0, 4.0)
RANKS = "recommendations were not published: 1 users whose ranks do not run from 1 without gaps"
ITEMS = "recommendations were not published: 1 users with an item twice, or missing"
SCORES = "recommendations were not published: 1 scores that are null, NaN or infinite"
WORTH = "table user_overlap was not published: 1 users that are worth less than one rating"
MEANS = "table user_overlap was not published: 1 means that are not between their bounds"
BROKEN: dict[str, tuple[list[Any], str]] = {
    "no rows": ([], "recommendations are empty: every user has seen every item, or none was ranked"),
    "no first rank": ([("ada", 2, "i1", 3.0, 2.0, 1.0)], RANKS),
    "a gap": ([*GOOD, ("ada", 4, "i4", 1.0, 1.0, 0.0)], RANKS),
    "a rank twice": ([*GOOD, ("ada", 2, "i4", 1.0, 1.0, 0.0)], RANKS),
    "no rank": ([("ada", None, "i1", 3.0, 2.0, 1.0)], RANKS),
    "an item twice": ([*GOOD, ("bob", 2, "i2", 0.5, 1.0, -0.5)], ITEMS),
    "no item": ([*GOOD, ("bob", 2, None, 0.5, 1.0, -0.5)], ITEMS),
    "a score that is NaN": ([("ada", 1, "i1", math.nan, 2.0, 1.0), GOOD[2]], SCORES),
    "an infinite preference": ([("ada", 1, "i1", 3.0, math.inf, 1.0)], SCORES),
    "no confounder": ([("ada", 1, "i1", 2.0, 2.0, None)], SCORES),
    "a user twice": (2 * [SEEN_OF_ADA], "table user_overlap was not published: 1 rows beyond one for each user"),
    "worth more than there is": ([("ada", 3, 3.1, 0.1, 3.0, 2.0, 4.0)], WORTH),
    "worth nothing": ([("ada", 3, 0.0, 0.1, 3.0, 2.0, 4.0)], WORTH),
    "more than certain": ([("ada", 3, 2.5, 1.1, 3.0, 2.0, 4.0)], "table user_overlap .*: 1 propensities that are no"),
    "a mean below its bounds": ([("ada", 3, 2.5, 0.1, 1.0, 2.0, 4.0)], MEANS),
    "no bound": ([("ada", 3, 2.5, 0.1, 3.0, -math.inf, 4.0)], MEANS),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_named_with_how_often_it_is_broken(spark: SparkSession, what: str) -> None:
    rows, message = BROKEN[what]
    of_overlap = "overlap" in message
    table = frame_of(spark, rows, OVERLAP if of_overlap else SCHEMA)
    with pytest.raises(AuditError, match=f"^the {message}"):
        audit_overlap(table, "user") if of_overlap else audit_recommendations(table, None)


def test_a_table_of_overlap_may_be_off_by_rounding_and_no_more(spark: SparkSession) -> None:
    """One without rows is published too: its users may have rated nothing."""
    audit_overlap(frame_of(spark, [], OVERLAP), "user")
    audit_overlap(frame_of(spark, [SEEN_OF_ADA, ("bob", 1, 1.0 - 1e-12, 0.0, 0.1 + 0.2, 0.3, 0.3)], OVERLAP), "user")
    for row, message in (
        (("bob", 1, 1.0 - 1e-6, 0.0, 0.3, 0.3, 0.3), WORTH),
        (("bob", 1, 1.0, 0.0, 0.301, 0.3, 0.3), MEANS),
    ):
        with pytest.raises(AuditError, match=f"^the {message}"):
            audit_overlap(frame_of(spark, [SEEN_OF_ADA, row], OVERLAP), "user")


def test_seen_items_are_refused_where_they_were_to_be_left_out(spark: SparkSession) -> None:
    table, seen = frame_of(spark, GOOD, SCHEMA), seen_by(spark, [*SEEN, ("ada", "i2"), ("bob", "i2")])
    with pytest.raises(AuditError, match="2 recommended items that the user has seen"):
        audit_recommendations(table, seen)
    for kept in (None, seen_by(spark, SEEN)):
        audit_recommendations(table, kept)


def test_what_is_not_on_offer_and_too_many_of_a_category_are_refused(spark: SparkSession) -> None:
    table = frame_of(spark, GOOD, SCHEMA)
    items = frame_of(spark, [("i1", "drama"), ("i2", "drama")], "item_id string, category string")
    audit_recommendations(table, None, items, 2)
    with pytest.raises(AuditError, match="1 users with more than 1 items of one category"):
        audit_recommendations(table, None, items, 1)
    with pytest.raises(AuditError, match="2 recommended items that are not on offer"):
        audit_recommendations(table, None, items.where("item_id = 'i1'"))


MONDAY = {"ada": ["i1", "i2", "i3"], "bob": ["i2", "i1"], "gone": ["i1"]}
TUESDAY = {"ada": ["i2", "i1", "i4"], "bob": ["i2", "i1"], "new": ["i9"]}


def lists(spark: SparkSession, items_of: dict[str, list[str]]) -> DataFrame:
    rows = [
        (user, item, rank, float(len(items) - rank))
        for user, items in items_of.items()
        for rank, item in enumerate(items, start=1)
    ]
    return frame_of(spark, rows, "user_id string, item_id string, rank int, score double")


def test_rows_that_came_went_and_moved(spark: SparkSession) -> None:
    found = changes(lists(spark, MONDAY), lists(spark, TUESDAY)).orderBy("user_id", "item_id").collect()
    assert [tuple(row) for row in found] == [
        ("ada", "i1", "moved", 1, 2),
        ("ada", "i2", "moved", 2, 1),
        ("ada", "i3", "removed", 3, None),
        ("ada", "i4", "added", None, 3),
        ("gone", "i1", "removed", 1, None),
        ("new", "i9", "added", None, 1),
    ]
    assert turnover(lists(spark, MONDAY), lists(spark, TUESDAY)) == (5, 1)


STAMP = ",model_version:string,run_id:string,run_date:date"


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (
            schemas.recommendations(StringType(), LongType()),
            "user_id:string,rank:int,item_id:bigint,score:double,preference:double,confounder:double" + STAMP,
        ),
        (
            schemas.recommendations(LongType(), LongType(), intervals=True),
            "user_id:bigint,rank:int,item_id:bigint,score:double,preference:double,confounder:double,low:double,"
            "high:double,extrapolates:boolean,odds_to_change:double" + STAMP,
        ),
        (
            schemas.overlap("item", StringType()),
            "item_id:string,ratings:bigint,effective_ratings:double,smallest_propensity:double,mean_rating:double,"
            "mean_low:double,mean_high:double,odds:double" + STAMP,
        ),
        (
            schemas.factors("user", LongType()),
            "id:bigint,features:array<double>,bias:double,slopes:array<double>,covariates:array<double>,gamma:double,"
            "exposure_shape:array<double>,exposure_rate:array<double>" + STAMP,
        ),
        (schemas.REJECTS, "raw:string,reasons:array<string>,run_id:string"),
    ],
)
def test_columns_of_the_contract(schema: StructType, columns: str) -> None:
    assert schema.simpleString() == f"struct<{columns}>"


def test_columns_of_items_and_metrics() -> None:
    assert "gamma" not in schemas.factors("item", LongType()).fieldNames()
    assert schemas.METRICS.fieldNames() == ["run_id", "model", "split", "metric", "value", "ci_low", "ci_high", "n"]


def test_conform_orders_columns_and_refuses_others(spark: SparkSession) -> None:
    frame = frame_of(spark, [("r1", "x", ["why"])], "run_id string, raw string, reasons array<string>")
    assert_df_equality(schemas.conform(frame, schemas.REJECTS, "rejects"), frame.select("raw", "reasons", "run_id"))
    with pytest.raises(DcrecError, match="table rejects: found more string, raw is not there; expected more is not"):
        schemas.conform(frame.withColumnRenamed("raw", "more"), schemas.REJECTS, "rejects")
    wrong = frame_of(spark, [("r", "x", date(2026, 1, 1))], "run_id string, raw string, reasons date")
    with pytest.raises(DcrecError, match="found reasons date; expected reasons array<string>"):
        schemas.conform(wrong, schemas.REJECTS, "rejects")
