"""The command line: ``dcrec`` with one subcommand a job, and the same options for all of them.

A job is imported when it is run: help and completion answer without Spark, and a job whose packages are not installed
does not keep the others from running.
"""

import itertools
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import click
import structlog
from click.shell_completion import get_completion_class
from structlog.typing import EventDict, Processor, WrappedLogger

from dcrec_spark.config import JOB_CONFIGS, RetrainConfig, forget_secrets, load_config, masked_all
from dcrec_spark.config.names import jobs_with, known_settings
from dcrec_spark.config.warehouses import PlacesConfig
from dcrec_spark.errors import DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.catalogue import JOBS
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.job import Job
from dcrec_spark.jobs.masked_output import masked_output
from dcrec_spark.jobs.places import opened_places, table_of_runs
from dcrec_spark.jobs.runner import run_job
from dcrec_spark.spark.cancellation import end_work
from dcrec_spark.spark.session import conf_file
from dcrec_spark.version import __version__

_PROGRAM = "dcrec"
_EXIT_CODES = """\b
Exit codes
  0 done   1 unexpected   2 usage or configuration   3 data rejected
  4 audit refused to publish   5 another publisher won   6 interrupted, can be run again
  7 disk full
"""
_SETTINGS = """\b
Settings
  A file holds those that differ from the defaults; --set wins over it:
  dcrec retrain --config nightly.yaml --set outcome.rank=50 --set output.path=tables
  dcrec settings prints all of them with their defaults.
"""
_PLACES = ("runs", "rollback")
_OTHERS = ("doctor", "plan", "settings", "completion")


class _Jobs(click.Group):
    """A group whose help lists the commands by what they are for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of a model's life, not of the alphabet."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each purpose."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for entry in JOBS:
            sections.setdefault(entry.purpose, []).append((entry.command, entry.summary))
        for purpose, names in {"See and go back": _PLACES, "Help": _OTHERS}.items():
            sections[purpose] = [(name, self.commands[name].get_short_help_str(80)) for name in names]
        for purpose, rows in sections.items():
            with formatter.section(purpose):
                formatter.write_dl(rows, col_max=12)


@click.group(
    _PROGRAM,
    cls=_Jobs,
    epilog=f"{_SETTINGS}\n{_EXIT_CODES}",
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=_PROGRAM)
def dcrec() -> None:
    """Deconfounded recommendations on Apache Spark: what people would like, not what they were shown.

    Each command is a job that a scheduler can run: it checks its settings, leaves a record of the run (run.json), and
    publishes all of its tables or none. `dcrec COMMAND --help` explains one.
    """


@dcrec.command("doctor", short_help="Say what this environment lacks for a run, and what to do.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings of the run, as YAML.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="One setting, over the file.")
def _doctor(config: Path | None, overrides: tuple[str, ...]) -> None:
    """Look at what `dcrec retrain` needs with these settings.

    Packages, Java, Spark, its Python workers, checkpoints, input, output and warehouses: each line says what was found,
    or what is wrong and the cure. Writes nothing. Exit code 2 where something is wrong.
    """
    with reported_errors() as reporter:
        doctor = import_module("dcrec_spark.jobs.doctor")
        findings = doctor.examine(load_config(RetrainConfig, config, overrides))
        reporter.show(doctor.shown(findings))
        doctor.require_health(findings)


@dcrec.command("plan", short_help="Print the --conf lines of a cluster that a fit of so many ratings needs.")
@click.option("--ratings", type=click.IntRange(1), required=True, help="Number of pairs of a user and an item.")
@click.option("--users", type=click.IntRange(2), required=True, help="Number of users.")
@click.option("--items", type=click.IntRange(2), required=True, help="Number of items.")
@click.option("--rank", type=click.IntRange(1), default=10, show_default=True, help="outcome.rank.")
@click.option("--exposure-rank", type=click.IntRange(1), default=5, show_default=True, help="exposure.rank.")
@click.option("--precision", type=click.Choice(["float64", "float32"]), default="float64", show_default=True)
@click.option("--executor-cores", type=click.IntRange(1), default=4, show_default=True, help="Cores of each executor.")
@click.option("--executors", type=click.IntRange(1), help="By default few enough to cache 8 GB each.")
def _plan(
    ratings: int,
    users: int,
    items: int,
    rank: int,
    exposure_rank: int,
    precision: str,
    executor_cores: int,
    executors: int | None,
) -> None:
    """Print the memory of executors and driver for spark-submit, and the local disk that a fit needs.

    \b
    dcrec plan --ratings 10000000000 --users 100000000 --items 1000000 --rank 50
    """
    sizing = import_module("dcrec_spark.engine.sizing")
    size = sizing.Size(users, items, ratings, rank, exposure_rank, 8 if precision == "float64" else 4)
    plan = sizing.plan_cluster(size, executor_cores, executors)
    for name, value in plan.conf().items():
        click.echo(f"--conf {name}={value} \\")
    click.echo(f"# local disk of each executor (spark.local.dir): {plan.disk / sizing.GB:,.1f} GB")


@dcrec.command("settings", short_help="Print every setting with its default, as YAML.")
def _settings() -> None:
    """Print every setting of every job with its choices and its default, as a file for --config."""
    click.echo(conf_file("base.yaml").read_text(encoding="utf-8"), nl=False)


@dcrec.command("completion", short_help="Print what makes a shell complete these commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> None:
    """Print what makes SHELL complete the commands and options of dcrec.

    \b
    bash   eval "$(dcrec completion bash)"      in ~/.bashrc
    zsh    eval "$(dcrec completion zsh)"       in ~/.zshrc
    fish   dcrec completion fish | source       in ~/.config/fish/config.fish

    It is click's own completion: eval "$(_DCREC_COMPLETE=bash_source dcrec)" does the same.
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise AssertionError(f"click completes {shell}")
    click.echo(completion(dcrec, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())


def _complete_setting(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """List the settings of the job whose names begin with what was typed."""
    job = str(ctx.info_name).replace("-", "_")
    names = [name for kind in JOB_CONFIGS if kind.job == job for name in known_settings(kind)]
    return [f"{name}=" for name in names if name.startswith(incomplete)]


_config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings as YAML; `dcrec settings` prints all of them.",
)
_set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    shell_complete=_complete_setting,
    metavar="A.B=VALUE",
    help="One setting, over the file; can be repeated.",
)


_force_option = click.option(
    "--force", is_flag=True, help="Publish beyond the limits of the audit all the same; the record says so."
)


def job_command(name: str, help_text: str, load: Callable[[], Job[Any, Any, Any]], summary: str = "") -> click.Command:
    """Make the command line of a job.

    Parameters
    ----------
    name : of the command.
    help_text : what ``--help`` says.
    load : imports the job.
    summary : one line for a list of commands.
    """

    @click.command(name, help=help_text, short_help=summary, epilog=_EXIT_CODES)
    @_config_option
    @_set_option
    @click.option("--dry-run", is_flag=True, help="Check settings, inputs and output; write nothing.")
    def command(config: Path | None, overrides: tuple[str, ...], dry_run: bool, force: bool = False) -> None:
        if force:
            overrides = (*overrides, "audit.force=true")
        with reported_errors() as reporter:
            job = load()
            run_job(job, load_config(job.config_type, config, overrides), reporter, dry_run)

    return _force_option(command) if name.replace("-", "_") in jobs_with("audit.force") else command


@dcrec.command("runs", short_help="List the runs that are published, place by place.", epilog=_EXIT_CODES)
@_config_option
@_set_option
def _runs(config: Path | None, overrides: tuple[str, ...]) -> None:
    """List the runs in output.path and in each warehouse, and which of them readers find now.

    It takes the settings of the job that publishes: dcrec runs --config nightly.yaml
    """
    with reported_errors() as reporter, opened_places(load_config(PlacesConfig, config, overrides)) as places:
        reporter.show(table_of_runs(places.held()))


@dcrec.command("rollback", short_help="Bring every place back to an older run.", epilog=_EXIT_CODES)
@click.argument("run")
@_config_option
@_set_option
def _rollback(run: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Have readers find RUN again, in output.path and in every warehouse; `dcrec runs` lists the runs.

    It takes the settings of the job that publishes: dcrec rollback 20261120T021500-5f3c1a --config nightly.yaml
    """
    with reported_errors() as reporter, opened_places(load_config(PlacesConfig, config, overrides)) as places:
        places.roll_back(run)
        reporter.show(table_of_runs(places.held()))


for _entry in JOBS:
    dcrec.add_command(job_command(_entry.command, _entry.help_text, _entry.load, _entry.summary))


@contextmanager
def reported_errors() -> Iterator[Reporter]:
    """Set up logs and signals, and end the process with the exit code of an error that was raised on purpose."""
    forget_secrets()
    with masked_output(), Reporter() as reporter:
        configure_logging()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupts(reporter))
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


def _interrupts(reporter: Reporter) -> Callable[[int, FrameType | None], None]:
    """Return the answer to a signal: the first one stops the run, unless the run is published already."""
    signals = itertools.count(1)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if reporter.done or next(signals) > 1:  # else the clearing up would be cut short too
            return
        end_work()
        # Not an Exception: the bridge to the JVM, where this process mostly waits, would take that for a broken
        # connection.
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    return interrupt


def configure_logging(for_people: bool = False) -> None:
    """JSON lines on standard error, for the log collector of a scheduler, or plain ones for people.

    They are the progress of a run where standard output is not a terminal; a terminal gets the live display.
    """
    for_machines: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _masked_event,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    plain: list[Processor] = [_masked_event, structlog.dev.ConsoleRenderer(colors=False, pad_event_to=10)]
    structlog.configure(
        processors=plain if for_people else for_machines, logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    # What the bridge to the JVM says of a broken connection is raised too, and would show a signal as a stack trace.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_the_bridge)


def _masked_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: masked_all(value) for name, value in event.items()}


def _is_not_of_the_bridge(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"  # which logs by the root logger too
