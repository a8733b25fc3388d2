"""Files on HDFS, and objects on S3 or a store that speaks its language, by :mod:`dcrec_spark.spark.hadoop`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from uuid import uuid4

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.spark.hadoop import HadoopFileSystem, ObjectChangedError, has_jvm
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, ChangedError, Entry, temporary_name

# HDFS gives a dead writer's lease to the next one after its soft limit of 60 s.
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.5


class HadoopStore:
    """The part of :class:`dcrec_spark.storage.protocol.Files` that HDFS and object stores answer alike."""

    store: ClassVar[str]

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        if spark is None or not has_jvm(spark):
            raise ConfigError(
                f"{setting} is {uri!r}: {self.store} needs a driver with a JVM, not Spark Connect; "
                "run the job with spark-submit, or choose a path on a shared file system"
            )
        self._hadoop = HadoopFileSystem(spark, uri)

    def uri(self, path: str) -> str:
        """Return the path as Spark takes it."""
        return self._hadoop.uri(path)

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name. On an object store a directory is what has something in it."""
        return self._hadoop.exists(path or "/")

    def list(self, path: str) -> list[Entry]:
        """List the directory's entries by name. None when it does not exist."""
        try:
            return sorted(Entry(*status) for status in self._hadoop.children(path or "/"))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """Read the whole file."""
        return self._hadoop.read(path)

    def sha256(self, path: str) -> str:
        """Hash the file's bytes, in hex."""
        return self._hadoop.sha256(path)

    def delete(self, path: str) -> None:
        """Delete with all that is inside."""
        self._hadoop.delete(path)


class HadoopFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Files` on the file system that ``uri`` names."""

    store = "HDFS"

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


class ObjectFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Objects` in the bucket that ``uri`` names."""

    store = "S3"

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        try:
            super().__init__(spark, uri, setting)
        except OSError as error:
            raise ConfigError(
                f"{setting} is {uri!r}, which can not be opened ({error}); S3 needs in spark.jars the archives that "
                "'python -m dcrec_spark.spark.jars FOLDER s3' fetches, and credentials in the environment"
            ) from error

    def sync(self, path: str) -> None:
        """Do nothing: an object that is there is safe."""

    def write(self, path: str, content: bytes) -> None:
        """Put the object."""
        self._hadoop.replace(path, content)

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory is there when something is in it."""

    def check_writable(self, path: str) -> None:
        """Put an object and delete it: a store tells nothing beforehand."""
        probe = f"{path}/{TEMPORARY_PREFIX}{uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)

    def version(self, path: str) -> str | None:
        """Return the object's ETag."""
        return self._hadoop.etag(path)

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        """Put the object under the condition If-Match, or If-None-Match."""
        try:
            self._hadoop.replace_version(path, content, version)
        except ObjectChangedError as error:
            raise ChangedError(str(error)) from error
