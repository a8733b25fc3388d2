"""Rules for a single row, as Spark expressions. A row gets the name of every rule that it breaks."""

from collections.abc import Iterable
from datetime import date
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, NumericType, TimestampNTZType, TimestampType

from dcrec_spark.config.sections import ValidationConfig
from dcrec_spark.data.columns import MALFORMED, NUMBERS, OPEN_QUOTE, Rule, is_blank, names_of_broken, number_in
from dcrec_spark.data.limits import LARGEST_COUNT, LARGEST_RATING, SMALLEST_PROPENSITY
from dcrec_spark.spark.compat import try_cast

# Allowed clock skew: a rating from further ahead is rejected.
CLOCK_SKEW_SECONDS = 86_400
_NANOSECONDS = 10**17
_SEEN_BY_READER = ("empty", "unparsable")


class Window(NamedTuple):
    """First and last day of the ratings to use, both included, in the time zone of the session. None: no limit."""

    since: date | None = None
    until: date | None = None

    def describe(self) -> str:
        """Say which days these are, to go on after a name."""
        limits = {"from": self.since, "to": self.until}
        return "".join(f" {word} {day}" for word, day in limits.items() if day is not None)

    def leave_out(self, raw: DataFrame) -> DataFrame:
        """Leave out the rows of other days. A row whose time cannot be read stays, and is rejected."""
        if self == ALL_DAYS or "timestamp" not in raw.columns:
            return raw
        seconds, inside = _seconds(raw.schema["timestamp"].dataType), F.lit(True)
        if self.since is not None:
            inside &= seconds >= F.lit(self.since).cast("timestamp").cast("long")
        if self.until is not None:
            inside &= seconds < F.date_add(F.lit(self.until), 1).cast("timestamp").cast("long")
        unread = F.array_contains("read_problems", MALFORMED) if "read_problems" in raw.columns else F.lit(False)
        return raw.where(seconds.isNull() | inside | unread)


ALL_DAYS = Window()


def check_rows(raw: DataFrame, config: ValidationConfig, now: float, needs_time: bool = False) -> DataFrame:
    """Read the numbers and times of each row, and name the rules that it breaks.

    raw : The layout of :mod:`dcrec_spark.data.columns`. ``read_problems`` may be missing.
    now : seconds since 1970. Timestamps more than a day later are rejected. needs_time : whether rows without one are.
    Returns user_id, item_id, rating (count, propensity): double, (timestamp: long,) raw, reasons: array<string>.
    """
    types = {field.name: field.dataType for field in raw.schema}
    names: list[str] = [name for name in NUMBERS if name in types]
    values = {name: number_in(F.col(name), types[name]) for name in names}
    rules = _id_rules("user", types) + _id_rules("item", types)
    for name, value in values.items():
        rules += _number_rules(name, value, types[name])
    rules += _meaning_rules(values, config)
    columns = [value.alias(name) for name, value in values.items()]
    if "timestamp" in types:
        seconds, stored = _seconds(types["timestamp"]), types["timestamp"]
        given = F.col("timestamp").isNotNull() & ~is_blank(F.col("timestamp"), stored)
        rules += [Rule("null_timestamp", ~given)] if needs_time else []
        rules.append(Rule("unparsable_timestamp", given & seconds.isNull()))
        rules.append(Rule("future_timestamp", seconds > int(now) + CLOCK_SKEW_SECONDS))
        columns.append(seconds.alias("timestamp"))
    reasons = _reasons(rules, has_reader="read_problems" in types)
    return raw.select("user_id", "item_id", *columns, "raw", reasons.alias("reasons"))


def _reasons(rules: list[Rule], has_reader: bool) -> Column:
    broken = names_of_broken(rules)
    if not has_reader:
        return broken
    # The columns of a row that could not be split are not those that they seem to be.
    split = F.concat("read_problems", broken)
    for mark in (MALFORMED, OPEN_QUOTE):  # the second one, which says more, in place of the first
        split = F.when(F.array_contains("read_problems", mark), F.array(F.lit(mark))).otherwise(split)
    return split


def _id_rules(side: str, types: dict[str, DataType]) -> list[Rule]:
    identity = F.col(f"{side}_id")
    null = identity.isNull()
    if "read_problems" in types:
        for problem in _SEEN_BY_READER:
            null &= ~F.array_contains("read_problems", f"{problem}_{side}")
    return [Rule(f"null_{side}", null), Rule(f"empty_{side}", is_blank(identity, types[f"{side}_id"]))]


def _number_rules(name: str, value: Column, stored: DataType) -> list[Rule]:
    nothing = F.col(name).isNull() | is_blank(F.col(name), stored)
    return [
        Rule(f"null_{name}", nothing),
        Rule(f"unparsable_{name}", ~nothing & value.isNull()),
        Rule(f"nan_{name}", F.isnan(value)),
        Rule(f"infinite_{name}", F.abs(value) == float("inf")),
    ]


def _meaning_rules(values: dict[str, Column], config: ValidationConfig) -> list[Rule]:
    rating = values["rating"]
    # NaN is greater than every number in Spark.
    finite = ~F.isnan(rating) & (F.abs(rating) != float("inf"))
    out_of_scale = F.lit(False)
    if config.scale_min is not None:
        out_of_scale |= rating < config.scale_min
    if config.scale_max is not None:
        out_of_scale |= rating > config.scale_max
    counts = [values["count"]] if "count" in values else []
    counts += [rating] if config.kind == "counts" else []
    rules = [
        Rule("out_of_scale", finite & out_of_scale),
        # Of counts the rules below say so.
        Rule("extreme_rating", finite & (F.abs(rating) > LARGEST_RATING) & F.lit(config.kind == "ratings")),
        Rule("non_positive_count", _any(count <= 0 for count in counts)),
        Rule("count_too_large", _any((count > LARGEST_COUNT) & (count < float("inf")) for count in counts)),
    ]
    if "propensity" in values:
        p = values["propensity"]
        rules.append(Rule("propensity_out_of_range", (p < SMALLEST_PROPENSITY) | (p > 1)))
    return rules


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(or_, (F.coalesce(condition, F.lit(False)) for condition in conditions), F.lit(False))


def _seconds(stored: DataType) -> Column:
    """Seconds since 1970. Text holds seconds too, or a date or time, in the session's time zone."""
    column = F.col("timestamp")
    if isinstance(stored, NumericType):
        number = try_cast(column, "long")
        # Of nanoseconds, which Spark reads as numbers. As seconds they would be thousands of millions of years away.
        return F.when(F.abs(number) > _NANOSECONDS, F.floor(number / 10**9)).otherwise(number)
    if isinstance(stored, TimestampType | TimestampNTZType | DateType):
        return column.cast("timestamp").cast("long")
    return F.coalesce(try_cast(column, "long"), try_cast(column, "timestamp").cast("long"))
