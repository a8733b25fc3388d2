"""HDFS through the driver's JVM, which has the cluster's configuration and credentials.

Neither pyarrow nor the older FileSystem interface can replace a file in one step on HDFS; FileContext can.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.storage.files import TEMPORARY_PREFIX, Entry

# HDFS gives a dead writer's lease to the next one after its soft limit of 60 s.
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.5


class HadoopFiles:
    """``dcrec_spark.storage.files.Files`` on the file system that ``uri`` names."""

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        if spark is None or not hasattr(spark, "_jsparkSession"):
            raise ConfigError(
                f"{setting} is {uri!r}: HDFS needs a driver with a JVM, not Spark Connect; "
                "run the job with spark-submit, or choose a path on a shared file system"
            )
        jvm: Any = spark._jvm
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        address = jvm.org.apache.hadoop.fs.Path(uri).toUri()
        with _as_os_error(uri):
            self._files = jvm.org.apache.hadoop.fs.FileSystem.get(address, configuration)
            self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(address, configuration)
        self._root = f"{address.getScheme()}://{address.getAuthority() or ''}"

    def uri(self, path: str) -> str:
        """As Spark takes the path."""
        return f"{self._root}{path}"

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name."""
        with _as_os_error(path):
            return bool(self._files.exists(self._path(path)))

    def list(self, path: str) -> list[Entry]:
        """The directory's entries by name; none when it does not exist."""
        try:
            with _as_os_error(path):
                statuses = self._files.listStatus(self._path(path))
        except FileNotFoundError:
            return []
        return sorted(
            Entry(s.getPath().getName(), s.isDirectory(), s.getLen(), s.getModificationTime() / 1000) for s in statuses
        )

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        with _as_os_error(path), self._opened(path) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def sha256(self, path: str) -> str:
        """In hex, computed inside the JVM: the bytes never pass to Python."""
        with _as_os_error(path), self._opened(path) as stream:
            return str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))

    def sync(self, path: str) -> None:
        """Nothing to do: a closed file is on its datanodes."""

    def write(self, path: str, content: bytes) -> None:
        """Through a temporary file that takes the old one's place."""
        temporary = f"{path.rpartition('/')[0]}/{TEMPORARY_PREFIX}{uuid4().hex}"
        with _as_os_error(path):
            try:
                stream = self._files.create(self._path(temporary), False)  # do not overwrite
                try:
                    stream.write(content)
                    stream.hsync()
                finally:
                    stream.close()
                self._move(temporary, path, "OVERWRITE")
            except BaseException:
                self._files.delete(self._path(temporary), False)  # not recursive
                raise

    def make_directory(self, path: str) -> None:
        """With its parents."""
        with _as_os_error(path):
            self._files.mkdirs(self._path(path))

    def rename(self, source: str, target: str) -> None:
        """In one step, never onto something."""
        with _as_os_error(target):
            self._move(source, target, "NONE")

    def delete(self, path: str) -> None:
        """With all that is inside."""
        with _as_os_error(path):
            self._files.delete(self._path(path), True)  # recursive

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Open the file for appending: HDFS lets one writer do so, and forgets one that died."""
        with _as_os_error(path):
            self._files.createNewFile(self._path(path))
        deadline = time.monotonic() + LOCK_SECONDS
        while (stream := self._try_append(path)) is None:
            if time.monotonic() > deadline:
                raise ConflictError(f"another process holds {path} for over {LOCK_SECONDS:.0f} s")
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
        with _as_os_error(ancestor):
            if not self._files.getFileStatus(self._path(ancestor)).isDirectory():
                raise NotADirectoryError(f"{ancestor} is a file")
            write = self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE_EXECUTE
            self._files.access(self._path(ancestor), write)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path))

    @contextmanager
    def _opened(self, path: str) -> Iterator[Any]:
        stream = self._files.open(self._path(path))
        try:
            yield stream
        finally:
            stream.close()

    def _move(self, source: str, target: str, option: str) -> None:
        options = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        chosen = self._jvm.java.lang.reflect.Array.newInstance(options.NONE.getClass(), 1)
        chosen[0] = getattr(options, option)
        self._context.rename(self._path(source), self._path(target), chosen)

    def _try_append(self, path: str) -> Any | None:
        try:
            return self._files.append(self._path(path))
        except Py4JJavaError as error:
            message = str(error.java_exception)
            if "AlreadyBeingCreatedException" in message or "RecoveryInProgressException" in message:
                return None
            raise OSError(f"{path}: {message}") from error


def default_file_system(spark: SparkSession) -> str:
    """Where Spark looks for a path without a scheme: ``file:///``, or ``hdfs://namenode``."""
    return str(spark._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS"))


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        message = str(error.java_exception).partition("\n")[0]
        kind = FileNotFoundError if "FileNotFoundException" in message else OSError
        raise kind(f"{path}: {message}") from error
