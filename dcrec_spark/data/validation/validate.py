"""Validation: raw rows -> ratings, and rejects with all their reasons. Every row is in one of the two."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from dcrec_spark.config.sections import ValidationConfig
from dcrec_spark.data.columns import OPEN_QUOTE, check_types
from dcrec_spark.data.spark_errors import reading_rows
from dcrec_spark.data.validation import several_rows
from dcrec_spark.data.validation.row_rules import ALL_DAYS, Window, check_rows
from dcrec_spark.errors import DataError, cut

_SHOWN_REASONS = 3
# Accepted rows without a timestamp, where the input has a column of them.
UNTIMED = "without_timestamp"


@dataclass(frozen=True)
class Validated:
    """Ratings and rejects that raw rows were split into. ``ratings`` is cached until :meth:`unpersist`."""

    ratings: DataFrame  # user_id, item_id, rating: double (count: double, timestamp: long), a row per pair
    rejects: DataFrame  # raw: string, reasons: array<string>
    counts: dict[str, int]  # rows_in = accepted + rejected, accepted = ratings + merged_duplicates
    reasons: dict[str, int]  # rows by reason, and a row may have several
    warnings: tuple[str, ...]  # sentences for the readers of the run's record
    _release: Callable[[], object] = field(repr=False, compare=False)

    def unpersist(self) -> None:
        """Free what is cached. ``ratings`` and ``rejects`` would then read the input again."""
        self._release()


class _SameReasons(NamedTuple):
    """Rows that have the same reasons, with the range of their ratings."""

    reasons: tuple[str, ...]
    rows: int
    untimed: int
    lowest: float | None
    highest: float | None
    one_user: bool
    one_item: bool


def validate(
    raw: DataFrame,
    config: ValidationConfig,
    *,
    seed: int = 0,
    now: float | None = None,
    to_fit: bool = True,
    window: Window = ALL_DAYS,
    signed: bool = False,
    equal: bool = True,
    refused: Callable[[dict[str, int], dict[str, int], DataFrame], None] | None = None,
) -> Validated:
    """Split raw rows, in the layout of :mod:`dcrec_spark.data.columns`, into ratings and rejects.

    seed : Decides which ratings a cap leaves where times don't. now : Seconds since 1970. None: this machine's clock.
    to_fit : whether a model is fitted: this takes two users, two items, and ratings from 0 on, not all 0.
    window : days of the ratings to use. signed : whether ratings may be below 0. equal : whether all may be equal.
    refused : told the counts, the reasons and the rejects of rows that are refused.
    Raises DataError: the rows are refused, or a file cannot be read to its end. Raises ConfigError: ``duplicates=last``
    without timestamps.
    Two Spark jobs: one that finds or merges duplicates and caches the checked rows, and one that counts them.
    Rows left out by the number of their user's or item's ratings are rejects, but not bad: they don't count against
    ``max_reject_share``.
    """
    check_types({field.name.removesuffix("_id"): field.dataType for field in raw.schema})
    with ExitStack() as cached, reading_rows():
        checked = check_rows(
            window.leave_out(raw),
            config,
            time.time() if now is None else now,
            needs_time=config.duplicates == "last" or window != ALL_DAYS,
        )
        labelled = _label(checked, config, seed, cached)
        ratings, merged_rows = labelled.filter(F.size("reasons") == 0).drop("raw", "reasons"), 0
        if config.duplicates == "error":
            several_rows.require_none(ratings)
        else:
            merged = _cache(several_rows.merge(ratings, config), cached)
            merged_rows = int(merged.agg(F.sum("rows") - F.count(F.lit(1))).collect()[0][0] or 0)
            ratings = merged.drop("rows")
        groups = _groups(labelled)
        rejects = labelled.filter(F.size("reasons") > 0).select("raw", "reasons")
        counts, reasons = _counts(groups, merged_rows)
        try:
            _require_usable(groups, counts, reasons, config, rejects, window)
        except DataError:
            if refused is not None:
                refused(counts, reasons, rejects)
            raise
        good_rows = next(group for group in groups if not group.reasons)
        if to_fit:
            _require_fittable(good_rows, signed, equal)
        if good_rows.untimed:
            counts[UNTIMED] = good_rows.untimed
        return Validated(ratings, rejects, counts, reasons, _warnings(good_rows, config), cached.pop_all().close)


def _cache(frame: DataFrame, cached: ExitStack) -> DataFrame:
    cached.callback(frame.unpersist)
    return frame.persist()


def _label(checked: DataFrame, config: ValidationConfig, seed: int, cached: ExitStack) -> DataFrame:
    """Apply the limits, and add the text of the raw row where it is rejected. cached."""
    fewest = max(config.min_ratings_per_user, config.min_ratings_per_item)
    if fewest > 1 or config.max_ratings_per_user is not None:
        checked = several_rows.apply_limits(_cache(checked, cached), config, seed)
    stored = checked.schema["raw"].dataType
    text = F.col("raw") if isinstance(stored, StringType) else F.to_json("raw")
    return _cache(checked.withColumn("raw", F.when(F.size("reasons") > 0, text)), cached)


def _groups(labelled: DataFrame) -> list[_SameReasons]:
    """Count rows with the same reasons. Whether ids differ is seen by their hashes, which need no sort."""
    ranges: list[Column] = [F.min("rating").alias("lowest"), F.max("rating").alias("highest")]
    for side in ("user", "item"):
        hashed = F.xxhash64(f"{side}_id")
        ranges.append((F.min(hashed) == F.max(hashed)).alias(f"one_{side}"))
    untimed = F.count_if(F.col("timestamp").isNull()) if "timestamp" in labelled.columns else F.lit(0)
    totals = F.count(F.lit(1)).alias("rows"), untimed.alias("untimed")
    rows = labelled.groupBy("reasons").agg(*totals, *ranges).collect()
    return [_SameReasons(**{**row.asDict(), "reasons": tuple(row["reasons"])}) for row in rows]


def _counts(groups: list[_SameReasons], merged_rows: int) -> tuple[dict[str, int], dict[str, int]]:
    rows_in = sum(group.rows for group in groups)
    rejected = sum(group.rows for group in groups if group.reasons)
    reasons = Counter[str]()
    for group in groups:
        reasons.update(dict.fromkeys(group.reasons, group.rows))
    counts = {
        "rows_in": rows_in,
        "accepted": rows_in - rejected,
        "rejected": rejected,
        "ratings": rows_in - rejected - merged_rows,
        "merged_duplicates": merged_rows,
    }
    return counts, dict(sorted(reasons.items()))


def _require_usable(
    groups: list[_SameReasons],
    counts: dict[str, int],
    reasons: dict[str, int],
    config: ValidationConfig,
    rejects: DataFrame,
    window: Window,
) -> None:
    if counts["rows_in"] == 0:
        raise DataError(
            f"there are no rows{window.describe()}; expected ratings. Check what the path or the table points at"
        )
    if OPEN_QUOTE in reasons:
        raise DataError(
            f"{reasons[OPEN_QUOTE]} lines end within quotes, for example {_example(OPEN_QUOTE, rejects)}: the record "
            "goes on in the next line, or has a quote too many. Set input.options.multiLine=true to read records of "
            "several lines, in which one task reads a file, or mend these lines. With false they are bad rows"
        )
    if counts["accepted"] == 0:
        raise DataError(f"all {counts['rows_in']} rows are rejected: {_top_reasons(reasons, rejects)}")
    left_out = sum(group.rows for group in groups if set(group.reasons) & set(several_rows.LIMITS))
    share = (counts["rejected"] - left_out) / counts["rows_in"]
    if share > config.max_reject_share:
        raise DataError(
            f"{counts['rejected'] - left_out:,} of {counts['rows_in']:,} rows are bad, a share of {share:.4g}; "
            f"validation.max_reject_share is {config.max_reject_share:g}: {_top_reasons(reasons, rejects)}"
        )


def _require_fittable(good: _SameReasons, signed: bool, equal: bool) -> None:
    for side, alone in (("user", good.one_user), ("item", good.one_item)):
        if alone:
            raise DataError(
                f"all {good.rows} good rows are of one {side}; expected at least two, for the exposure model "
                f"learns from how {side}s differ. Check input.columns.{side} and the limits of validation"
            )
    if good.lowest is not None and good.lowest < 0 and not signed:
        raise DataError(
            f"the ratings go down to {good.lowest:g}, and this outcome is fitted to ratings from 0 on; set "
            "outcome.outcome=probabilistic, which takes all numbers, or validation.scale_min to 0 or more to reject "
            "what lies below"
        )
    if good.highest == good.lowest and not equal:
        raise DataError(
            f"all {good.rows} good rows have the rating {good.highest:g}, from which this outcome learns nothing; "
            "set outcome.outcome=weighted, which learns from who rated what, or check input.columns.rating"
        )
    if good.highest == good.lowest == 0:
        raise DataError(
            f"all {good.rows} good rows have the rating 0, from which no preference can be learned; expected ratings "
            "above 0 too. Check input.columns.rating"
        )


def _top_reasons(reasons: dict[str, int], rejects: DataFrame) -> str:
    top = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{reason} ({rows} rows)" for reason, rows in top[:_SHOWN_REASONS])
    hint = "; timestamps are read as seconds since 1970" if top[0][0] == "future_timestamp" else ""
    return f"{named}; for example {_example(top[0][0], rejects)} is {top[0][0]}{hint}"


def _example(reason: str, rejects: DataFrame) -> str:
    example = rejects.filter(F.array_contains("reasons", reason)).agg(F.min("raw")).first()
    return cut("" if example is None or example[0] is None else example[0])


def _warnings(good: _SameReasons, config: ValidationConfig) -> tuple[str, ...]:
    warnings = []
    if good.lowest == good.highest:
        warnings.append(f"all ratings are {good.lowest:g}: they say nothing of preferences beyond who rated what")
    if config.kind == "ratings" and config.scale_min is None and config.scale_max is None:
        warnings.append(
            f"no scale is declared (validation.scale_min, scale_max), so no rating is out of it; "
            f"they go from {good.lowest:g} to {good.highest:g}"
        )
    if good.untimed:
        warnings.append(f"{good.untimed} of {good.rows} good rows have no timestamp")
    return tuple(warnings)
