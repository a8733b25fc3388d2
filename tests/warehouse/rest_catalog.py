"""A REST catalog of Iceberg of the tests' own: the server of Iceberg's own tests, its tables in a folder."""

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import free_port, wait_until
from tests.warehouse.places import archives_of

_PROGRAM = "org.apache.iceberg.rest.RESTCatalogServer"
CATALOG = "rest"


class RestCatalog:
    """A running server; it listens on every interface of the machine, as that program does."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.port, log = free_port(), home / "server.log"
        archives = [*archives_of("rest-server"), *archives_of("", "sqlite")]
        classes = os.pathsep.join([*map(str, archives), f"{Path(pyspark.__path__[0])}/jars/*"])
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                [ensure_java().path / "bin" / "java", "-Xmx300m", "-cp", classes, _PROGRAM],
                env={
                    **os.environ,
                    "CATALOG_REST_PORT": str(self.port),
                    "CATALOG_URI": f"jdbc:sqlite:{home}/catalog.sqlite",
                    "CATALOG_WAREHOUSE": f"{home}/tables",
                },
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, self.process, log)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        name = f"spark.sql.catalog.{CATALOG}"
        return {name: "org.apache.iceberg.spark.SparkCatalog", f"{name}.type": "rest", f"{name}.uri": self.uri}

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def running_rest_catalog(home: Path) -> Iterator[RestCatalog]:
    catalog = RestCatalog(home)
    try:
        yield catalog
    finally:
        catalog.process.terminate()
        catalog.process.wait(timeout=60)
