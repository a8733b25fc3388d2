"""The command line: ``dcrec`` with one subcommand a job, and the same options for all of them.

A job is imported when it is run: help and completion answer without Spark, and a job whose packages are not installed
does not keep the others from running.
"""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
import structlog
from click.shell_completion import get_completion_class
from structlog.typing import Processor

from dcrec_spark.config import load_config
from dcrec_spark.errors import DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.catalogue import JOBS
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.job import Job
from dcrec_spark.jobs.runner import run_job
from dcrec_spark.version import __version__

_PROGRAM = "dcrec"
_EPILOG = """\b
Settings
  --config FILE holds those that differ from the defaults; --set wins over it:
  dcrec retrain --config nightly.yaml --set outcome.rank=50 --set output.path=tables

\b
Exit codes
  0 done   1 unexpected   2 usage or configuration   3 data rejected
  4 audit refused to publish   5 another publisher won   6 interrupted, can be run again
"""


class _Jobs(click.Group):
    """A group whose help lists the commands by what they are for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The order of a model's life, not of the alphabet."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each purpose."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for entry in JOBS:
            sections.setdefault(entry.purpose, []).append((entry.command, entry.summary))
        sections["Shell"] = [(name, self.commands[name].get_short_help_str(80)) for name in ("completion",)]
        for purpose, rows in sections.items():
            with formatter.section(purpose):
                formatter.write_dl(rows, col_max=12)


@click.group(
    _PROGRAM,
    cls=_Jobs,
    epilog=_EPILOG,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=_PROGRAM)
def dcrec() -> None:
    """Deconfounded recommendations on Apache Spark: what people would like, not what they were shown.

    Each command is a job that a scheduler can run: it checks its settings, leaves a record of the run (run.json), and
    publishes all of its tables or none. `dcrec COMMAND --help` explains one.
    """


@dcrec.command("completion", short_help="Print what makes a shell complete these commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> None:
    """Print what makes SHELL complete the commands and options of dcrec.

    \b
    bash   eval "$(dcrec completion bash)"      in ~/.bashrc
    zsh    eval "$(dcrec completion zsh)"       in ~/.zshrc
    fish   dcrec completion fish | source       in ~/.config/fish/config.fish
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise AssertionError(f"click completes {shell}")
    click.echo(completion(dcrec, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())


def job_command(name: str, help_text: str, load: Callable[[], Job[Any, Any, Any]], summary: str = "") -> click.Command:
    """The command line of a job.

    Parameters
    ----------
    name : of the command.
    help_text : what ``--help`` says.
    load : imports the job.
    summary : one line for a list of commands.
    """

    @click.command(name, help=help_text, short_help=summary, epilog=_EPILOG)
    @click.option(
        "--config", type=click.Path(path_type=Path), metavar="FILE", help="YAML with settings; conf/base.yaml has all."
    )
    @click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="One setting; repeat at will.")
    @click.option("--dry-run", is_flag=True, help="Check settings, inputs and output; write nothing.")
    def command(config: Path | None, overrides: tuple[str, ...], dry_run: bool) -> None:
        with reported_errors() as reporter:
            job = load()
            run_job(job, load_config(job.config_type, config, overrides), reporter, dry_run)

    return command


for _entry in JOBS:
    dcrec.add_command(job_command(_entry.command, _entry.help_text, _entry.load, _entry.summary))


@contextmanager
def reported_errors() -> Iterator[Reporter]:
    """Logs, signals and exit codes of a job: an error that was raised on purpose ends the process with its code."""
    configure_logging()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    with Reporter() as reporter:
        try:
            yield reporter
        except BaseException as error:
            stop = interruption(error)
            if stop is not None:
                error = InterruptedRun(f"{stop}; nothing was published. Run the same command again")
            if not isinstance(error, DcrecError):
                raise
            reporter.failed(error)
            sys.exit(error.exit_code)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    # Not an Exception: the bridge to the JVM, where this process mostly waits, would take that for a broken connection.
    raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")


def configure_logging(for_people: bool = False) -> None:
    """JSON lines on standard error, for the log collector of a scheduler, or plain ones for people.

    They are the progress of a run where standard output is not a terminal; a terminal gets the live display.
    """
    for_machines: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    plain: list[Processor] = [structlog.dev.ConsoleRenderer(colors=False, pad_event_to=10)]
    structlog.configure(
        processors=plain if for_people else for_machines, logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
