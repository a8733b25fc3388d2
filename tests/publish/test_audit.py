"""Every promise to the readers of the tables of lists and of overlap, broken once."""

import math
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import AuditError
from dcrec_spark.publish.audit import Promises, audit_overlap, audit_recommendations
from tests.frames import frame_of

Row = tuple[str | None, int | None, str | None, float | None, float | None, float | None]

SCHEMA = "user_id string, rank int, item_id string, score double, preference double, confounder double"
GOOD: list[Row] = [("ada", 1, "i1", 3.0, 2.0, 1.0), ("ada", 2, "i2", 2.0, 2.0, 0.0), ("bob", 1, "i2", 1.0, 1.5, -0.5)]
SEEN = [("ada", "i3"), ("bob", "i1"), ("bob", "i3")]


def table_of(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return frame_of(spark, rows, SCHEMA)


def seen_by(spark: SparkSession, pairs: list[tuple[str, str]]) -> DataFrame:
    return frame_of(spark, pairs, "user_id string, item_id string").selectExpr("*", "3.0 as rating")


def complaint_about(table: DataFrame, seen: DataFrame | None = None) -> str | None:
    """What the audit has to say; None where it lets the table pass."""
    try:
        audit_recommendations(table, seen)
    except AuditError as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("filtered", [True, False])
def test_a_table_that_keeps_its_promises_passes(spark: SparkSession, filtered: bool) -> None:
    assert complaint_about(table_of(spark, GOOD), seen_by(spark, SEEN) if filtered else None) is None


RANKS = "1 users whose ranks do not run from 1 without gaps"
ITEMS = "1 users with an item twice, or missing"
SCORES = "1 scores that are null, NaN or infinite"
BROKEN: dict[str, tuple[list[Row], str]] = {
    "no first rank": ([("ada", 2, "i1", 3.0, 2.0, 1.0)], RANKS),
    "a gap": ([*GOOD, ("ada", 4, "i4", 1.0, 1.0, 0.0)], RANKS),
    "a rank twice": ([*GOOD, ("ada", 2, "i4", 1.0, 1.0, 0.0)], RANKS),
    "no rank": ([("ada", None, "i1", 3.0, 2.0, 1.0)], RANKS),
    "an item twice": ([*GOOD, ("bob", 2, "i2", 0.5, 1.0, -0.5)], ITEMS),
    "no item": ([*GOOD, ("bob", 2, None, 0.5, 1.0, -0.5)], ITEMS),
    "a score that is NaN": ([("ada", 1, "i1", math.nan, 2.0, 1.0), GOOD[2]], SCORES),
    "an infinite preference": ([("ada", 1, "i1", 3.0, math.inf, 1.0)], SCORES),
    "no confounder": ([("ada", 1, "i1", 2.0, 2.0, None)], SCORES),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_named_with_how_often_it_is_broken(spark: SparkSession, what: str) -> None:
    rows, message = BROKEN[what]
    assert AuditError.exit_code == 4
    assert complaint_about(table_of(spark, rows)) == f"the recommendations were not published: {message}"


def test_seen_items_are_refused_where_they_were_to_be_left_out(spark: SparkSession) -> None:
    table, seen = table_of(spark, GOOD), seen_by(spark, [*SEEN, ("ada", "i2"), ("bob", "i2")])
    assert "2 recommended items that the user has seen" in str(complaint_about(table, seen))
    assert complaint_about(table) is None


def test_an_empty_table_is_refused(spark: SparkSession) -> None:
    assert "the recommendations are empty" in str(complaint_about(table_of(spark, [])))


def test_what_is_not_on_offer_and_too_many_of_a_category_are_refused(spark: SparkSession) -> None:
    table = table_of(spark, GOOD)
    items = frame_of(spark, [("i1", "drama"), ("i2", "drama")], "item_id string, category string")
    audit_recommendations(table, None, Promises(items, 2))
    with pytest.raises(AuditError, match="1 users with more than 1 items of one category"):
        audit_recommendations(table, None, Promises(items, 1))
    with pytest.raises(AuditError, match="2 recommended items that are not on offer"):
        audit_recommendations(table, None, Promises(items.where("item_id = 'i1'")))


OVERLAP = "user_id string, ratings long, effective_ratings double, smallest_propensity double, mean_rating double"
OVERLAP += ", mean_low double, mean_high double"
SEEN_OF_ADA = ("ada", 3, 2.5, 0.1, 3.0, 2.0, 4.0)
UNSURE = {
    "a user twice": ([SEEN_OF_ADA, SEEN_OF_ADA], "1 rows beyond one for each user"),
    "worth more than there is": ([("ada", 3, 3.1, 0.1, 3.0, 2.0, 4.0)], "1 users that are worth less than one rating"),
    "worth nothing": ([("ada", 3, 0.0, 0.1, 3.0, 2.0, 4.0)], "1 users that are worth less than one rating"),
    "more than certain": ([("ada", 3, 2.5, 1.1, 3.0, 2.0, 4.0)], "1 propensities that are no probabilities"),
    "a mean below its bounds": ([("ada", 3, 2.5, 0.1, 1.0, 2.0, 4.0)], "1 means that are not between their bounds"),
    "no bound": ([("ada", 3, 2.5, 0.1, 3.0, -math.inf, 4.0)], "1 means that are not between their bounds"),
}


def refusal_of(spark: SparkSession, rows: list[Any]) -> str | None:
    """Why a table of overlap is not published; None if it is."""
    try:
        audit_overlap(frame_of(spark, rows, OVERLAP), "user")
    except AuditError as error:
        return str(error)
    return None


@pytest.mark.parametrize("what", UNSURE)
def test_a_table_of_overlap_that_breaks_a_promise_is_refused(spark: SparkSession, what: str) -> None:
    rows, message = UNSURE[what]
    assert str(refusal_of(spark, rows)).startswith(f"the table user_overlap was not published: {message}")


def test_a_table_of_overlap_that_keeps_its_promises_is_published(spark: SparkSession) -> None:
    """One without rows too: its users may have rated nothing."""
    for rows in ([SEEN_OF_ADA, ("bob", 1, 1.0 - 1e-12, 0.0, 0.1 + 0.2, 0.3, 0.3)], []):
        assert refusal_of(spark, rows) is None
