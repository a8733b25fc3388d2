"""Command line: ``dcrec`` with one subcommand a job, all with the same options.

A job is imported when it runs. So help and completion need no Spark, and a job whose packages are not installed does
not keep the others from running.
"""

import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import click
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from dcrec_spark.config.jobs import JOB_CONFIGS, RetrainConfig, jobs_with, known_settings
from dcrec_spark.config.load import load_config, read_places
from dcrec_spark.config.secrets import forget_secrets, masked_leaves
from dcrec_spark.config.sections import PlacesConfig
from dcrec_spark.errors import ConfigError, DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.console import Reporter, mask_output
from dcrec_spark.jobs.job import Job
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.runner import explain_unreachable, leave_traces, run_job
from dcrec_spark.jobs.sinks import open_places, table_of_runs
from dcrec_spark.publish.several import Several
from dcrec_spark.spark.cancellation import end_work, silence_bridge
from dcrec_spark.spark.session import conf_file
from dcrec_spark.version import __version__

_PROGRAM = "dcrec"
_EXIT_CODES = """\b
Exit codes
  0 done   1 unexpected   2 usage or configuration   3 data rejected
  4 audit refused to publish   5 another publisher was first
  6 interrupted: run it again   7 disk full
  8 a service could not be reached: try again
"""
_SETTINGS = """\b
Settings
  Write those that differ from the defaults into a file. --set wins over it:
  dcrec retrain --config nightly.yaml --set outcome.rank=50
  `dcrec settings` prints all of them with their defaults.
"""


class JobEntry(NamedTuple):
    """A job of the command line. place : ``module:class``, imported when the job runs."""

    command: str
    place: str
    summary: str
    details: str

    def load(self) -> Job[Any, Any, Any]:
        """Import the job, and make it. Raises MissingExtraError: a package that it needs is not installed."""
        module, _, name = self.place.partition(":")
        job: Job[Any, Any, Any] = getattr(import_module(module), name)()
        return job


JOBS = (
    JobEntry(
        "retrain",
        "dcrec_spark.jobs.retrain:Retrain",
        "Fit a model to ratings, and publish its recommendations.",
        """\b
        Reads      input: ratings. recommend: catalogue and pairs to exclude.
        Publishes  recommendations, user_factors, item_factors, rejects, runs; model/
                   recommend.extra: overlap, fallback, similar_items, vectors, changes

        \b
        dcrec retrain --set input.path=ratings.parquet --set output.path=tables
        dcrec retrain --config nightly.yaml --set outcome.rank=50 --dry-run
        """,
    ),
    JobEntry(
        "recommend",
        "dcrec_spark.jobs.serve:Recommend",
        "Recommend with a saved model to all of its users, or to a list.",
        """\b
        Reads      model.path: a model of retrain. input: ratings to leave out.
                   recommend.users: the users to serve.
        Publishes  recommendations, rejects, runs, and the tables of recommend.extra

        \b
        dcrec recommend --config mine.yaml --set model.path=tables
        """,
    ),
    JobEntry(
        "fold-in",
        "dcrec_spark.jobs.serve:FoldIn",
        "Recommend to new users by their ratings, without a new fit.",
        """\b
        Reads      model.path: a model of retrain. input: the new users' ratings.
        Publishes  recommendations, user_factors, rejects, runs

        \b
        dcrec fold-in --config new.yaml --set model.path=tables
        """,
    ),
    JobEntry(
        "evaluate",
        "dcrec_spark.jobs.evaluate.job:Evaluate",
        "Measure a saved model on held-out ratings, and write a report.",
        """\b
        Reads      model.path: a model of retrain. input: the ratings of its fit.
                   evaluation: held-out ratings (test_path), titles, a second model.
        Publishes  metrics, rejects, runs; report/report.html

        \b
        dcrec evaluate --config mine.yaml --set evaluation.test_path=test.parquet
        """,
    ),
    JobEntry(
        "tune",
        "dcrec_spark.jobs.tune.job:Tune",
        "Search the settings that rank held-out ratings best.",
        """\b
        Reads      input: ratings, of which some are held out. tuning: what to try.
        Publishes  trials, rejects, runs; best/best.yaml, for dcrec retrain --config
                   An interrupted search resumes when it is started again.

        \b
        dcrec tune --config conf/tune.yaml --set output.path=search
        """,
    ),
)


class _InOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    _PROGRAM,
    cls=_InOrder,
    epilog=f"{_SETTINGS}\n{_EXIT_CODES}",
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=_PROGRAM)
def dcrec() -> None:
    """Deconfounded recommendations on Apache Spark: what people would like, not what they were shown.

    Each command is a job for a scheduler. It checks its settings, writes a record of the run (run.json), and publishes
    all of its tables or none. `dcrec COMMAND --help` explains one.
    """


def _complete_setting(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    job = str(ctx.info_name).replace("-", "_")
    names = [name for kind in JOB_CONFIGS if kind.job == job for name in known_settings(kind)]
    return [f"{name}=" for name in names if name.startswith(incomplete)]


_config_help = "Read settings from this YAML file. `dcrec settings` prints all of them."
_config_option = click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help=_config_help)
_set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    shell_complete=_complete_setting,
    metavar="A.B=VALUE",
    help="Set one setting, over the file. May be repeated.",
)
_force_option = click.option("--force", is_flag=True, help="Publish even if audit limits fail. The record says so.")


def job_command(name: str, help_text: str, load: Callable[[], Job[Any, Any, Any]], summary: str = "") -> click.Command:
    """Make the command line of a job. load : imports the job. summary : one line for a list of commands."""

    @click.command(name, help=help_text, short_help=summary, epilog=_EXIT_CODES)
    @_config_option
    @_set_option
    @click.option("--dry-run", is_flag=True, help="Check settings, inputs and output, and write nothing.")
    def command(config: Path | None, overrides: tuple[str, ...], dry_run: bool, force: bool = False) -> None:
        if force:
            overrides = (*overrides, "audit.force=true")
        with report_errors() as reporter:
            job = load()
            try:
                settings = load_config(job.config_type, config, overrides)
            except ConfigError:
                if not dry_run:
                    with leave_traces(Run.begin(job.config_type.job, read_places(config, overrides), {})):
                        raise
                raise
            run_job(job, settings, reporter, dry_run)

    return _force_option(command) if name.replace("-", "_") in jobs_with("audit.force") else command


for _entry in JOBS:
    dcrec.add_command(
        job_command(_entry.command, f"{_entry.summary}\n\n{cleandoc(_entry.details)}", _entry.load, _entry.summary)
    )


@contextmanager
def _places(config: Path | None, overrides: tuple[str, ...]) -> Iterator[tuple[Reporter, Several]]:
    with report_errors() as reporter, explain_unreachable():
        settings = load_config(PlacesConfig, config, overrides)
        with open_places(settings) as places:
            yield reporter, places


@dcrec.command("runs", short_help="List the published runs of each place.", epilog=_EXIT_CODES)
@_config_option
@_set_option
def _runs(config: Path | None, overrides: tuple[str, ...]) -> None:
    """List the runs in output.path and in each warehouse, and the current one.

    Give the settings of the job that publishes: dcrec runs --config nightly.yaml
    """
    with _places(config, overrides) as (reporter, places):
        reporter.show(table_of_runs(places.runs()))


@dcrec.command("rollback", short_help="Roll every place back to an older run.", epilog=_EXIT_CODES)
@click.argument("run")
@_config_option
@_set_option
def _rollback(run: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Make RUN the current run again, in output.path and in every warehouse. `dcrec runs` lists the runs.

    Give the settings of the job that publishes: dcrec rollback 20261120T021500-5f3c1a --config nightly.yaml
    """
    with _places(config, overrides) as (reporter, places):
        places.roll_back(run)
        reporter.show(table_of_runs(places.runs()))


@dcrec.command("doctor", short_help="Check the environment for a run, and name the cures.")
@_config_option
@_set_option
def _doctor(config: Path | None, overrides: tuple[str, ...]) -> None:
    """Check what `dcrec retrain` needs with these settings.

    Packages, Java, Spark, its Python workers, checkpoints, input, output and warehouses. Each line names what was
    found, or what is wrong and the cure. Write nothing. End with exit code 2 if something is wrong.

    \b
    dcrec doctor --config nightly.yaml
    """
    with report_errors() as reporter:
        doctor = import_module("dcrec_spark.jobs.doctor")
        findings = doctor.examine(load_config(RetrainConfig, config, overrides))
        reporter.show(doctor.table_of(findings))
        doctor.require_health(findings)


@dcrec.command(
    "plan",
    short_help="Print the --conf lines of a cluster that a fit of so many ratings needs.",
    context_settings={"show_default": True},
)
@click.option("--ratings", type=click.IntRange(1), required=True, help="Plan for so many ratings.")
@click.option("--users", type=click.IntRange(2), required=True, help="Plan for so many users.")
@click.option("--items", type=click.IntRange(2), required=True, help="Plan for so many items.")
@click.option("--rank", type=click.IntRange(1), default=10, help="Take this for outcome.rank.")
@click.option("--exposure-rank", type=click.IntRange(1), default=5, help="Take this for exposure.rank.")
@click.option(
    "--precision", type=click.Choice(["float32", "float64"]), default="float32", help="Take this for engine.precision."
)
@click.option("--executor-cores", type=click.IntRange(1), default=4, help="Give each executor so many cores.")
@click.option(
    "--executors", type=click.IntRange(1), help="Use so many executors. By default as few as cache 8 GB each."
)
def _plan(precision: str, executor_cores: int, executors: int | None, **size: int) -> None:
    """Print the memory of executors and driver for spark-submit, and the local disk that a fit needs.

    \b
    dcrec plan --ratings 10000000000 --users 100000000 --items 1000000 --rank 50
    """
    sizing = import_module("dcrec_spark.engine.sizing")
    given = sizing.Size(**size, number_bytes=8 if precision == "float64" else 4)
    plan = sizing.plan_cluster(given, executor_cores, executors)
    click.echo(f"# local disk of each executor (spark.local.dir): {plan.disk / sizing.GB:,.1f} GB")
    click.echo(f"# sent by each executor in an iteration, at most: {plan.sent / sizing.GB:,.1f} GB")
    for name, value in plan.conf().items():
        click.echo(f"--conf {name}={value} \\")


@dcrec.command("jars", short_help="Fetch the Java archives that warehouses need, for the installed Spark.")
@click.argument("artifacts", nargs=-1)
@click.option("--folder", type=click.Path(path_type=Path), default="jars", show_default=True, help="Made if missing.")
def _jars(artifacts: tuple[str, ...], folder: Path) -> None:
    """Fetch ARTIFACTS of conf/jars.txt, all of them by default, and print the value of spark.jars.

    Beginnings of names, or s3, or gcs. An archive that is there with its checksum is not fetched again.

    \b
    dcrec jars iceberg postgresql
    """
    with report_errors():
        paths = import_module("dcrec_spark.spark.jars").fetch_jars(folder, artifacts)
        click.echo(",".join(str(path.resolve()) for path in paths))


@dcrec.command("settings", short_help="Print every setting with its default, as YAML.")
def _settings() -> None:
    """Print every setting of every job with its choices and its default, as a file for --config."""
    click.echo(conf_file("base.yaml").read_text(encoding="utf-8"), nl=False)


@contextmanager
def report_errors() -> Iterator[Reporter]:
    """Set up logs and signals, and end the process with the exit code of an error that was raised on purpose."""
    forget_secrets()
    structlog.contextvars.clear_contextvars()
    for_people = sys.stderr.isatty()
    with mask_output(), Reporter(for_people=for_people) as reporter:
        configure_logging(for_people)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt_handler(reporter))
        try:
            yield reporter
        except BaseException as error:
            stop = interruption(error)
            if stop is not None and not isinstance(error, InterruptedRun):
                error = InterruptedRun(f"{stop}; nothing was published. Run the same command again")
            if isinstance(error, DcrecError):
                reporter.failed(error)
                sys.exit(error.exit_code)
            if isinstance(error, click.ClickException | click.exceptions.Exit) or not isinstance(error, Exception):
                raise
            reporter.broken(error)
            sys.exit(1)


def _interrupt_handler(reporter: Reporter) -> Callable[[int, FrameType | None], None]:
    """Return the handler of a signal: the first one stops the run, unless the run is published already."""
    signals = itertools.count(1)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if reporter.done or next(signals) > 1:  # a second one would cut the cleanup short
            return
        end_work()
        # Not an Exception: the bridge to the JVM, where this process mostly waits, would take that for a broken
        # connection.
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    return interrupt


class _ToStderr(logging.Handler):
    """What libraries log and warn of, as lines of the same log."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


def configure_logging(for_people: bool = False) -> None:
    """Log JSON lines to standard error, for the log collector of a scheduler, or plain ones for people."""
    facts: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask_event,
    ]
    as_json = structlog.processors.JSONRenderer(ensure_ascii=False)
    for_machines: list[Processor] = [*facts, as_json]
    os.environ["DCREC_LOG"] = "plain" if for_people else "json"  # of a JVM that is started here
    if not for_people and not any(isinstance(handler, _ToStderr) for handler in logging.getLogger().handlers):
        handler = _ToStderr(logging.WARNING)
        drop = structlog.stdlib.ProcessorFormatter.remove_processors_meta
        handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[drop, as_json], foreign_pre_chain=facts))
        logging.getLogger().addHandler(handler)
        logging.captureWarnings(True)
    as_text = structlog.dev.ConsoleRenderer(
        colors=False, pad_event_to=10, exception_formatter=structlog.dev.plain_traceback
    )
    plain: list[Processor] = [structlog.processors.format_exc_info, _mask_event, as_text]
    structlog.configure(
        processors=plain if for_people else for_machines, logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    # The bridge to the JVM also raises what it logs of a broken connection, and would log a signal as a stack trace.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # It also logs by the root logger.
    logging.getLogger().addFilter(silence_bridge)


def _mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: masked_leaves(value, name) for name, value in event.items()}
