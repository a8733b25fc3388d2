"""The shape of every job: what it reads, what it makes of it, and what it hands over for publication.

check ─ (Spark starts) ─ extract ─ transform ─ load ─ summary
                            └ dry run: plan

A job is a class with these steps; :mod:`dcrec_spark.jobs.runner` runs it, and does what all jobs share.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from pyspark.sql import DataFrame, SparkSession
from rich.console import RenderableType

from dcrec_spark.config import AuditConfig, JobConfig, WithAudit
from dcrec_spark.errors import DcrecError
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.list_audit import TABLE, audit_lists, last_lists
from dcrec_spark.jobs.offer import Offer
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.sinks import opened_sinks
from dcrec_spark.jobs.summary import run_summary
from dcrec_spark.jobs.tracking import Tracker
from dcrec_spark.publish.audit import audit_overlap
from dcrec_spark.publish.output import Output
from dcrec_spark.publish.protocol import Save, publish
from dcrec_spark.publish.several import StagedEverywhere

_log = structlog.get_logger()
ConfigT = TypeVar("ConfigT", bound=JobConfig)
InputsT = TypeVar("InputsT")
ResultT = TypeVar("ResultT")


def limits_of(config: JobConfig) -> AuditConfig:
    """Take the limits of a job's settings; none for a job that has none."""
    return config.audit if isinstance(config, WithAudit) else AuditConfig()


def _prune(directory: Output, keep: int | None) -> None:
    """Remove old runs; the new one is published, whatever becomes of them."""
    try:
        if keep is not None:
            directory.prune(keep)
    except (OSError, DcrecError) as error:
        _log.warning("old runs could not be removed", reason=str(error))


class NothingNew(Exception):
    """Ends a run well before it publishes: the run that is served is of the same ratings and settings."""


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
    resources : releases what the job caches when it ends, whatever way it ends.
    tracker : tells others of the run, where the settings say so.
    """

    config: ConfigT
    spark: SparkSession
    run: Run
    reporter: Reporter
    output: str
    resources: ExitStack
    tracker: Tracker


@dataclass(frozen=True)
class Outputs(Generic[ResultT]):
    """What a job hands over for publication.

    Attributes
    ----------
    tables : published name -> rows, each written once.
    result : what the caller of the runner gets, such as the fitted model.
    folders : what else appears in the directory of the run, by its name there.
    seen : user_id, item_id of pairs that must not be recommended; None where all may be.
    offer : what may be in the lists.
    length : items that each list should have; a shorter one counts as short.
    """

    tables: Mapping[str, DataFrame]
    result: ResultT
    folders: Mapping[str, Save] = field(default_factory=dict)
    seen: DataFrame | None = None
    offer: Offer = field(default_factory=Offer)
    length: int = 1


@dataclass(frozen=True)
class Finished(Generic[ResultT]):
    """A run that has ended well: its record, where its tables are (a URI), and its result."""

    run: Run
    directory: str
    result: ResultT


class Job(ABC, Generic[ConfigT, InputsT, ResultT]):
    """One job: ``ConfigT`` is its configuration, ``InputsT`` what it opens, ``ResultT`` what its caller gets.

    Attributes
    ----------
    config_type : ``ConfigT``.
    last_step : what people read while the tables are written, which is when Spark computes most of them.
    """

    config_type: ClassVar[type[JobConfig]]
    last_step: ClassVar[str] = "publish"

    @property
    def name(self) -> str:
        """What the record of a run calls the job."""
        return self.config_type.job

    def check(self, config: ConfigT) -> None:
        """Refuse settings that need no session to be refused.

        Raises
        ------
        ConfigError : names the setting, what was found and what was expected.
        """

    def record_directory(self, config: ConfigT) -> str | None:
        """Where the record of a run that fails is left; None: below the output."""
        return None

    @abstractmethod
    def extract(self, context: Context[ConfigT]) -> InputsT:
        """Open what the job reads, and check that its parts go together. Rows are read later."""

    @abstractmethod
    def transform(self, context: Context[ConfigT], inputs: InputsT) -> Outputs[ResultT]:
        """Make the tables of the inputs."""

    def load(self, context: Context[ConfigT], outputs: Outputs[ResultT]) -> str:
        """Publish the tables and the row of this run in ``runs``; returns the directory of the run as a URI.

        A table of recommendations is audited before anybody can read it, and compared with the one that is there.

        Raises
        ------
        AuditError, ConflictError : nothing is published, the tables of before stay.
        """
        spark, run = context.spark, context.run

        def audit(staged: StagedEverywhere) -> None:
            lists = spark.read.parquet(staged.directory.uri(TABLE))
            before = last_lists(spark, context.output)
            audit_lists(run, limits_of(context.config), lists, before, outputs.seen, outputs.offer, outputs.length)
            for side in ("user", "item"):
                if f"{side}_overlap" in outputs.tables:
                    audit_overlap(spark.read.parquet(staged.directory.uri(f"{side}_overlap")), side)

        def record(staged: StagedEverywhere) -> dict[str, Any]:
            context.tracker.tell()  # before the record, which is to have its warning
            return run.published(staged.directory)

        tables = {**outputs.tables, "runs": run.as_row(spark)}
        audited = audit if TABLE in tables else None
        with opened_sinks(context.config, spark, context.output) as sinks:
            where = publish(sinks, run.run_id, tables, record, audited, outputs.folders)
            _prune(sinks.directory, context.config.output.keep)
            return where

    @abstractmethod
    def plan(self, context: Context[ConfigT], inputs: InputsT) -> list[str]:
        """List what a run would read and do, a line each; a dry run shows it."""

    def summary(self, context: Context[ConfigT], finished: Finished[ResultT]) -> RenderableType:
        """Summarise the run for people: what was read, how the fits ended, where the tables are."""
        return run_summary(finished.run, finished.directory)
