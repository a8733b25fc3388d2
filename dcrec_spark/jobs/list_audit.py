"""Audit of the lists of a run: promises that always hold, and limits of the settings."""

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import AuditConfig
from dcrec_spark.jobs.catalogue import Catalogue
from dcrec_spark.jobs.run_record import Run, Verdict
from dcrec_spark.publish.audit import Promises, audit_recommendations
from dcrec_spark.publish.current import current_directory, read_record
from dcrec_spark.publish.list_changes import Lists, lists_of, turnover

TABLE = "recommendations"


def last_lists(spark: SparkSession, output: str) -> DataFrame | None:
    """Open the lists that are published under ``output`` now. None if there are none."""
    directory = current_directory(output, spark)
    record = None if directory is None else read_record(directory, spark)
    if record is None or TABLE not in record.get("tables", {}):
        return None
    return spark.read.parquet(f"{directory}/{TABLE}")


def audit_lists(
    run: Run,
    limits: AuditConfig,
    lists: DataFrame,
    before: DataFrame | None,
    left_out: DataFrame | None,
    catalogue: Catalogue,
    length: int,
) -> None:
    """Audit the staged lists. Figures, verdicts and warnings go into the record.

    lists : as written. before : of the run before. left_out : pairs that may not be in them. length : recommend.top_n.

    Raises
    ------
    AuditError : a promise is broken, or a limit passed and not forced.
    """
    audit_recommendations(lists, left_out, Promises(catalogue.items, catalogue.max_per_category))
    now = lists_of(lists, length)
    run.lists = {**now._asdict(), "short_below": length}
    verdicts = _verdicts(run, limits, now, lists, before)
    run.warnings += run.verdicts.enforce(verdicts, limits.force)


def _verdicts(run: Run, limits: AuditConfig, now: Lists, lists: DataFrame, before: DataFrame | None) -> list[Verdict]:
    verdicts = []
    if (least := limits.min_coverage) is not None:
        available = run.counts.get("items_in_catalogue", run.counts["items"])
        share = now.items / available
        about = f"{now.items} of {available} items are in some list, {share:.1%}"
        verdicts.append(Verdict("min_coverage", share, least, share >= least, about))
    if (most := limits.max_short_lists) is not None:
        share = now.short / now.users
        about = f"{now.short} of {now.users} lists are shorter than recommend.top_n, {share:.1%}"
        verdicts.append(Verdict("max_short_lists", share, most, share <= most, about))
    if (most := limits.max_churn) is not None and before is not None:
        both = turnover(before, lists)
        share = both.new / max(1, both.rows)
        about = f"{both.new} of the {both.rows} places of users of both runs hold another item, {share:.1%}"
        verdicts.append(Verdict("max_churn", share, most, share <= most, about))
    return verdicts
