"""Shape of every job: extract inputs, transform them into tables, load the tables.

check ─ (Spark starts) ─ extract ─ transform ─ load ─ summary
                            └ dry run: plan

A job is a class with these steps. :mod:`dcrec_spark.jobs.runner` runs it, and does what all jobs share.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from pyspark.sql import DataFrame, SparkSession
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config import AuditConfig, JobConfig
from dcrec_spark.errors import DcrecError
from dcrec_spark.evaluation.lists import describe_lists
from dcrec_spark.jobs.catalogue import Catalogue
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.list_audit import TABLE, audit_lists, last_lists
from dcrec_spark.jobs.run_record import RETRAIN, Run
from dcrec_spark.jobs.sinks import open_sinks
from dcrec_spark.publish.audit import audit_overlap
from dcrec_spark.publish.object_store import Output
from dcrec_spark.publish.protocol import Save, publish
from dcrec_spark.publish.several import StagedEverywhere

_log = structlog.get_logger()
ConfigT = TypeVar("ConfigT", bound=JobConfig)
InputsT = TypeVar("InputsT")
ResultT = TypeVar("ResultT")


class NothingNew(Exception):
    """Ends a run with 0 before it publishes: the published run has the same ratings and settings."""


@dataclass(frozen=True)
class Context(Generic[ConfigT]):
    """What a job has at hand while it runs.

    Attributes
    ----------
    config : the settings of this job.
    spark : the session.
    run : the record of this run, filled as the job goes. A dry run writes it nowhere.
    reporter : shows the steps of the job, and times them.
    output : where the job publishes.
    resources : releases what the job caches when it ends, in success and failure.
    """

    config: ConfigT
    spark: SparkSession
    run: Run
    reporter: Reporter
    output: str
    resources: ExitStack


@dataclass(frozen=True)
class Outputs(Generic[ResultT]):
    """What a job hands over for publication.

    Attributes
    ----------
    tables : published name -> rows, each written once.
    result : what the caller of the runner gets, such as the fitted model.
    folders : what else appears in the directory of the run, by its name there.
    seen : user_id, item_id of pairs that must not be recommended. None: none.
    catalogue : what may be in the lists.
    length : items that each list should have. A shorter one counts as short.
    training : item_id of each rating, by which the lists are described. None: they are not.
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

    Attributes
    ----------
    config_type : ``ConfigT``.
    last_step : name of the step that writes the tables, in which Spark computes most of them.
    """

    config_type: ClassVar[type[JobConfig]]
    last_step: ClassVar[str] = "publish"

    @property
    def name(self) -> str:
        """Name of the job in the record of a run."""
        return self.config_type.job

    def check(self, config: ConfigT) -> None:
        """Refuse settings that need no session to be refused.

        Raises
        ------
        ConfigError : names the setting, what was found and what was expected.
        """

    @abstractmethod
    def extract(self, context: Context[ConfigT]) -> InputsT:
        """Open what the job reads, and check that its parts go together. Rows are read later."""

    @abstractmethod
    def transform(self, context: Context[ConfigT], inputs: InputsT) -> Outputs[ResultT]:
        """Make the tables of the inputs."""

    def load(self, context: Context[ConfigT], outputs: Outputs[ResultT]) -> str:
        """Publish the tables and the row of this run in ``runs``. Returns the directory of the run as a URI.

        A table of recommendations is audited before anybody can read it, and compared with the published one.

        Raises
        ------
        AuditError, ConflictError : nothing is published, the tables of before stay.
        """
        spark, run = context.spark, context.run

        def audit(staged: StagedEverywhere) -> None:
            lists, before = spark.read.parquet(staged.directory.uri(TABLE)), last_lists(spark, context.output)
            limits = getattr(context.config, "audit", AuditConfig())
            audit_lists(run, limits, lists, before, outputs.seen, outputs.catalogue, outputs.length)
            if outputs.training is not None:
                run.note_lists(describe_lists(lists, outputs.training))
            for side in ("user", "item"):
                if f"{side}_overlap" in outputs.tables:
                    audit_overlap(spark.read.parquet(staged.directory.uri(f"{side}_overlap")), side)

        def record(staged: StagedEverywhere) -> dict[str, Any]:
            return run.published(staged.directory)

        tables = {**outputs.tables, "runs": run.as_row(spark)}
        audited = audit if TABLE in tables else None
        with open_sinks(context.config, spark, context.output) as sinks:
            where = publish(sinks, run.run_id, tables, record, audited, outputs.folders)
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


def run_summary(run: Run, directory: str) -> RenderableType:
    """Summarise a run: what was read, how the fits ended, where the tables are."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", justify="right")
    facts.add_column(overflow="fold")
    counts = run.counts
    if run.source is not None:
        facts.add_row("begun with" if run.job == RETRAIN else "served", Text(run.source.path, overflow="fold"))
    if "rows_in" in counts:
        read = f"{counts['accepted']:,} of {counts['rows_in']:,} rows, {counts['rejected']:,} rejected"
        facts.add_row("ratings", read)
    if "users" in counts:
        facts.add_row("users x items", f"{counts['users']:,} x {counts['items']:,}")
    for stage, (objective, values, _) in run.fits.items():
        facts.add_row(stage, f"{len(values)} iterations, {objective} {values[0]:,.6g} -> {values[-1]:,.6g}")
    if run.composition is not None:
        facts.add_row("lists", run.composition.summary)
    facts.add_row("time", ", ".join(f"{step} {seconds:.1f} s" for step, seconds in run.timings.items()))
    for warning in run.warnings:
        facts.add_row("[yellow]note[/]", Text(warning))
    facts.add_row("tables", Text(directory.removeprefix("file://"), overflow="fold"))
    title = f"run {run.run_id} published, model {run.model_version}"
    return Group(Text(title, style="bold green"), facts)
