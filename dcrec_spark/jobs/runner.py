"""One way to run every job: open Spark, check, record, publish, and tell people how it went."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog
from pyspark.sql import SparkSession
from rich.console import Group
from rich.text import Text

from dcrec_spark.config import JobConfig
from dcrec_spark.errors import ConfigError, interruption
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.full_disks import full_disks_named
from dcrec_spark.jobs.job import ConfigT, Context, Finished, InputsT, Job, NothingNew, Outputs, ResultT
from dcrec_spark.jobs.prometheus import metrics_written
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.sinks import check_places
from dcrec_spark.jobs.stopped_runs import stops_named
from dcrec_spark.jobs.tracking import Tracker, told_how_it_ends
from dcrec_spark.publish.current import current_directory, current_run_id
from dcrec_spark.publish.output import open_output
from dcrec_spark.publish.parquet import SKIPPED, record_aside
from dcrec_spark.spark.lineage import require_checkpoint_directory, set_checkpoint_directory
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.spark.session import build_session, scratch_places

_log = structlog.get_logger()


def run_job(
    job: Job[ConfigT, InputsT, ResultT], config: ConfigT, reporter: Reporter, dry_run: bool = False
) -> Finished[ResultT] | None:
    """Run ``job`` as configured.

    Parameters
    ----------
    job : what to run.
    config : the settings of this job.
    reporter : shows steps, iterations and the summary.
    dry_run : check settings, inputs, output and the executors' Python, and write nothing.

    Returns
    -------
    The finished run, or None after a dry run, and where there was nothing new to fit.

    Raises
    ------
    DcrecError : nothing is published, the tables of before stay; ``run.json`` under ``output.path/failed`` says why
        where the inputs were opened already.
    """
    output, timings = output_path(config), reporter.new_run()
    job.check(config)
    with reporter.step("start Spark"):
        spark = start_session(config, writes=not dry_run)
        check_places(config, spark, output)
        if not dry_run:
            open_output(output, spark).remove_leftovers()
    with ExitStack() as resources:
        run = Run.begin(job.name, config, spark, timings)
        context = Context(config, spark, run, reporter, output, resources, Tracker(run))
        if dry_run:
            _show_plan(job, context)
            return None
        return _run(job, context)


def _show_plan(job: Job[ConfigT, InputsT, ResultT], context: Context[ConfigT]) -> None:
    """Open what a run would open, on the driver and in a task on the executors, and show it."""
    workers = require_workers(context.spark)
    lines = [*job.plan(context, job.extract(context)), f"output  {context.output}", f"workers {workers}"]
    title = Text("dry run: everything checks out, nothing was written", style="bold green")
    context.reporter.show(Group(title, *map(Text, lines)))


def _run(job: Job[ConfigT, InputsT, ResultT], context: Context[ConfigT]) -> Finished[ResultT] | None:
    place = job.record_directory(context.config) or context.output
    places = {"output.path": context.output, **scratch_places(context.spark)}
    recorded = context.run.recorded_on_failure(context.spark, place)
    measured = metrics_written(context.run, context.config.run.metrics_file)
    tracked = told_how_it_ends(context.tracker)
    with stops_named(context), measured, recorded, tracked, full_disks_named(places):
        try:
            outputs = job.transform(context, job.extract(context))
        except NothingNew as told:
            _skip(context, place, str(told))
            return None
        with context.reporter.step(job.last_step):
            directory = _published(job, context, outputs)
    finished = Finished(context.run, directory, outputs.result)
    context.reporter.show(job.summary(context, finished))
    return finished


def _skip(context: Context[ConfigT], place: str, reason: str) -> None:
    """Leave the record of a run that had nothing to do, and say so."""
    context.tracker.tell()
    record_aside(place, context.run.run_id, context.run.ended_well(), context.spark, folder=SKIPPED)
    context.reporter.show(Text(f"run {context.run.run_id} skipped: {reason}", style="bold green"))


def _published(job: Job[ConfigT, InputsT, ResultT], context: Context[ConfigT], outputs: Outputs[ResultT]) -> str:
    """Publish, and say where; a signal that comes when readers have the new tables already does not undo the run."""
    try:
        directory = job.load(context, outputs)
        context.reporter.done = True
    except BaseException as error:
        stop, run_id = interruption(error), context.run.run_id
        if stop is None or current_run_id(context.output, context.spark) != run_id:
            raise
        context.reporter.done = True
        _log.warning("the run was published before it was stopped, and is done", run_id=run_id, stopped=str(stop))
        return str(current_directory(context.output, context.spark))
    return directory


def output_path(config: JobConfig) -> str:
    """Where the tables go.

    Raises
    ------
    ConfigError : the configuration does not say.
    """
    if config.output.path is None:
        raise ConfigError("setting output.path: found null, expected the directory for the tables")
    return config.output.path


def start_session(config: JobConfig, writes: bool = True) -> SparkSession:
    """Open the session that the configuration asks for, its checkpoint directory set or not needed.

    writes : False leaves the checkpoint directory unmade, for a session that fits nothing.
    """
    with _kept_interrupt_handler():
        spark = build_session(config.run.name, config.spark.master, config.spark.conf)
    if config.spark.checkpoint_dir is None:
        require_checkpoint_directory(spark)
    elif writes:
        set_checkpoint_directory(spark, config.spark.checkpoint_dir)
    return spark


@contextmanager
def _kept_interrupt_handler() -> Iterator[None]:
    """Restore the answer of this process to Ctrl-C, which a new session replaces by its own.

    Spark's answer calls the JVM over the very connection that it interrupts, and ends as an error of that.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
