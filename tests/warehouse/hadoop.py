"""HDFS of the tests' own: a name node and a data node in one process on loopback, read by Hadoop's own shell."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import free_port, wait_until
from tests.warehouse.places import archives_of

_PROGRAM = "org.apache.hadoop.test.MiniDFSClusterManager"


class Hdfs:
    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        home.mkdir(parents=True)
        written = home / "configuration.xml"
        archives = archives_of("minicluster")
        self._java = [ensure_java().path / "bin" / "java", "-Xmx400m"]
        self._classes = os.pathsep.join([*map(str, archives), f"{Path(pyspark.__path__[0])}/jars/*"])
        with (home / "hdfs.log").open("w") as log:
            self.process = subprocess.Popen(
                [*self._java, f"-Dtest.build.data={home}", "-cp", self._classes, _PROGRAM, "-datanodes", "1", "-format",
                 "-nnport", str(self.port), "-writeConfig", written],
                cwd=home, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_until(written.is_file, self.process, home / "hdfs.log", 120)

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def copy(self, path: str) -> Path:
        target = Path(tempfile.mkdtemp(dir=self.home)) / "copy"
        # It refuses to begin without this file, whatever is in it.
        (self.home / "core-site.xml").write_text("<configuration/>")
        classes = os.pathsep.join([str(self.home), self._classes])
        shell = [*self._java, "-cp", classes, "org.apache.hadoop.fs.FsShell", "-get", f"{self.uri}{path}", target]
        run = subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        return target


@contextmanager
def running_hdfs(home: Path) -> Iterator[Hdfs]:
    hdfs = Hdfs(home)
    try:
        yield hdfs
    finally:
        hdfs.process.terminate()
        hdfs.process.wait(timeout=60)
