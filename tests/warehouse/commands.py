"""``dcrec`` as a scheduler starts it: in this process, or in one of its own that may be killed."""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from tests.jobs.job import SMALL, dcrec_with, in_sections
from tests.spark.standalone import DCREC, ROOT, plain_environment
from tests.warehouse.servers import session_settings

PAIRS = [(user, item, 1.0 + (user * item) % 5) for user in range(12) for item in range(10) if (user + item) % 3]
RATINGS = "\n".join(["user,item,rating", *(f"{user},{item},{rating}" for user, item, rating in PAIRS)])
# Dies before a step of the commit to one place, or when the step is just made.
KILLED = """
import os, signal
from {place.__module__} import {place.__name__} as Place
step = Place.{step}
def killed(*given):
    if {after}:
        step(*given)
    os.kill(os.getpid(), signal.SIGKILL)
Place.{step} = killed
"""
# Spark's local directory is a small disk, which is full when one place stages, and stays full when Spark cleans up.
FULL = """
import subprocess, threading, time
from {place.__module__} import {place.__name__} as Place
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={size}", "small", {disk!r}], check=True)
stage = Place.stage
def fill(full):
    with open({disk!r} + "/filler", "wb", buffering=0) as filler:
        while True:
            try:
                filler.write(bytes(4096))
            except OSError:
                full.set()
                time.sleep(0.001)
def stage_without_room(*given):
    full = threading.Event()
    threading.Thread(target=fill, args=[full], daemon=True).start()
    full.wait()
    return stage(*given)
Place.stage = stage_without_room
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


def done(*arguments: object) -> Result:
    result = dcrec_with(*arguments)
    assert result.exit_code == 0, result.output
    return result


def states_of(listed: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[2:] for line in listed.splitlines()[1:] if line.strip()}


def error_of(refused: Result) -> str:
    return str(json.loads(refused.stderr.splitlines()[-1])["event"])


def started(arguments: Sequence[object], before: str = "", prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    *python, program = DCREC
    command = [*prefix, *python, f"{before}\n{program}", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=plain_environment(), cwd=ROOT, **pipes)


def ended(arguments: Sequence[object], code: int, before: str = "", prefix: Sequence[str] = ()) -> tuple[str, str]:
    """What a command in a process of its own writes, which has to end with a code."""
    process = started(arguments, before, prefix)
    said, errors = process.communicate(timeout=600)
    assert process.returncode == code, errors[-3000:]
    return said, errors


def killed(place: type, arguments: Sequence[object], step: str = "commit", after: bool = False) -> None:
    ended(arguments, -signal.SIGKILL, KILLED.format(place=place, step=step, after=after))
