"""Files on HDFS, by the calls of :mod:`dcrec_spark.spark.hadoop`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.spark.hadoop import HadoopFileSystem, has_jvm
from dcrec_spark.storage.hadoop import HadoopStore
from dcrec_spark.storage.protocol import temporary_name

# HDFS gives a dead writer's lease to the next one after its soft limit of 60 s.
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.5


class HadoopFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Files` on the file system that ``uri`` names."""

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        if spark is None or not has_jvm(spark):
            raise ConfigError(
                f"{setting} is {uri!r}: HDFS needs a driver with a JVM, not Spark Connect; "
                "run the job with spark-submit, or choose a path on a shared file system"
            )
        self._hadoop = HadoopFileSystem(spark, uri)

    def sync(self, path: str) -> None:
        """Do nothing: a closed file is on its datanodes."""

    def write(self, path: str, content: bytes) -> None:
        """Write a temporary file that takes the old one's place."""
        temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
        try:
            self._hadoop.create(temporary, content)
            self._hadoop.move(temporary, path, overwrite=True)
        except BaseException:
            self._hadoop.delete(temporary)
            raise

    def make_directory(self, path: str) -> None:
        """Create the directory with its parents."""
        self._hadoop.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Move a directory in one step, never onto something."""
        self._hadoop.move(source, target, overwrite=False)

    @contextmanager
    def lock(self, path: str, seconds: float | None = None) -> Iterator[None]:
        """Hold the file open for appending: HDFS lets one writer do so, and forgets one that died."""
        patience = LOCK_SECONDS if seconds is None else seconds
        self._hadoop.create_empty(path)
        deadline = time.monotonic() + patience
        while (stream := self._hadoop.append(path)) is None:
            if time.monotonic() > deadline:
                raise ConflictError(f"another process holds {path} for over {patience:.0f} s")
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            stream.close()

    def check_writable(self, path: str) -> None:
        """Ask the name node about the nearest directory that exists."""
        ancestor = path
        while not self.exists(ancestor):
            ancestor = ancestor.rpartition("/")[0] or "/"
        if not self._hadoop.is_directory(ancestor):
            raise NotADirectoryError(f"{ancestor} is a file")
        self._hadoop.require_write_access(ancestor)
