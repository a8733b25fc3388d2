"""Files on HDFS, and objects on S3 or a store that speaks its language, by :mod:`dcrec_spark.spark.hadoop`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from uuid import uuid4

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.spark.compat import is_classic
from dcrec_spark.spark.hadoop import HadoopFileSystem
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, temporary_name

# HDFS gives a dead writer's lease to the next one after its soft limit of 60 s.
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.5


class HadoopStore(HadoopFileSystem):
    """A store behind the driver's JVM."""

    store: ClassVar[str]

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        if spark is None or not is_classic(spark):
            raise ConfigError(
                f"{setting} is {uri!r}: {self.store} needs a driver with a JVM, not Spark Connect; "
                "run the job with spark-submit, or choose a path on a shared file system"
            )
        super().__init__(spark, uri)

    def sync(self, path: str) -> None:
        """Do nothing: a closed file is on its datanodes, and an object that is there is safe."""


class HadoopFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Files` on the file system that ``uri`` names."""

    store = "HDFS"

    def write(self, path: str, content: bytes) -> None:
        """Write a temporary file that takes the old one's place."""
        temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
        try:
            self.create(temporary, content)
            self.move(temporary, path, overwrite=True)
        except BaseException:
            self.delete(temporary)
            raise

    def rename(self, source: str, target: str) -> None:
        """Move a directory in one step, never onto something."""
        self.move(source, target, overwrite=False)

    @contextmanager
    def lock(self, path: str, seconds: float | None = None) -> Iterator[None]:
        """Hold the file open for appending: HDFS lets one writer do so, and forgets one that died."""
        patience = LOCK_SECONDS if seconds is None else seconds
        self.create_empty(path)
        deadline = time.monotonic() + patience
        while (stream := self.append(path)) is None:
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
        if not self.is_directory(ancestor):
            raise NotADirectoryError(f"{ancestor} is a file")
        self.require_write_access(ancestor)


class ObjectFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Objects` in the bucket that ``uri`` names."""

    store = "S3"

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        try:
            super().__init__(spark, uri, setting)
        except OSError as error:
            raise ConfigError(
                f"{setting} is {uri!r}, which can not be opened ({error}); S3 needs in spark.jars the archives that "
                "'dcrec jars s3' fetches, and credentials in the environment"
            ) from error

    def write(self, path: str, content: bytes) -> None:
        """Put the object."""
        self.replace(path, content)

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory is there when something is in it."""

    def check_writable(self, path: str) -> None:
        """Put an object and delete it: a store tells nothing beforehand."""
        probe = f"{path}/{TEMPORARY_PREFIX}{uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)
