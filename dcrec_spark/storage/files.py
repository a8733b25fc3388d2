"""The few file operations that publishing and saving need, on the local file system or on HDFS.

Both rest on three promises of the store: a directory is renamed in one step, a small file is replaced
in one step, and a lock is let go when its holder dies. Object stores do not, and are refused.
"""

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError

LOCAL_LOCK_SECONDS = 30.0
POLL_SECONDS = 0.05
# Names that a process which died may leave behind, and that no reader looks at.
TEMPORARY_PREFIX = ".tmp-"
LOCATION = re.compile(r"(?:(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<host>[^/]*))?)?(?P<path>.*)", re.DOTALL)
# Spark reads these in a path as a pattern, or fails on them.
PATTERN_CHARACTERS = frozenset("*?[]{}\\:")
OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "cosn", "obs"})


class Entry(NamedTuple):
    """One name in a directory; ``modified`` in seconds since 1970."""

    name: str
    is_directory: bool
    bytes: int
    modified: float


class Files(Protocol):
    """Paths are absolute, without scheme. Methods raise OSError (FileNotFoundError: no such file to read)."""

    def uri(self, path: str) -> str:
        """The path as Spark takes it, whatever the cluster's default file system."""

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name."""

    def list(self, path: str) -> list[Entry]:
        """What the directory holds, by name; nothing when it does not exist."""

    def read(self, path: str) -> bytes:
        """The file's bytes."""

    def sha256(self, path: str) -> str:
        """Of the file's bytes, in hex, read in small pieces."""

    def sync(self, path: str) -> None:
        """Bring a file that Spark wrote safely to disk, so that no pointer outlives what it names."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file in one step: a reader finds the old bytes or the new."""

    def make_directory(self, path: str) -> None:
        """With its parents; fine when it exists."""

    def rename(self, source: str, target: str) -> None:
        """Move a directory in one step; the target must not exist."""

    def delete(self, path: str) -> None:
        """With all that is inside; fine when nothing is there."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Held by one process at a time and let go when it dies. ConflictError when another one keeps it."""

    def check_writable(self, path: str) -> None:
        """OSError when this user could not create the directory, or files in it. Leaves nothing behind."""


class LocalFiles:
    """A POSIX file system, also a shared one."""

    def uri(self, path: str) -> str:
        """As Spark takes the path."""
        return f"file://{path}"  # Not percent-encoded: Hadoop takes the text as it is.

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name."""
        return os.path.lexists(path)

    def list(self, path: str) -> list[Entry]:
        """The directory's entries by name; none when it does not exist."""
        try:
            with os.scandir(path) as children:
                return sorted(entry for child in children if (entry := _describe(child)) is not None)
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        return Path(path).read_bytes()

    def sha256(self, path: str) -> str:
        """Of the file's bytes, in hex."""
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def sync(self, path: str) -> None:
        """Flush the file or directory to disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, path: str, content: bytes) -> None:
        """Through a temporary file that takes the old one's place."""
        parent = Path(path).parent
        temporary = parent / f"{TEMPORARY_PREFIX}{uuid4().hex}"
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self.sync(str(parent))

    def make_directory(self, path: str) -> None:
        """With its parents."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """In one step, never onto something."""
        if self.exists(target):  # rename(2) would replace an empty directory.
            raise FileExistsError(f"{target} already exists")
        Path(source).rename(target)
        self.sync(str(Path(target).parent))

    def delete(self, path: str) -> None:
        """With all that is inside."""
        while self.exists(path):
            try:
                shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink()
            except FileNotFoundError:
                continue  # Another run cleans up the same leftovers: look again.

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """By flock, which the kernel releases when the process dies."""
        # The file stays: removing it would let two processes hold locks on two files of the same name.
        with Path(path).open("ab") as stream:
            deadline = time.monotonic() + LOCAL_LOCK_SECONDS
            while not _try_lock(stream.fileno()):
                if time.monotonic() > deadline:
                    raise ConflictError(f"another process holds {path} for over {LOCAL_LOCK_SECONDS:.0f} s")
                time.sleep(POLL_SECONDS)
            yield

    def check_writable(self, path: str) -> None:
        """Try it out on the nearest directory that exists."""
        ancestor = Path(path)
        while not ancestor.exists():
            ancestor = ancestor.parent
        probe = ancestor / f"{TEMPORARY_PREFIX}{uuid4().hex}"
        probe.mkdir()
        probe.rmdir()


def open_files(path: str, spark: SparkSession | None = None, setting: str = "output.path") -> tuple[Files, str]:
    """The store that a path names, and the absolute path inside it.

    Without a scheme, and with ``file:``, that is the local file system, on a cluster too; ``hdfs:`` is HDFS,
    reached through the driver's JVM. ConfigError naming ``setting`` for anything else.
    """
    parts = LOCATION.fullmatch(path)
    scheme, host, inside = (parts[name] or "" for name in ("scheme", "host", "path")) if parts else ("", "", "")
    if scheme == "hdfs":
        _require_plain(path, inside, setting)
        from dcrec_spark.spark.hadoop import HadoopFiles  # only where a JVM is at hand

        return HadoopFiles(spark, path, setting), inside.rstrip("/") or "/"
    if scheme == "" or (scheme == "file" and not host and inside.startswith("/")):
        _require_plain(path, inside, setting)
        return LocalFiles(), str(Path(inside).absolute())
    why = "is an object store, which can not rename a directory in one step, so readers could see half of a result"
    raise ConfigError(
        f"{setting} is {path!r}: {scheme}: {why if scheme in OBJECT_STORES else 'is not supported'}; "
        "use a path on HDFS (hdfs://) or on a local or shared file system"
    )


def _require_plain(path: str, inside: str, setting: str) -> None:
    if not inside.strip() or PATTERN_CHARACTERS & set(inside):
        refused = " ".join(sorted(PATTERN_CHARACTERS))
        raise ConfigError(f"{setting} is {path!r}; expected a path without any of the characters {refused}")


def _describe(child: os.DirEntry[str]) -> Entry | None:
    try:
        status = child.stat()
    except FileNotFoundError:
        return None  # Another run's temporary name, gone since the directory was listed.
    return Entry(child.name, child.is_dir(), status.st_size, status.st_mtime)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
