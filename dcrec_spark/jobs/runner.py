"""Runner of all jobs: starts Spark, checks, records, publishes, and reports."""

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import SparkSession
from rich.console import Group
from rich.text import Text
from structlog.contextvars import bind_contextvars

from dcrec_spark.config.sections import JobConfig
from dcrec_spark.errors import (
    ConfigError,
    DataError,
    DcrecError,
    DiskFullError,
    InterruptedRun,
    UnreachableError,
    interruption,
)
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.fit_checkpoints import kept_sweeps
from dcrec_spark.jobs.job import ConfigT, Context, Finished, InputsT, Job, NothingNew, Outputs, ResultT
from dcrec_spark.jobs.prometheus import write_metrics
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.sinks import check_sinks, output_path
from dcrec_spark.publish.current import PublishedRun, current_run_id, published_run, run_id_in, run_path
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.parquet import SKIPPED, record_aside
from dcrec_spark.spark.failures import SPARK_FAILURES, full_disk, message_of, unreachable
from dcrec_spark.spark.jars import require_runtimes
from dcrec_spark.spark.lineage import require_checkpoint_directory, set_checkpoint_directory
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.spark.session import build_session, name_run, scratch_places
from dcrec_spark.storage.files import LOCATION, open_files

_log = structlog.get_logger()
_MB = 10**6


def run_job(
    job: Job[ConfigT, InputsT, ResultT], config: ConfigT, reporter: Reporter, dry_run: bool = False
) -> Finished[ResultT] | None:
    """Run ``job`` as configured.

    dry_run : check settings, inputs, output and the executors' Python, and write nothing.
    Returns the finished run. None after a dry run, and if the input has not changed (input.unchanged=skip).
    Raises DcrecError: the tables of before stay, and ``run.json`` under ``output.path/failed`` says why.
    """
    reporter.timings, reporter.done = {}, False
    run = Run.begin(config.job, config, reporter.timings)
    traces, resources = nullcontext() if dry_run else leave_traces(run), ExitStack()
    with traces, explain_unreachable(), explain_full_disk(config), resources:
        output = output_path(config)
        job.check(config)
        with reporter.step("start Spark"):
            spark = start_session(config, writes=not dry_run)
            base = check_sinks(config, spark, output)
            if not dry_run:
                open_output(output, spark).remove_leftovers()
        run.follow(base.directory.newest, spark)
        bind_contextvars(run_id=run.run_id)
        name_run(spark, **run.names)
        before = _run_before(spark, output, base.directory.run_id, run)
        context = Context(config, spark, run, reporter, output, resources, base, before)
        if not dry_run:
            return _run(job, context)
        # What a run would open is opened, on the driver and in a task on the executors.
        workers = require_workers(spark)
        lines = [*job.plan(context, job.extract(context)), f"output  {output}", f"workers {workers}"]
        lines += [f"note    {warning}" for warning in run.warnings]
        title = Text("dry run: all checks passed, nothing was written", style="bold green")
        reporter.show(Group(title, *map(Text, lines)))
        return None


@contextmanager
def leave_traces(run: Run) -> Iterator[None]:
    """Bind the names of a run to its log lines. Write its record when it fails, and its metrics however it ends."""
    config = run.config
    bind_contextvars(**run.names)
    try:
        yield
    except BaseException as error:
        facts = run.failure_record(error)
        try:
            if config.output.path is not None:
                record_aside(config.output.path, run.run_id, facts, SparkSession.getActiveSession())
        except (OSError, DcrecError, *SPARK_FAILURES) as unwritten:
            _log.warning("the record of the failed run could not be written", reason=message_of(unwritten))
        write_metrics(config.run.metrics_file, facts)
        raise
    write_metrics(config.run.metrics_file, run.success_record())


@contextmanager
def explain_unreachable() -> Iterator[None]:
    """Turn what a service raises that does not answer into an error by which a scheduler tries again."""
    try:
        yield
    except Exception as error:
        reason = unreachable(error)
        decided = isinstance(error, DcrecError) and type(error) not in (DcrecError, ConfigError, DataError)
        if reason is None or decided or interruption(error) is not None:
            raise
        message = message_of(error)
        cause = "" if reason in message else f" ({reason[:200]})"
        raise UnreachableError(
            f"a service could not be reached: {message}{cause}; run the same command again"
        ) from error


def _run_before(spark: SparkSession, output: str, run_id: str | None, run: Run) -> PublishedRun | None:
    """Read the run that readers have. None if there is none, or it is damaged, of which the record then warns."""
    try:
        before = None if run_id is None else published_run(output, run_id, spark)
        if before is not None:
            run.since = {"run_id": run_id, "counts": before.record.get("counts", {})}
        return before
    except DataError as damage:
        run.warnings.append(f"run {run_id}, which readers have, is damaged and compared with nothing: {damage}")
        return None


def _run(job: Job[ConfigT, InputsT, ResultT], context: Context[ConfigT]) -> Finished[ResultT] | None:
    try:
        outputs = job.transform(context, job.extract(context))
        with context.reporter.step(job.last_step):
            directory = _publish(job, context, outputs)
    except NothingNew as reason:
        skipped = context.run.success_record()
        record_aside(context.output, context.run.run_id, skipped, context.spark, folder=SKIPPED)
        context.reporter.show(Text(f"run {context.run.run_id} skipped: {reason}", style="bold green"))
        return None
    except BaseException as error:
        stop = interruption(error)
        if stop is None:
            raise
        raise InterruptedRun(f"{stop}; nothing was published{_state(context)}") from error
    finished = Finished(context.run, directory, outputs.result)
    context.reporter.show(job.summary(context, finished))
    return finished


def _publish(job: Job[ConfigT, InputsT, ResultT], context: Context[ConfigT], outputs: Outputs[ResultT]) -> str:
    """Publish. A signal that comes when readers already have the new tables does not undo the run."""
    try:
        directory = job.load(context, outputs)
        context.reporter.done = True
    except BaseException as error:
        stop, run_id = interruption(error), context.run.run_id
        if stop is None or current_run_id(context.output, context.spark) != run_id:
            raise
        context.reporter.done = True
        _log.warning("the run was published before it was stopped, and is done", run_id=run_id, stopped=str(stop))
        files, root = open_files(context.output, context.spark)
        return files.uri(run_path(root, run_id))
    return directory


def start_session(config: JobConfig, writes: bool = True) -> SparkSession:
    """Start the session, with its checkpoint directory. writes : False does not create that."""
    interrupt = signal.getsignal(signal.SIGINT)
    spark = build_session(config.run.name, config.spark.master, config.spark.conf)
    # A new session has put its own handler of Ctrl-C there, which calls the JVM over the very connection that it
    # interrupts, and ends as an error of that.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    require_runtimes(spark, config.spark.conf)
    if config.spark.checkpoint_dir is None:
        require_checkpoint_directory(spark)
    elif writes:
        set_checkpoint_directory(spark, config.spark.checkpoint_dir)
    return spark


def _state(context: Context[Any]) -> str:
    """Name the run that readers find, and the checkpoint from which the same command resumes."""
    try:
        files, root = open_files(context.output, context.spark)
        run_id, sweeps = run_id_in(files, root), kept_sweeps(files, root, context.run)
    except (OSError, DcrecError, *SPARK_FAILURES):  # a store behind the JVM, whose bridge the signal has cut off
        return ". Run the same command again"
    readers = f"there is no run under {root}" if run_id is None else f"readers of {root} have run {run_id}, as before"
    where = f"resumes from the checkpoint {sweeps[-1]} of its fit" if sweeps else "starts from scratch"
    return f": {readers}. Run the same command again: it {where}"


@contextmanager
def explain_full_disk(config: JobConfig) -> Iterator[None]:
    """Turn what a full disk raises into a ``DiskFullError`` that names the directories a run writes to."""
    try:
        yield
    except Exception as error:
        reason = full_disk(error)
        if reason is None or interruption(error) is not None:
            raise
        scratch = scratch_places(SparkSession.getActiveSession(), config.spark.conf)
        directories = {"output.path": output_path(config), **scratch}
        rooms = "; ".join(
            f"{setting} {path} ({room_at(path)})" for setting, paths in directories.items() for path in paths.split(",")
        )
        raise DiskFullError(
            f"a disk is full ({reason[:200]}), and nothing was published. The run writes to {rooms}. Make room there "
            "or set another path, and run the same command again"
        ) from error


def room_at(path: str) -> str:
    """Say how much room is left at a path, or at the nearest directory above it that exists."""
    parts = LOCATION.fullmatch(path)
    if parts is None or parts["scheme"] not in (None, "file"):
        return "on a store of its own"
    place = Path(parts["path"]).absolute()
    while not place.exists():
        place = place.parent
    return f"{shutil.disk_usage(place).free / _MB:,.0f} MB free"
