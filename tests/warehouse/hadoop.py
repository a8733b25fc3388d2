"""HDFS of the tests' own: a name node and a data node in one process on loopback, judged over WebHDFS."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pyspark

from dcrec_spark.spark.jars import listed_jars
from dcrec_spark.spark.java import ensure_java
from tests.warehouse.objects import free_port
from tests.warehouse.places import JARS

_PROGRAM = "org.apache.hadoop.test.MiniDFSClusterManager"


class Hdfs:
    """A running file system."""

    def __init__(self, home: Path) -> None:
        self.port, self.web = free_port(), free_port()
        home.mkdir(parents=True)
        written = home / "configuration.xml"
        archives = [JARS / jar.file_name for jar in listed_jars() if jar.purpose == "minicluster"]
        missing = [path.name for path in archives if not path.is_file()]
        assert not missing, f"{JARS} lacks {missing}: run make jars"
        classes = os.pathsep.join([*map(str, archives), f"{Path(pyspark.__path__[0])}/jars/*"])
        with (home / "hdfs.log").open("w") as log:
            self.process = subprocess.Popen(
                [ensure_java().path / "bin" / "java", "-Xmx400m", f"-Dtest.build.data={home}", "-cp", classes, _PROGRAM,
                 "-datanodes", "1", "-format", "-nnport", str(self.port), "-httpport", str(self.web),
                 "-writeConfig", written],
                cwd=home, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while not written.is_file():
            assert self.process.poll() is None, (home / "hdfs.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "HDFS did not start"
            time.sleep(0.2)

    @property
    def uri(self) -> str:
        """What paths on it begin with."""
        return f"hdfs://127.0.0.1:{self.port}"

    def read(self, path: str) -> bytes:
        """Read a file."""
        content: bytes = self._ask(path, "OPEN")
        return content

    def names(self, path: str) -> list[str]:
        """List a directory."""
        statuses: Any = json.loads(self._ask(path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        return sorted(status["pathSuffix"] for status in statuses)

    def _ask(self, path: str, what: str) -> bytes:
        with urlopen(f"http://127.0.0.1:{self.web}/webhdfs/v1{quote(path)}?op={what}", timeout=60) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def running_hdfs(home: Path) -> Iterator[Hdfs]:
    """Start one, and stop it."""
    hdfs = Hdfs(home)
    try:
        yield hdfs
    finally:
        hdfs.process.terminate()
        hdfs.process.wait(timeout=60)
