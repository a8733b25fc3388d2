"""Processes of the tests: their environments and ends, and clusters on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from dcrec_spark.spark.java import ensure_java

ROOT = Path(__file__).resolve().parents[2]
SPARK = Path(pyspark.__file__).parent
# The command line, as the wheel installs it.
DCREC = [sys.executable, "-c", "from dcrec_spark.jobs.command import main; main()"]
# Every plan runs once or twice in the tests' own session: to compile it, twice over, takes longer. The tests in
# processes of their own, and those on clusters, run as users do.
QUICK_PLANS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "2g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # As in the Makefile; code of the quick compiler takes deeper stacks, and lineages are read by recursion.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
}


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
    words = [*map(str, command)]
    return subprocess.run(words, env=env, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)


def run_plain(
    program: str, *arguments: str, cwd: Path, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process that makes its own session, as a user does; its workers run ``python``."""
    settings = {"JAVA_HOME": str(ensure_java().path), "OMP_NUM_THREADS": "1", "PYSPARK_PYTHON": python}
    return finished(sys.executable, "-c", program, *arguments, env={**plain_environment(), **settings}, cwd=cwd)


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
    return dict(json.loads(run.stdout.splitlines()[-1]))


def tell(result: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(result)}\n")


def environment(home: Path) -> dict[str, str]:
    """Of every process of a cluster on loopback."""
    return {**plain_environment(), **_of_spark(home), "PYSPARK_PYTHON": sys.executable}


def bare_environment(home: Path) -> dict[str, str]:
    """Of a node that knows Spark and Java, and nothing of this package or of an environment that has it."""
    kept = {name: value for name, value in os.environ.items() if name == "JDK_JAVA_OPTIONS"}
    return {"PATH": "/usr/bin:/bin", "HOME": str(home.parent), **_of_spark(home), **kept}


def _of_spark(home: Path) -> dict[str, str]:
    return {"JAVA_HOME": str(ensure_java().path), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(is_ready: Callable[[], object], log: Callable[[], str], seconds: float = 60, pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not is_ready():
        assert time.monotonic() < deadline, log()[-3000:]
        time.sleep(pause)


def wait_until(
    is_ready: Callable[[], object], process: "subprocess.Popen[bytes]", log: Path, seconds: float = 60
) -> None:
    """Until a process has come so far; fails with the end of its log, also when it has ended before."""

    def is_there() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        return bool(is_ready())

    wait_for(is_there, lambda: log.read_text(errors="replace"), seconds)


@contextmanager
def started(command: Sequence[object], log: Path, **more: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process whose output is in a file; killed at the end of the block, whatever happens."""
    with log.open("w") as stream:
        settings = {"env": plain_environment(), "stdout": stream, "stderr": stream, **more}
        process = subprocess.Popen([*map(str, command)], **settings)
        try:
            yield process
        finally:
            process.kill()
            process.wait(timeout=240)


@contextmanager
def standalone_cluster(home: Path, *hosts: str, bare: bool = False, memory: str = "1g") -> Iterator[str]:
    """The address of a master on loopback with a worker of one core on each host, until the end of the block.

    bare : nodes that have nothing but Spark and Java. Worker n has ``work-n`` beside its SPARK_HOME.
    """
    folder, port = home.parent, free_port()
    address, settings = f"spark://127.0.0.1:{port}", bare_environment(home) if bare else environment(home)

    def start(until: str, name: str, number: int, host: str, *options: str) -> None:
        log = folder / f"{name}-{number}.log"
        program = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name.lower()}.{name}"]
        command = [*program, "--host", host, "--webui-port", "0", *options]
        with log.open("w") as stream:
            process = subprocess.Popen(command, env=settings, cwd=folder, stdout=stream, stderr=stream)
        running.callback(_end, process)
        wait_until(lambda: until in log.read_text(), process, log)

    with ExitStack() as running:
        start("", "Master", 1, "127.0.0.1", "--port", f"{port}")
        for number, host in enumerate(hosts, 1):
            options = ["--cores", "1", "--memory", memory, "--work-dir", f"{folder}/work-{number}", address]
            start("Successfully registered with master", "Worker", number, host, *options)
        yield address


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=20)
