"""What is new in the ratings since the last run: perhaps nothing, or so many pairs of user and item.

A table of Iceberg or Delta says by its snapshot whether anything is new, before a row is read, and two snapshots can be
compared. Ratings from elsewhere are read and validated first; then their fingerprint says it.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import RetrainConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.errors import DataError, interruption
from dcrec_spark.jobs.job import Context, NothingNew
from dcrec_spark.publish.current import current_directory, read_record
from dcrec_spark.spark.failures import SPARK_FAILURES

SKIP = "skip"
PAIR = ("user_id", "item_id")
# Columns that reading adds to those of the source.
_ADDED = {"raw", "read_problems"}

Record = Mapping[str, Any]


# What has to be in a record, so that a run can be compared with it.
COMPARED = {
    *("job", "run_id", "versions", "configuration", "config_hash"),
    *("data_fingerprint", "input_snapshot", "input_table_id"),
}


class News(NamedTuple):
    """Pairs of user and item: those of now alone, of both with other ratings, of before alone."""

    new: int
    changed: int
    gone: int


def last_run(context: Context[RetrainConfig]) -> Record | None:
    """Read the record of the run that readers have, where it is asked for and one of the same job."""
    asked = context.config.input
    if asked.unchanged != SKIP and not asked.count_news:
        return None
    directory = current_directory(context.output, context.spark)
    record = None if directory is None else read_record(directory, context.spark)
    return record if record is not None and tells_enough(record, context.run.job) else None


def tells_enough(record: Record, job: str) -> bool:
    """Whether a record is of this job, and of a version that noted what is compared here."""
    return record.keys() >= COMPARED and record["job"] == job


def end_where_nothing_is_new(context: Context[RetrainConfig], last: Record | None) -> None:
    """End the run where that is asked for, and what is known of its ratings by now is what the last run had.

    Raises
    ------
    NothingNew : they are the same, and so are settings and version.
    """
    run = context.run
    if last is None or context.config.input.unchanged != SKIP or not _is_asked_the_same(context, last):
        return
    marks = {"fingerprint": (run.data_fingerprint, last["data_fingerprint"])}
    if run.input_table_id == last["input_table_id"]:
        marks["snapshot"] = (run.input_snapshot, last["input_snapshot"])
    for name, (now, before) in marks.items():
        if now is not None and now == before:
            run.unchanged_since = last["run_id"]
            raise NothingNew(f"the ratings have the {name} {now}, as in run {last['run_id']}, which stays")


def count_news(context: Context[RetrainConfig], last: Record | None) -> None:
    """Note how many pairs are new, changed or gone since the last run, where both have read snapshots of one table.

    It takes a look at every row of both snapshots.
    """
    run, given = context.run, context.config.input
    before = None if last is None else last["input_snapshot"]
    if not given.count_news or last is None or before is None or run.input_snapshot is None:
        return
    if not _is_same_table(context, last):
        return
    then, now = (given.model_copy(update={"snapshot": snapshot}) for snapshot in (before, run.input_snapshot))
    try:
        with context.reporter.step("count what is new"):
            news = pairs_since(read_ratings(context.spark, then), read_ratings(context.spark, now))
    except (DataError, *SPARK_FAILURES) as error:
        if interruption(error) is not None:
            raise
        run.warnings.append(
            f"what is new since run {last['run_id']} is not known: snapshot {before} of {given.table} cannot be read "
            "any more; keep snapshots for longer than from one run to the next"
        )
        return
    run.since = last["run_id"]
    run.counts |= {f"{which}_pairs": count for which, count in news._asdict().items()}


def pairs_since(before: DataFrame, now: DataFrame) -> News:
    """Compare two frames of ratings, as ``read_ratings`` gives them, pair by pair.

    A pair may have several rows: it is changed where these are not the same rows, in whatever order. One pass over both
    frames, and one shuffle.
    """
    contents = sorted(set(now.columns) - _ADDED - set(PAIR))
    # Equal rows of both sides cancel each other out.
    cells = [F.coalesce(F.col(name).cast("string"), F.lit("\0")) for name in contents]  # a hash passes over nulls
    row = F.xxhash64(*cells).cast("decimal(38,0)")
    sides = [
        frame.select(*PAIR, F.lit(sign).alias("side"), (row * sign).alias("content"))
        for frame, sign in ((before, -1), (now, 1))
    ]
    pairs = sides[0].unionByName(sides[1]).groupBy(*PAIR)
    compared = pairs.agg(F.min("side").alias("least"), F.max("side").alias("most"), F.sum("content").alias("rest"))
    new, gone = F.col("least") == 1, F.col("most") == -1
    conditions = {"new": new, "changed": ~new & ~gone & (F.col("rest") != 0), "gone": gone}
    counts = compared.agg(*(F.count_if(condition).alias(name) for name, condition in conditions.items())).collect()[0]
    return News(**{name: int(counts[name]) for name in conditions})


def _is_asked_the_same(context: Context[RetrainConfig], last: Record) -> bool:
    this = context.run.facts("running", 0, None)
    same_version = this["versions"]["dcrec-spark"] == last["versions"]["dcrec-spark"]
    same_hash = this["config_hash"] == last["config_hash"]
    return same_version and same_hash and _settings(this) == _settings(last)


def _settings(record: Record) -> dict[str, Any]:
    """Take what was asked for, but for the day, and the snapshot, which is compared by itself."""
    settings: dict[str, Any] = json.loads(json.dumps(record["configuration"]))
    for section, name in (("run", "run_date"), ("input", "snapshot")):
        settings[section].pop(name, None)
    return settings


def _is_same_table(context: Context[RetrainConfig], last: Record) -> bool:
    now, then = (
        [
            record["input_table_id"],
            *(record["configuration"]["input"][name] for name in ("table", "columns", "id_type")),
        ]
        for record in (context.run.facts("running", 0, None), last)
    )
    return now == then
