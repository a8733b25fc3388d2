"""Programs in a process of their own, with the session that a user makes himself.

    session = SparkSession.builder.getOrCreate()

A process has one JVM, so that a test that needs such a session cannot share this process with the others.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from dcrec_spark.spark.java import ensure_java

ROOT = Path(__file__).resolve().parent.parent


def plain_environment(python: str | None = sys.executable) -> dict[str, str]:
    """The environment of a user who has Java, and whose workers run ``python``; None leaves that to Spark.

    What this process inherited or set for its own Spark is not handed on.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment |= {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(ensure_java().path), "OMP_NUM_THREADS": "1"}
    return environment if python is None else {**environment, "PYSPARK_PYTHON": python}


def run_plain(
    program: str, *arguments: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run Python source to its end and hand back its exit code, standard output and standard error.

    program : makes its own session. environment : by default :func:`plain_environment`. cwd : where it runs, so that
    files written by a snippet go away with a temporary directory.
    """
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=dict(environment or plain_environment()),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
