"""``dcrec`` as a scheduler starts it: in this process, or in one of its own that may be killed."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog
from click.testing import CliRunner, Result

from dcrec_spark.jobs.cli import dcrec
from tests.jobs.job import SMALL
from tests.spark.standalone import ROOT, plain_environment

RATINGS = "\n".join(
    ["user,item,rating", *(f"{u},{i},{1 + (u * i) % 5}" for u in range(12) for i in range(10) if (u + i) % 3)]
)
# Dies as it is about to commit to one place: Iceberg is committed by then, PostgreSQL before the directory too.
KILLED = """
import os, signal
from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import ParquetSink
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
{place}.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from dcrec_spark.jobs.command import main
main()
"""


def small_run(folder: Path, ratings: str) -> dict[str, object]:
    """Write ratings as CSV into a folder; the settings of a small retraining from there to its ``out``."""
    (folder / "ratings.csv").write_text(ratings)
    return {**SMALL, "input.path": folder / "ratings.csv", "input.format": "csv", "output.path": folder / "out"}


def dcrec_with(*arguments: object) -> Result:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return CliRunner().invoke(dcrec, [str(argument) for argument in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        structlog.reset_defaults()


def started(program: str, arguments: Sequence[object]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=plain_environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_before(place: str, arguments: Sequence[object]) -> None:
    killed = started(KILLED.format(place=place), arguments)
    _, errors = killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL, errors[-2000:]
