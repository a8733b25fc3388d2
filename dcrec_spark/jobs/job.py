"""Shape of every job: extract inputs, transform them into tables, load the tables.

check ─ (Spark starts) ─ extract ─ transform ─ load ─ summary
                            └ dry run: plan

A job is a class with these steps. :mod:`dcrec_spark.jobs.runner` runs it, and does what all jobs share.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from pyspark.sql import DataFrame, SparkSession
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.sections import JobConfig
from dcrec_spark.errors import DataError, DcrecError
from dcrec_spark.evaluation.lists import describe_lists
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.run_record import RETRAIN, Run, Verdict
from dcrec_spark.jobs.sinks import open_sinks
from dcrec_spark.models.outcome.blend import AnyModel
from dcrec_spark.publish.audit import audit_overlap, audit_recommendations, turnover
from dcrec_spark.publish.current import PublishedRun
from dcrec_spark.publish.manifest import check_manifest
from dcrec_spark.publish.object_store import Output
from dcrec_spark.publish.parquet import StagedRun
from dcrec_spark.publish.protocol import Record, Save, publish
from dcrec_spark.publish.several import BeforeEverywhere, StagedEverywhere
from dcrec_spark.storage.files import open_files

_log = structlog.get_logger()
ConfigT = TypeVar("ConfigT", bound=JobConfig)
InputsT = TypeVar("InputsT")
ResultT = TypeVar("ResultT")
TABLE = "recommendations"
# The share of a limit from which a figure is near it.
_NEAR = 0.8


class NothingNew(Exception):
    """Ends a run with 0 before it publishes: the published run has the same ratings and settings."""


@dataclass(frozen=True)
class Context(Generic[ConfigT]):
    """What a job has at hand while it runs.

    run : the record of this run, filled as the job goes. A dry run writes it nowhere.
    output : where the job publishes. resources : releases what the job caches, in success and failure.
    base : what readers had when the run began. before : the run that they had, unless its record is damaged.
    """

    config: ConfigT
    spark: SparkSession
    run: Run
    reporter: Reporter
    output: str
    resources: ExitStack
    base: BeforeEverywhere
    before: PublishedRun | None

    def cache(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the job ends."""
        self.resources.callback(frame.unpersist)
        return frame.persist()


@dataclass(frozen=True)
class Catalogue:
    """Constraints on lists.

    items : item_id (, category), each item once. None: all items. excluded : user_id, item_id. None: no pair.
    max_per_category : most items of one category in a list.
    """

    items: DataFrame | None = None
    excluded: DataFrame | None = None
    max_per_category: int | None = None

    def left_out(self, seen: DataFrame | None) -> DataFrame | None:
        """Return user_id, item_id of all pairs that may not be recommended. None: there is none."""
        frames = [frame.select("user_id", "item_id") for frame in (seen, self.excluded) if frame is not None]
        return frames[0].unionByName(frames[-1]) if len(frames) > 1 else (frames[0] if frames else None)

    def items_of(self, model: AnyModel) -> DataFrame | None:
        """Return the items under the model's name of the column."""
        return None if self.items is None else self.items.withColumnRenamed("item_id", model.getOrDefault("itemCol"))


@dataclass(frozen=True)
class Outputs(Generic[ResultT]):
    """What a job hands over for publication.

    tables : published name -> rows, each written once. folders : what else appears in the run's directory, by name.
    result : what the caller of the runner gets, such as the fitted model.
    seen : user_id, item_id of pairs that must not be recommended. length : items that each list should have.
    training : item_id of each rating, by which the lists are described. None: only their sizes are.
    """

    tables: Mapping[str, DataFrame]
    result: ResultT
    folders: Mapping[str, Save] = field(default_factory=dict)
    seen: DataFrame | None = None
    catalogue: Catalogue = field(default_factory=Catalogue)
    length: int = 1
    training: DataFrame | None = None


@dataclass(frozen=True)
class Finished(Generic[ResultT]):
    """A run that succeeded: its record, the location of its tables (a URI), and its result."""

    run: Run
    directory: str
    result: ResultT


class Job(ABC, Generic[ConfigT, InputsT, ResultT]):
    """One job: ``ConfigT`` is its configuration, ``InputsT`` what it opens, ``ResultT`` what its caller gets.

    config_type : it has the job's name. last_step : name of the step that writes the tables, and computes most of them.
    """

    config_type: ClassVar[type[JobConfig]]
    last_step: ClassVar[str] = "publish"

    def check(self, config: ConfigT) -> None:
        """Refuse settings that need no session to be refused. Raises ConfigError: names the setting."""

    @abstractmethod
    def extract(self, context: Context[ConfigT]) -> InputsT:
        """Open what the job reads, and check that its parts go together. Rows are read later."""

    @abstractmethod
    def transform(self, context: Context[ConfigT], inputs: InputsT) -> Outputs[ResultT]:
        """Make the tables of the inputs."""

    def load(self, context: Context[ConfigT], outputs: Outputs[ResultT]) -> str:
        """Publish the tables and, once they are audited, the row of this run. Returns its directory as a URI.

        Raises AuditError, ConflictError: nothing is published, the tables of before stay.
        """
        run, audit = context.run, partial(audit_tables, context, outputs)

        def record(staged: StagedEverywhere) -> Record:
            tables = {name: files.rows for name, files in staged.directory.tables.items()}
            return {**run.success_record(), "tables": tables}

        with open_sinks(context.config, context.spark, context.output, audit) as sinks:
            tables, base = outputs.tables, context.base
            where = publish(sinks, run.run_id, tables, record, folders=outputs.folders, base=base)
            _prune(sinks.directory, context.config.output.keep)
            return where

    @abstractmethod
    def plan(self, context: Context[ConfigT], inputs: InputsT) -> list[str]:
        """List what a run would read and do, a line each. A dry run shows it."""

    def summary(self, context: Context[ConfigT], finished: Finished[ResultT]) -> RenderableType:
        """Summarise the run for people: what was read, how the fits ended, where the tables are."""
        return run_summary(finished.run, finished.directory)


def _prune(directory: Output, keep: int | None) -> None:
    """Remove old runs. The new one is published, so a failure is only logged."""
    try:
        if keep is not None:
            directory.prune(keep)
    except (OSError, DcrecError) as error:
        _log.warning("old runs could not be removed", reason=str(error))


def audit_tables(context: Context[ConfigT], outputs: Outputs[ResultT], staged: StagedRun) -> Mapping[str, DataFrame]:
    """Audit lists and overlap as they were written. Returns the table ``runs``, whose row tells of it."""
    if TABLE in outputs.tables:
        audit_lists(context, outputs, context.spark.read.parquet(staged.uri(TABLE)))
    for side in ("user", "item"):
        if f"{side}_overlap" in outputs.tables:
            audit_overlap(context.spark.read.parquet(staged.uri(f"{side}_overlap")), side)
    return {"runs": context.run.as_row(context.spark)}


def audit_lists(context: Context[ConfigT], outputs: Outputs[ResultT], lists: DataFrame) -> None:
    """Audit the lists: promises that always hold, and limits of the settings. The record gets figures and verdicts.

    Raises AuditError: a promise is broken, or a limit passed and not forced.
    """
    run, limits = context.run, context.run.limits
    audit_recommendations(lists, outputs.seen, outputs.catalogue.items, outputs.catalogue.max_per_category)
    found = run.lists = describe_lists(lists, outputs.training, outputs.length)
    run.warnings += found.warnings
    verdicts = []
    if (least := limits.min_coverage) is not None:
        available = run.counts.get("items_in_catalogue", run.counts["items"])
        share = found.items / available
        about = f"{found.items:,} of {available:,} items are in some list, {share:.1%}"
        verdicts.append(Verdict("min_coverage", share, least, share >= least, about))
    if (most := limits.max_churn) is not None and (before := last_lists(context)) is not None:
        places, new = turnover(before, lists)
        share = new / max(1, places)
        about = f"{new} of the {places} places of users of both runs hold another item, {share:.1%}"
        verdicts.append(Verdict("max_churn", share, most, share <= most, about))
    run.enforce(verdicts)


def last_lists(context: Context[Any]) -> DataFrame | None:
    """Open the lists of the run before. None if there are none, or they are damaged, of which the record then warns."""
    before = context.before
    if before is None or TABLE not in before.record.get("tables", {}):
        return None
    files, path = open_files(before.directory, context.spark)
    try:
        check_manifest(files, path, f"{TABLE}/")
    except DataError as damage:
        context.run.warnings.append(f"the lists of run {before.run_id} are damaged and compared with nothing: {damage}")
        return None
    return context.spark.read.parquet(f"{before.directory}/{TABLE}")


def run_summary(run: Run, directory: str) -> RenderableType:
    """Summarise a run: what was read, how the fits ended, what the audit found, where the tables are."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", justify="right")
    facts.add_column(overflow="fold")
    counts = run.counts
    if run.source is not None:
        facts.add_row("begun with" if run.job == RETRAIN else "served", Text(run.source.path.removeprefix("file://")))
    if "rows_in" in counts:
        days = run.input_window.describe()
        why = f" ({', '.join(sorted(run.reasons))}; see the table rejects)" if run.reasons else ""
        read = f"{counts['accepted']:,} of {counts['rows_in']:,} rows{days}, {counts['rejected']:,} rejected{why}"
        facts.add_row("ratings", read)
    if "users" in counts:
        facts.add_row("users x items", f"{counts['users']:,} x {counts['items']:,}")
    for stage, (values, _) in run.fits.items():
        took = f" in {run.timings[stage]:.1f} s" if stage in run.timings else ""
        facts.add_row(stage, f"{len(values)} iterations{took}, objective {values[0]:,.6g} -> {values[-1]:,.6g}")
    if run.blend is not None:
        weights, errors = run.blend["weights"], run.blend["validation_mse"]
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        best = min((errors[name], name) for name in weights)
        facts.add_row("blend", f"{shares}. Held-out MSE {errors['blend']:.4g}, of {best[1]} alone {best[0]:.4g}")
    if (check := run.exposure_check) is not None:
        p = min(check["p_value"], check["spread_p_value"], key=lambda p: min(p, 1 - p))  # the one that is further out
        why = "force is true" if run.limits.force else "exposure_check is warn"
        result = f"failed (p {p:.3f}): published, because audit.{why}"
        facts.add_row("exposure check", f"passed (p {p:.3f})" if check["passed"] else result)
    if run.lists is not None:
        facts.add_row("lists", run.lists.summary)
    if (compared := run.compared) is not None:
        found = ", ".join(f"{value['value']:.3f} ({name})" for name, value in compared["models"].items())
        skipped = f"not compared with popularity: {compared['skipped']}"
        facts.add_row("held out", skipped if compared["skipped"] else f"{compared['metric']} {found}")
    if run.since is not None:
        last = run.since["counts"]
        both = [name for name in ("accepted", "rejected", "users", "items") if name in counts and name in last]
        moved = ", ".join(f"{name} {counts[name] - last[name]:+,}" for name in both)
        facts.add_row("since", f"run {run.since['run_id']}: {moved or 'nothing to compare'}")
    near = [verdict for verdict in run.verdicts if verdict.passed and verdict.use > _NEAR]
    if near:
        facts.add_row(
            "near a limit", "; ".join(f"{verdict.about} (audit.{verdict.check}={verdict.limit:g})" for verdict in near)
        )
    stages = {stage.partition(" ")[0] for stage in run.fits}  # of a blend each member has one
    steps = {step: seconds for step, seconds in run.timings.items() if step not in stages}
    facts.add_row("time", ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items()))
    for warning in run.warnings:
        facts.add_row("[yellow]note[/]", Text(warning))
    facts.add_row("tables", Text(directory.removeprefix("file://"), overflow="fold"))
    title = f"run {run.run_id} published, model {run.model_version}"
    return Group(Text(title, style="bold green"), facts)
