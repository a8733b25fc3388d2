"""Duplicates, several rows of one user and item: an error, or one rating made of them."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import ValidationConfig
from dcrec_spark.data.columns import NUMBERS
from dcrec_spark.errors import ConfigError, DataError

KEY = ["user_id", "item_id"]


def require_none(good: DataFrame) -> None:
    """Refuse ratings in which a pair has several rows.

    Raises DataError: with the number of such pairs, that of their rows, and one of them.
    """
    several = good.groupBy(*KEY).agg(F.count(F.lit(1)).alias("rows")).filter(F.col("rows") > 1)
    example = F.min(F.struct(*KEY, "rows"))
    counts = several.agg(
        F.count(F.lit(1)).alias("pairs"), F.sum("rows").alias("rows"), example.alias("example")
    ).first()
    if counts is None or counts["pairs"] == 0:
        return
    first = counts["example"]
    raise DataError(
        f"{counts['pairs']} pairs of user and item have more than one row ({counts['rows']} rows in all), for "
        f"example user {first['user_id']!r} and item {first['item_id']!r} with {first['rows']} rows; "
        "expected one row each. Clean the input, or set validation.duplicates to last, mean or sum"
    )


def merge(good: DataFrame, config: ValidationConfig) -> DataFrame:
    """Make one row per user and item.

    ``duplicates = last`` takes the row with the latest timestamp (the larger rating, then count, where times are equal.
    No time is oldest). ``mean`` and ``sum`` are of ratings and of counts, with the mean propensity and the latest
    timestamp.

    good : rows that break no rule.
    Returns the columns of ``good`` and ``rows``, the number of rows that one was made of.
    Raises ConfigError: ``last`` without timestamps.
    """
    values = [name for name in NUMBERS if name in good.columns]
    has_time = "timestamp" in good.columns
    if config.duplicates == "last":
        if not has_time:
            raise ConfigError(
                "setting validation.duplicates: found 'last', but the input has no timestamp; set "
                "input.columns.timestamp, or choose mean, sum or error"
            )
        latest = F.max(F.struct("timestamp", *values))
        merged = [latest[name].alias(name) for name in values]
    else:
        means = values if config.duplicates == "mean" else ["propensity"]
        merged = [_in_order(name, mean=name in means).alias(name) for name in values]
    if has_time:
        merged.append(F.max("timestamp").alias("timestamp"))
    return good.groupBy(*KEY).agg(*merged, F.count(F.lit(1)).alias("rows"))


def _in_order(name: str, mean: bool) -> Column:
    """Sum or mean, added up smallest first: rows come in any order, and the last digits of a sum depend on it."""
    numbers = F.array_sort(F.collect_list(F.col(name).cast("double")))
    total = F.when(F.size(numbers) > 0, F.aggregate(numbers, F.lit(0.0), lambda a, b: a + b))
    return total / F.size(numbers) if mean else total
