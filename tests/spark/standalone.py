"""Clusters on loopback: the environment of their processes, and a master with its workers."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from dcrec_spark.spark.java import ensure_java

ROOT = Path(__file__).resolve().parents[2]
SPARK = Path(pyspark.__file__).parent


def spark_home(folder: Path) -> Path:
    """Make a SPARK_HOME whose logs stay in ``folder``."""
    home = folder / "spark"
    if not home.exists():
        home.mkdir()
        for part in SPARK.iterdir():
            (home / part.name).symlink_to(part)
    return home


def plain_environment() -> dict[str, str]:
    """Of a process that knows nothing of the Spark of these tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


def finished(
    *command: object, env: Mapping[str, str] | None = None, cwd: Path | str | None = None, seconds: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code, and keep what it writes."""
    words = [*map(str, command)]
    return subprocess.run(words, env=env, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)


def run_plain(
    program: str, *arguments: str, cwd: Path, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process that makes its own session, as a user does; its workers run ``python``."""
    settings = {"JAVA_HOME": str(ensure_java().path), "OMP_NUM_THREADS": "1", "PYSPARK_PYTHON": python}
    return finished(sys.executable, "-c", program, *arguments, env={**plain_environment(), **settings}, cwd=cwd)


def environment(home: Path) -> dict[str, str]:
    """Of every process of a cluster on loopback."""
    return {
        **plain_environment(),
        "JAVA_HOME": str(ensure_java().path),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def bare_environment(home: Path) -> dict[str, str]:
    """Of a node that knows Spark and Java, and nothing of this package or of an environment that has it."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home.parent),
        "JAVA_HOME": str(ensure_java().path),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **{name: value for name, value in os.environ.items() if name == "JDK_JAVA_OPTIONS"},
    }


def run(command: list[str | Path], home: Path, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    return finished(*command, env=environment(home), cwd=home.parent, seconds=seconds)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(
    is_ready: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path, seconds: float = 60
) -> None:
    """Until a server answers; fails with the end of its log."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)


@contextmanager
def daemon(name: str, options: list[str], home: Path, bare: bool = False, number: int = 1) -> Iterator[Path]:
    """A master or worker that runs until the end of the block; the file that it logs to.

    bare : on a node that has nothing but Spark and Java. number : of the worker.
    """
    log = home.parent / f"{name}-{number}.log"
    command: list[str | Path] = [
        home / "bin" / "spark-class",
        f"org.apache.spark.deploy.{name.lower()}.{name}",
        *options,
    ]
    with log.open("w") as stream:
        settings = bare_environment(home) if bare else environment(home)
        process = subprocess.Popen(command, env=settings, cwd=home.parent, stdout=stream, stderr=stream)
        try:
            yield log
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)


def wait_for_worker(worker: Path, master: Path, seconds: float = 60) -> None:
    """Until the worker's log says that the master knows it."""
    deadline = time.monotonic() + seconds
    while "Successfully registered with master" not in worker.read_text():
        assert time.monotonic() < deadline, f"{master.read_text()}\n{worker.read_text()}"
        time.sleep(0.2)
