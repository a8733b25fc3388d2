"""An Airflow of the tests' own, in the environment that make test-all makes, and a job that takes seconds."""

import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.jobs.job import in_sections, small_job
from tests.spark.standalone import ROOT, finished, free_port, wait_for

DAG = "dcrec_nightly"
# What carries out runs; the server first, which the others ask.
PARTS = (["api-server"], ["dag-processor"], ["scheduler", "--skip-serve-logs"])


class Airflow:
    """Commands of an Airflow whose database is ready, and, while ``carrying_out``, the processes that run its DAGs."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
        self.home, self.port = home, free_port()
        self.environment = {
            **kept,
            "PATH": f"{os.environ['DCREC_SCHEDULERS']}/bin:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            **{"AIRFLOW__API__HOST": "127.0.0.1", "AIRFLOW__API__PORT": str(self.port), "AIRFLOW__API__WORKERS": "1"},
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
            "DCREC_RETRY_SECONDS": "1",
        }
        ready = self.run("db", "migrate")
        assert ready.returncode == 0, ready.stderr
        with sqlite3.connect(home / "airflow.db") as database:
            # Else the scheduler's readers keep commands from writing, which a server's database would not.
            database.execute("pragma journal_mode=wal")

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run_program(["airflow", *words], **variables)

    def run_program(self, command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
        return finished(*command, env={**self.environment, **variables})

    def table(self, *words: str) -> list[dict[str, Any]]:
        listed = self.run(*words, "--output", "json")
        assert listed.returncode == 0, listed.stdout
        (line,) = (line for line in listed.stdout.splitlines() if line.startswith("["))
        return list(json.loads(line))

    @contextmanager
    def carrying_out(self, command: str) -> Iterator[None]:
        """Scheduler, DAG processor and API server, on loopback, whose runs are a command; all of it ends here."""
        environment = {**self.environment, "DCREC_COMMAND": command}
        with ExitStack() as started:
            for part in PARTS:
                log = started.enter_context((self.home / f"{part[0]}.log").open("w"))
                process = subprocess.Popen(
                    ["airflow", *part], env=environment, stdout=log, stderr=log, start_new_session=True
                )
                started.callback(_stop, process)
                wait_for(self._server_answers, self.logs, 120)
            yield

    def _server_answers(self) -> bool:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/version", timeout=5).close()
            return True
        return False

    def logs(self) -> str:
        files = sorted(self.home.rglob("*.log"))
        return "\n".join(f"{file}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it has started: a run is in a session of its own, and would outlive it."""
    started = _descendants(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    for left in [process.pid, *started]:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
    process.wait(timeout=60)


def _descendants(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    found = [process]
    for parent in found:  # which grows on the way
        found += [pid for pid, of in parents.items() if of == parent]
    return found[1:]


def job_command(folder: Path) -> str:
    settings = yaml.safe_dump(in_sections(small_job(folder, 20, 15, "item ")))
    (folder / "nightly.yaml").write_text(settings, encoding="utf-8")
    return f"env PYTHONPATH={ROOT} {sys.executable} {ROOT}/jobs/retrain.py --config {folder}/nightly.yaml"
