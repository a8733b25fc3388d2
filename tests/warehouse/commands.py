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
SINKS = """
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import ParquetSink
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
"""
# Dies before a step of the commit to one place, or when the step is just made.
KILLED = f"""{SINKS}
import os, signal
step = {{place}}.{{step}}
def killed(*given):
    if {{after}}:
        step(*given)
    os.kill(os.getpid(), signal.SIGKILL)
{{place}}.{{step}} = killed
"""
# Spark's local directory is a small disk, which is full when one place stages.
FULL = f"""{SINKS}
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={{size}}", "small", {{disk!r}}], check=True)
stage = {{place}}.stage
def stage_without_room(*given):
    try:
        with open({{disk!r}} + "/filler", "wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
    except OSError:
        return stage(*given)
{{place}}.stage = stage_without_room
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


def states_of(listed: str) -> dict[str, list[str]]:
    """What ``dcrec runs`` says of each run."""
    return {line.split()[0]: line.split()[2:] for line in listed.splitlines()[1:] if line.strip()}


def error_of(refused: Result) -> str:
    return str(json.loads(refused.stderr.splitlines()[-1])["event"])


def started(arguments: Sequence[object], before: str = "", prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a command in a process of its own, which runs the lines ``before`` first."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", f"{before}\n{JOB}", *map(str, arguments)],
        env=plain_environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(place: str, arguments: Sequence[object], step: str = "commit", after: bool = False) -> None:
    """Run a command that is killed before a step of the sink of this name, or after it."""
    process = started(arguments, KILLED.format(place=place, step=step, after=after))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL, errors[-2000:]


def done_apart(*arguments: object) -> str:
    """What a command says that has to succeed, in a process of its own."""
    process = started(arguments)
    said, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-2000:]
    return said
