"""Programs of these tests, in processes of their own that know nothing of a Spark which is set up here."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.spark.standalone import ROOT, finished, plain_environment


def told(
    module: str,
    *words: object,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    seconds: float = 800,
) -> dict[str, Any]:
    """What a module, run as a program, says in the last line of its standard output."""
    command = [*prefix, sys.executable, "-m", module, *words]
    run = finished(*command, env=environment or plain_environment(), cwd=folder, seconds=seconds)
    assert run.returncode == 0, run.stderr[-10_000:]
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def tell(result: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(result)}\n")
