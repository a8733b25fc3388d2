"""``dcrec`` as a scheduler starts it: in this process, or in one of its own that may be killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from dcrec_spark.jobs.cli import dcrec
from tests.jobs.job import SMALL, in_sections, invoke
from tests.spark.standalone import ROOT, plain_environment
from tests.warehouse.places import session_settings

PAIRS = [(user, item, 1.0 + (user * item) % 5) for user in range(12) for item in range(10) if (user + item) % 3]
RATINGS = "\n".join(["user,item,rating", *(f"{user},{item},{rating}" for user, item, rating in PAIRS)])
JOB = "from dcrec_spark.jobs.command import main; main()"
# Dies as it is about to commit to one place: Iceberg is committed by then, PostgreSQL before the directory too.
KILLED = """
import os, signal
from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import ParquetSink
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
{place}.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def settings_file(
    scratch: Path,
    name: str,
    conf: Mapping[str, str] | None = None,
    small: Mapping[str, object] = SMALL,
    **sections: dict[str, Any],
) -> Path:
    """Write the settings of a small job whose session has all catalogs but Hive's, which one process at a time has."""
    known = {**session_settings(scratch), "spark.sql.catalogImplementation": "in-memory", **(conf or {})}
    file = scratch / f"{name}.yaml"
    file.write_text(yaml.safe_dump(in_sections(small, **sections, spark={"master": "local[2]", "conf": known})))
    return file


def dcrec_with(*arguments: object) -> Result:
    return invoke(dcrec, *arguments)


def done(*arguments: object) -> Result:
    """Run a command that has to succeed."""
    result = dcrec_with(*arguments)
    assert result.exit_code == 0, result.output
    return result


def states_of(listed: Result) -> dict[str, list[str]]:
    """What ``dcrec runs`` says of each run."""
    return {line.split()[0]: line.split()[2:] for line in listed.stdout.splitlines()[1:] if line.strip()}


def error_of(refused: Result) -> str:
    return str(json.loads(refused.stderr.splitlines()[-1])["event"])


def started(arguments: Sequence[object], before: str = "") -> subprocess.Popen[str]:
    """Start a command in a process of its own, which runs the lines ``before`` first."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{JOB}", *map(str, arguments)],
        env=plain_environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_before(place: str, arguments: Sequence[object]) -> None:
    killed = started(arguments, KILLED.format(place=place))
    _, errors = killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL, errors[-2000:]
