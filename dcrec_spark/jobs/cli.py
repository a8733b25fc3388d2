"""What every job shares: its options, its logs, its exit code."""

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
import structlog
from structlog.typing import Processor

from dcrec_spark.config import RunConfig, load_config
from dcrec_spark.errors import DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.console import Reporter

Job = Callable[[RunConfig, Reporter, bool], object]


def run_job(job: Job, description: str | None) -> NoReturn:
    """Parse the command line, run ``job``, and end the process with the exit code of the contract."""
    job_command(job, description)()
    sys.exit(0)


def job_command(job: Job, description: str | None) -> click.Command:
    """The command line of ``job``."""

    @click.command(help=f"\b\n{description}")
    @click.option("--config", type=click.Path(path_type=Path), help="YAML file of settings; see conf/base.yaml.")
    @click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="One setting; repeat at will.")
    @click.option("--dry-run", is_flag=True, help="Check settings, input and output; write nothing.")
    def command(config: Path | None, overrides: tuple[str, ...], dry_run: bool) -> None:
        configure_logging()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt)
        with Reporter() as reporter:
            try:
                job(load_config(RunConfig, config, overrides), reporter, dry_run)
            except BaseException as error:
                stop = interruption(error)
                if stop is not None:
                    error = InterruptedRun(f"{stop}; nothing was published. Run the same command again")
                if not isinstance(error, DcrecError):
                    raise
                reporter.failed(error)
                sys.exit(error.exit_code)

    return command


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
