"""Files on HDFS, and objects on the stores of clouds, by :mod:`dcrec_spark.spark.hadoop`.

S3's client replaces an object under a condition. Others do not, so what is replaced is a row of files there, each of
which is created once: see :class:`Numbered`.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.spark.hadoop import HadoopFileSystem
from dcrec_spark.storage.protocol import ChangedError, Entry, temporary_name

# HDFS gives a dead writer's lease to the next one after its soft limit of 60 s.
LOCK_SECONDS = 120.0
POLL_SECONDS = 0.5
# Of two who create a file at once, these stores refuse one.
CREATES_ONCE = frozenset({"gs", "abfs", "abfss"})
# Scheme: the archives in spark.jars, and the class where Hadoop does not know it.
_S3, _AZURE = "those of 'dcrec jars s3'", "hadoop-azure of Spark's Hadoop"
_CLIENTS = {
    "s3a": _S3,
    "s3": f"{_S3}; spark.hadoop.fs.s3.impl: org.apache.hadoop.fs.s3a.S3AFileSystem",
    "gs": "that of 'dcrec jars gcs'; spark.hadoop.fs.gs.impl: com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "abfs": _AZURE,
    "abfss": _AZURE,
}
_PLACES = "s3a://bucket/..., gs://bucket/..., abfss://container@account/..., hdfs://, or a local or shared directory"


class HadoopFiles(HadoopFileSystem):
    """:class:`dcrec_spark.storage.protocol.Files` on the file system that ``uri`` names."""

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
        self.move(source, target, overwrite=False)

    @contextmanager
    def lock(self, path: str, seconds: float | None = None) -> Iterator[None]:
        """Hold the file open for appending: HDFS lets one writer do so, and forgets one that died."""
        patience = LOCK_SECONDS if seconds is None else seconds
        deadline = time.monotonic() + patience
        while (stream := self.append(path)) is None:
            if time.monotonic() > deadline:
                raise ConflictError(f"another process holds {path} for over {patience:.0f} s")
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            stream.close()


class ObjectFiles(HadoopFileSystem):
    """:class:`dcrec_spark.storage.protocol.Objects` in the bucket that ``uri`` names."""

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        try:
            super().__init__(spark, uri, setting)
            self.is_conditional = self.replaces_if_unchanged()
        except OSError as error:
            client = _CLIENTS.get(self.scheme)
            cure = f"credentials, and archives in spark.jars: {client}" if client else f"another place: {_PLACES}"
            raise ConfigError(f"{setting} is {uri!r}, which cannot be opened ({error}); it needs {cure}") from error

    def write(self, path: str, content: bytes) -> None:
        self.create(path, content, overwrite=True)

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory is there when something is in it."""

    def check_writable(self, path: str) -> None:
        """Put an object and delete it: a store tells nothing beforehand."""
        probe = f"{path}/{temporary_name()}"
        self.write(probe, b"")
        self.delete(probe)


class Numbered:
    """What lets a store without conditions replace a file if nobody else has: it creates the next of a row.

    ::

        CURRENT.0000000007      what CURRENT holds: the highest that is not empty
        CURRENT.0000000008      empty: of a writer that is about to write it, or died

    Of two who create the same number, the store refuses one. Then the lower ones go, and a file CURRENT that was copied
    here from another kind of store. Who finds a higher one than his own was too late, and takes his back. So does who
    finds that the one below his own has been written since.
    """

    def exists(self, path: str) -> bool:
        """Whether there is a file, a directory, or a row of this name."""
        store: Any = super()
        return bool(store.exists(path)) or self._held(path) is not None

    def read(self, path: str) -> bytes:
        """Read a file, or what its row holds now."""
        store: Any = super()
        held: str | None = path
        while held is not None:
            try:
                return bytes(store.read(held))
            except FileNotFoundError:  # there is a row, or the row has moved on
                held = self._held(path)
        raise FileNotFoundError(path)

    def delete(self, path: str) -> None:
        """Delete with all that is inside, and with the row."""
        store: Any = super()
        for name in [path, *(f"{_parent(path)}/{entry.name}" for entry in self._row(path))]:
            store.delete(name)

    def version(self, path: str) -> str | None:
        """Return the highest number, that of an empty file too, and its bytes."""
        row = self._row(path)
        return f"{row[-1].name.rpartition('.')[2]} {row[-1].bytes}" if row else None

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        """Create the next number if the highest is still this one. Raises ChangedError: it isn't."""
        store: Any = super()
        if self.version(path) != version:
            raise ChangedError(f"{path}: its number is not {version} any more")
        number, size = map(int, (version or "0 0").split())
        last, mine = (f"{path}.{each:010d}" for each in (number, number + 1))
        try:
            store.create(mine, content)
        except OSError as error:
            if store.exists(mine):
                raise ChangedError(f"{mine} is there already") from error
            raise
        sizes = {f"{_parent(path)}/{entry.name}": entry.bytes for entry in self._row(path)}
        if max(sizes, default="") != mine or sizes.get(last, 0) != size:
            store.delete(mine)
            raise ChangedError(f"{mine} was created too late")
        for name in [*sizes, path]:
            if name != mine and store.exists(name):
                store.delete(name)

    def _row(self, path: str) -> list[Entry]:
        store: Any = super()
        numbered = re.compile(rf"{re.escape(path.rpartition('/')[2])}\.\d{{10}}")
        return [entry for entry in store.list(_parent(path)) if numbered.fullmatch(entry.name)]

    def _held(self, path: str) -> str | None:
        written = [entry.name for entry in self._row(path) if entry.bytes]
        return f"{_parent(path)}/{written[-1]}" if written else None


class NumberedFiles(Numbered, ObjectFiles):
    """Objects of a store that replaces none under a condition."""


def require_exclusive(files: object, path: str, setting: str) -> None:
    """Refuse a store where two publishers could both believe to be first. Raises ConfigError: says where not."""
    if isinstance(files, NumberedFiles) and files.scheme not in CREATES_ONCE:
        raise ConfigError(
            f"{setting} is {path!r}, and this client of {files.scheme}: cannot tell which of two publishers was first: "
            f"publish to Iceberg, Delta or PostgreSQL too, or take another place: {_PLACES} (S3 from Hadoop 3.4.2 on)"
        )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
