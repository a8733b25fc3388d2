"""Each bad row is rejected with all its reasons, the counts add up, and a run that cannot go on says why."""

from datetime import date
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.sections import ValidationConfig
from dcrec_spark.data.validation.row_rules import Window
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of, persisted, persisted_before

NOW = 1_700_000_000
DAY = 86_400
LENIENT: dict[str, Any] = {"max_reject_share": 1.0}
SCHEMA = "user_id string, item_id string, rating string"
WITH_TIME = "user_id string, item_id string, rating double, timestamp long"
GOOD = [("u1", "i1", "4"), ("u2", "i2", "3")]
ZEROS = [("u1", "i1", "0"), ("u2", "i2", "-0.0")]


def check(spark: SparkSession, data: list[Any], schema: str = "", seed: int = 0, **config: Any) -> Validated:
    """Of rows as in SCHEMA, or in WITH_TIME, unless the schema is another one."""
    frame = frame_of(spark, data, schema or (WITH_TIME if data and len(data[0]) == 4 else SCHEMA))
    raw = frame.withColumn("raw", F.struct("*"))
    return validate(raw, ValidationConfig(**config), seed=seed, now=NOW)


def reasons(validated: Validated) -> dict[str, list[str]]:
    """By the item's id in the raw row: each test gives bad rows an item of their own."""
    item = F.get_json_object("raw", "$.item_id").alias("item")
    return {row["item"]: row["reasons"] for row in validated.rejects.select(item, "reasons").collect()}


def ratings(validated: Validated, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, validated.ratings.select(*(columns or ("user_id", "item_id", "rating"))).collect()))


def assert_rejects(validated: Validated, expected: list[tuple[str, list[str]]]) -> None:
    rejects = frame_of(validated.rejects.sparkSession, expected, "raw string, reasons array<string>")
    assert_df_equality(validated.rejects, rejects, ignore_nullable=True)


BAD_RATINGS = {
    "null_rating": ["", "  ", None],
    "unparsable_rating": ["four", "4,5", "5f", "0x1p3", "4" * 500],
    "nan_rating": ["NaN"],
    "infinite_rating": ["inf", "-Infinity", "1e999"],
    "out_of_scale": ["0.99", "5.01", "-3"],
}
GOOD_RATINGS = {"1": 1.0, " 5 ": 5.0, "4.5": 4.5, "+2": 2.0, "3.": 3.0, "4e0": 4.0, "0.2E1": 2.0}


def test_ratings_as_text(spark: SparkSession) -> None:
    why = [(reason, text) for reason, texts in BAD_RATINGS.items() for text in texts]
    bad = [("u1", f"bad{number}", text) for number, (_, text) in enumerate(why)]
    good = [("u2", f"good{number}", text) for number, text in enumerate(GOOD_RATINGS)]
    found = check(spark, [*bad, *good, *GOOD], scale_min=1, scale_max=5, **LENIENT)
    n_good, n_bad = len(good) + len(GOOD), len(bad)
    assert found.counts == {
        "rows_in": n_good + n_bad, "accepted": n_good, "rejected": n_bad, "ratings": n_good, "merged_duplicates": 0
    }  # fmt: skip
    assert reasons(found) == {f"bad{number}": [reason] for number, (reason, _) in enumerate(why)}
    expected = {f"good{number}": value for number, value in enumerate(GOOD_RATINGS.values())}
    assert expected.items() <= {item: rating for _, item, rating in ratings(found)}.items()


def test_all_reasons_of_a_row(spark: SparkSession) -> None:
    found = check(spark, [*GOOD, (None, " ", "x"), ("", None, None)], **LENIENT)
    assert_rejects(
        found,
        [
            ('{"item_id":" ","rating":"x"}', ["null_user", "empty_item", "unparsable_rating"]),
            ('{"user_id":""}', ["empty_user", "null_item", "null_rating"]),
        ],
    )
    assert found.counts["rejected"] == 2
    assert sum(found.reasons.values()) == 6


def test_a_malformed_row_has_no_other_reason_and_an_unreadable_id_is_not_also_null(spark: SparkSession) -> None:
    schema = "user_id long, item_id long, rating string, raw string, read_problems array<string>"
    data = [(1, 1, "3", "", []), (2, 2, "3", "", []), (None, None, "x", "a;b;c", ["malformed_row"])]
    data.append((None, 3, "x", "u1,3,x", ["unparsable_user"]))
    found = validate(frame_of(spark, data, schema).coalesce(1), ValidationConfig(**LENIENT))
    assert_rejects(found, [("a;b;c", ["malformed_row"]), ("u1,3,x", ["unparsable_user", "unparsable_rating"])])


def test_counts_have_to_be_positive_numbers(spark: SparkSession) -> None:
    bad = {"0": "non_positive", "-1": "non_positive", "x": "unparsable", None: "null", "nan": "nan", "inf": "infinite"}
    data = [(*GOOD[0], "2"), (*GOOD[1], "0.5"), ("u", "large", "3", str(2**62))]
    data += [("u", f"bad{number}", "3", count) for number, count in enumerate(bad)]
    found = check(spark, data, f"{SCHEMA}, count string", **LENIENT)
    expected = {f"bad{number}": [f"{reason}_count"] for number, reason in enumerate(bad.values())}
    assert reasons(found) == {**expected, "large": ["count_too_large"]}
    assert ratings(found, "user_id", "count") == [("u1", 2.0), ("u2", 0.5)]
    as_ratings = check(spark, [*GOOD, ("u", "a", "0"), ("u", "c", str(2**62))], kind="counts", **LENIENT)
    assert reasons(as_ratings) == {"a": ["non_positive_count"], "c": ["count_too_large"]}


def test_negative_ratings_are_refused_before_the_fit_by_the_setting_that_rejects_them(spark: SparkSession) -> None:
    bad = [*GOOD, ("u2", "i1", "-2")]
    with pytest.raises(DataError, match=r"the ratings go down to -2, .*probabilistic.*, or validation\.scale_min to 0"):
        check(spark, bad, **LENIENT)
    assert reasons(check(spark, bad, scale_min=0, **LENIENT)) == {"i1": ["out_of_scale"]}


def test_ratings_beyond_any_scale_are_rejected(spark: SparkSession) -> None:
    """Sums of them would overflow in the fit; the smallest number does no harm."""
    bad = {"a": "1e308", "b": "-1e308", "c": "1.1e9"}
    rows = [*GOOD, ("u", "fine", "1e9"), ("u", "tiny", "5e-324"), *(("u", item, text) for item, text in bad.items())]
    found = check(spark, rows, **LENIENT)
    assert reasons(found) == {item: ["extreme_rating"] for item in bad}
    assert {1e9, 5e-324} <= {row["rating"] for row in found.ratings.collect()}


def test_timestamps(spark: SparkSession) -> None:
    good = {
        "1600000000": 1_600_000_000,
        "1970-01-02": DAY,
        "1970-01-02 00:00:01": DAY + 1,
        "0": 0,
        None: None,
        "": None,
    }
    good[str(NOW + DAY)] = NOW + DAY
    data = [("u1", f"good{number}", "3", text) for number, text in enumerate(good)]
    data += [("u2", "late", "3", str(NOW + DAY + 1)), ("u2", "odd", "3", "yesterday"), ("u2", "i", "3", None)]
    found = check(spark, data, f"{SCHEMA}, timestamp string", **LENIENT)
    assert reasons(found) == {"late": ["future_timestamp"], "odd": ["unparsable_timestamp"]}
    seconds = {row["item_id"]: row["timestamp"] for row in found.ratings.collect()}
    assert seconds == {f"good{number}": value for number, value in enumerate(good.values())} | {"i": None}


TWICE = [("u1", "i1", 1.0, 10), ("u1", "i1", 5.0, 30), ("u1", "i1", 3.0, 20), ("u2", "i2", 2.0, 40)]


@pytest.mark.parametrize(
    ("policy", "kind", "rating"), [("last", "ratings", 5.0), ("mean", "ratings", 3.0), ("sum", "counts", 9.0)]
)
def test_duplicates_become_one_rating(spark: SparkSession, policy: str, kind: str, rating: float) -> None:
    found = check(spark, TWICE, duplicates=policy, kind=kind)
    assert ratings(found, "user_id", "item_id", "rating", "timestamp") == [
        ("u1", "i1", rating, 30),
        ("u2", "i2", 2.0, 40),
    ]
    assert found.counts == {"rows_in": 4, "accepted": 4, "rejected": 0, "ratings": 2, "merged_duplicates": 2}


def test_last_breaks_ties_by_rating_and_rejects_rows_without_a_time(spark: SparkSession) -> None:
    data = [("u1", "i1", 2.0, 10), ("u1", "i1", 4.0, 10), ("u2", "i2", 5.0, None), ("u2", "i2", 1.0, 0)]
    found = check(spark, data, duplicates="last", **LENIENT)
    assert ratings(found) == [("u1", "i1", 4.0), ("u2", "i2", 1.0)]
    assert found.reasons == {"null_timestamp": 1}


@pytest.mark.parametrize("kind", ["long", "string", "timestamp", "date"])
def test_ratings_of_other_days_are_left_out_and_those_without_a_time_rejected(spark: SparkSession, kind: str) -> None:
    at = {f"i{day}": f"2023-10-0{day}" for day in range(1, 6)}
    rows = [("u1", item, "3", day) for item, day in at.items()] + [
        ("u2", "i3", "3", "2023-10-03"),
        ("u2", "x", "3", None),
    ]
    frame = frame_of(spark, rows, f"{SCHEMA}, timestamp string")
    stored = F.to_timestamp("timestamp").cast("long" if kind in ("long", "string") else kind).cast(kind)
    raw = frame.withColumn("timestamp", stored).withColumn("raw", F.struct("*"))
    days = Window(since=date(2023, 10, 2), until=date(2023, 10, 3))
    found = validate(raw, ValidationConfig(**LENIENT), now=NOW, window=days)
    assert {item for _, item, _ in ratings(found)} == {"i2", "i3"}
    assert found.reasons == {"null_timestamp": 1}


def test_too_few_ratings_are_counted_once_and_are_not_bad(spark: SparkSession) -> None:
    """Leaving out i3 brings u3 to one rating: it stays, for the rule looks once."""
    pairs = ("u1 i1", "u1 i2", "u2 i1", "u2 i2", "u3 i2", "u3 i3", "u4 i1")
    data = [(*pair.split(), "3") for pair in pairs]
    found = check(spark, data, min_ratings_per_user=2, min_ratings_per_item=2, max_reject_share=0.0)
    assert found.reasons == {"too_few_ratings_item": 1, "too_few_ratings_user": 1}
    assert ("u3", "i2", 3.0) in ratings(found)
    assert found.counts == {"rows_in": 7, "accepted": 5, "rejected": 2, "ratings": 5, "merged_duplicates": 0}


MANY = [("bot", f"i{number}", 3.0, number) for number in range(9)] + [("u2", "i1", 4.0, 1)]


def test_a_cap_keeps_the_most_recent(spark: SparkSession) -> None:
    found = check(spark, MANY, max_ratings_per_user=3)
    assert [item for user, item, _ in ratings(found) if user == "bot"] == ["i6", "i7", "i8"]
    assert found.reasons == {"too_many_ratings_user": 6}


def test_a_cap_without_times_draws_by_seed_alone(spark: SparkSession) -> None:
    data = [(user, item, "3") for user, item, _, _ in MANY]
    capped, reversed_rows, another = (
        ratings(check(spark, rows, max_ratings_per_user=3, seed=seed))
        for rows, seed in ((data, 7), (data[::-1], 7), (data, 1))
    )
    assert capped == reversed_rows
    assert len(capped) == 4
    assert capped != another


@pytest.mark.parametrize(
    ("data", "config", "words"),
    [
        ([], {}, "there are no rows; expected ratings"),
        (GOOD, {"duplicates": "last"}, r"validation\.duplicates.*input\.columns\.timestamp"),
        (
            [("u1", "i1", "x"), ("u2", "", "y")],
            {},
            r"all 2 rows are rejected: unparsable_rating \(2 rows\), empty_item \(1 rows\)",
        ),
        (
            [*GOOD, ("u3", "i3", "x")],
            {"max_reject_share": 0.3},
            r"1 of 3 rows are bad, a share of 0\.3333.*max_reject_share is 0\.3.*\"u3\",\"item_id\":\"i3\"",
        ),
        ([("u1", "i1", "4"), ("u1", "i2", "3")], {}, r"all 2 good rows are of one user.*columns\.user"),
        ([("u1", "i1", "4"), ("u2", "i1", "3")], {}, "all 2 good rows are of one item"),
        ([("u1", "i1", "4")], {}, "all 1 good rows are of one user"),
        (ZEROS, {}, r"all 2 good rows have the rating 0.*input\.columns\.rating"),
        (TWICE, {}, r"^1 pairs .* more than one row \(3 rows in all\), .* user 'u1' and item 'i1' with 3 rows"),
        (GOOD, {"min_ratings_per_user": 2}, r"all 2 rows are rejected: too_few_ratings_user \(2 rows\)"),
    ],
)
def test_a_run_that_cannot_go_on_says_why(spark: SparkSession, data: Any, config: Any, words: str) -> None:
    held = persisted_before(spark)
    with pytest.raises((ConfigError, DataError), match=words):
        check(spark, data, **config)
    assert persisted(spark) <= held  # a table of another test may go, if it is of the same rows


def test_equal_ratings_and_an_undeclared_scale_are_warnings(spark: SparkSession) -> None:
    assert check(spark, [*ZEROS, ("u2", "i1", "1")]).counts["ratings"] == 3
    found = check(spark, [("u1", "i1", "4"), ("u2", "i2", "4")])
    assert [text[:17] for text in found.warnings] == ["all ratings are 4", "no scale is decla"]
    assert check(spark, GOOD, scale_min=1, scale_max=5).warnings == ()


@pytest.mark.parametrize(("policy", "kind"), [("last", "ratings"), ("mean", "ratings"), ("sum", "counts")])
def test_the_outcome_does_not_depend_on_partitions(spark: SparkSession, policy: str, kind: str) -> None:
    """Not by one digit: 0.1 + 0.2 + 0.3 is another number than 0.3 + 0.2 + 0.1."""
    data = [(f"u{n % 17}", f"i{n % 13}", str(n % 7 / 10), n % 5) for n in range(600)]
    frame = frame_of(spark, data, f"{SCHEMA}, timestamp long").withColumn("raw", F.struct("*"))
    config = ValidationConfig(kind=kind, duplicates=policy, max_ratings_per_user=5, **LENIENT)
    one, other = (validate(frame.repartition(n), config, seed=3, now=NOW).ratings for n in (1, 5))
    assert_df_equality(one, other, ignore_row_order=True)


def test_missing_timestamps_are_counted_and_nanoseconds_are_understood(spark: SparkSession) -> None:
    found = check(spark, [("u1", "i1", 2.0, None), ("u2", "i2", 4.0, 1_600_000_000_000_000_123)])
    assert ratings(found, "user_id", "timestamp") == [("u1", None), ("u2", 1_600_000_000)]
    assert found.counts["without_timestamp"] == 1
    assert "1 of 2 good rows have no timestamp" in found.warnings


def test_limits_count_pairs_not_rows(spark: SparkSession) -> None:
    held = persisted_before(spark)
    data = [("u1", "i1", "3")] * 3 + [("u2", "i1", "3"), ("u2", "i2", "3"), ("u3", "i1", "3"), ("u3", "i2", "3")]
    found = check(spark, data, duplicates="mean", min_ratings_per_user=2)
    assert found.reasons == {"too_few_ratings_user": 3}
    assert found.counts == {"rows_in": 7, "accepted": 4, "rejected": 3, "ratings": 4, "merged_duplicates": 0}
    found.unpersist()
    assert persisted(spark) == held
