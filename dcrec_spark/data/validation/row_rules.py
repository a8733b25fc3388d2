"""Rules for a single row, as Spark expressions. A row gets the name of every rule that it breaks."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, NumericType, StringType, TimestampNTZType, TimestampType

from dcrec_spark.config.sections import ValidationConfig
from dcrec_spark.data.columns import MALFORMED, NUMBER_TEXT, NUMBERS, Rule, names_of_broken
from dcrec_spark.data.limits import LARGEST_COUNT, LARGEST_RATING, SMALLEST_PROPENSITY
from dcrec_spark.spark.compat import try_cast

# Allowed clock skew: a rating from further ahead is rejected.
CLOCK_SKEW_SECONDS = 86_400
_SEEN_BY_READER = ("empty", "unparsable")


def check_rows(raw: DataFrame, config: ValidationConfig, now: float) -> DataFrame:
    """Read the numbers and times of each row, and name the rules that it breaks.

    raw : The layout of :mod:`dcrec_spark.data.columns`. ``read_problems`` may be missing.
    now : seconds since 1970. Timestamps more than a day later are rejected.
    Returns user_id, item_id, rating (count, propensity): double, (timestamp: long,) raw, reasons: array<string>.
    """
    types = {field.name: field.dataType for field in raw.schema}
    names: list[str] = [name for name in NUMBERS if name in types]
    values = {name: _number(name, types[name]) for name in names}
    rules = _id_rules("user", types) + _id_rules("item", types)
    for name, value in values.items():
        rules += _number_rules(name, value, types[name])
    rules += _meaning_rules(values, config)
    columns = [value.alias(name) for name, value in values.items()]
    if "timestamp" in types:
        seconds = _seconds(types["timestamp"])
        rules += _time_rules(seconds, types["timestamp"], now)
        columns.append(seconds.alias("timestamp"))
    reasons = _reasons(rules, has_reader="read_problems" in types)
    return raw.select("user_id", "item_id", *columns, "raw", reasons.alias("reasons"))


def _reasons(rules: list[Rule], has_reader: bool) -> Column:
    broken = names_of_broken(rules)
    if not has_reader:
        return broken
    # The columns of a row that could not be split are not those that they seem to be.
    malformed = F.array_contains("read_problems", MALFORMED)
    return F.when(malformed, F.array(F.lit(MALFORMED))).otherwise(F.concat("read_problems", broken))


def _blank(column: Column, stored: DataType) -> Column:
    return (F.trim(column) == "") if isinstance(stored, StringType) else F.lit(False)


def _id_rules(side: str, types: dict[str, DataType]) -> list[Rule]:
    identity = F.col(f"{side}_id")
    null = identity.isNull()
    if "read_problems" in types:
        for problem in _SEEN_BY_READER:
            null &= ~F.array_contains("read_problems", f"{problem}_{side}")
    return [Rule(f"null_{side}", null), Rule(f"empty_{side}", _blank(identity, types[f"{side}_id"]))]


def _number(name: str, stored: DataType) -> Column:
    value = try_cast(F.col(name), "double")
    return F.when(F.col(name).rlike(NUMBER_TEXT), value) if isinstance(stored, StringType) else value


def _number_rules(name: str, value: Column, stored: DataType) -> list[Rule]:
    nothing = F.col(name).isNull() | _blank(F.col(name), stored)
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
        return try_cast(column, "long")
    if isinstance(stored, TimestampType | TimestampNTZType | DateType):
        return column.cast("timestamp").cast("long")
    return F.coalesce(try_cast(column, "long"), try_cast(column, "timestamp").cast("long"))


def _time_rules(seconds: Column, stored: DataType, now: float) -> list[Rule]:
    given = F.col("timestamp").isNotNull() & ~_blank(F.col("timestamp"), stored)
    late = seconds > int(now) + CLOCK_SKEW_SECONDS
    return [Rule("unparsable_timestamp", given & seconds.isNull()), Rule("future_timestamp", late)]
