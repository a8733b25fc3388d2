"""Programs of these tests, in processes of their own."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.spark.standalone import plain_environment


def told(command: Sequence[str | Path]) -> dict[str, Any]:
    """What a program says in the last line of its standard output; it knows nothing of a Spark that is set up here."""
    finished = subprocess.run(
        command,
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-10_000:]
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result
