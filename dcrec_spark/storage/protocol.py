"""The few file operations that publishing and saving need, whatever the store.

Every store has the methods of :class:`Files`, and promises that a small file is replaced in one step::

    files.write("/out/CURRENT", b"run_id=7")          readers find the old pointer or this one
    files.read("/out/CURRENT")                  -> b"run_id=7"
    files.list("/out")                          -> [Entry("CURRENT", is_directory=False, bytes=8, modified=1.7e9)]
    files.uri("/out")                           -> "hdfs://namenode/out", as Spark takes it

File systems have those of :class:`Directories` too: a directory is renamed in one step, and a lock is released when its
holder dies. What is in the making has another name there. Object stores have those of :class:`Objects`: a small file is
replaced only if nobody else has replaced it. What is in the making is in its place there from the beginning, and the
file that is written last tells readers that it is complete.
"""

from contextlib import AbstractContextManager
from typing import Protocol
from uuid import uuid4

from dcrec_spark.spark.hadoop import ChangedError, Entry

__all__ = ["TEMPORARY_PREFIX", "ChangedError", "Directories", "Entry", "Files", "Objects", "temporary_name"]

# Names that a process which died may leave behind, and that no reader looks at.
TEMPORARY_PREFIX = ".tmp-"


class Files(Protocol):
    """Any store. Paths are absolute, without scheme. Methods raise OSError (FileNotFoundError: nothing to read)."""

    def uri(self, path: str) -> str:
        """Return the path as Spark takes it, whatever the cluster's default file system."""

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name."""

    def list(self, path: str) -> list[Entry]:
        """List what the directory holds, by name. Nothing when it does not exist."""

    def read(self, path: str) -> bytes:
        """Read the whole file."""

    def sha256(self, path: str) -> str:
        """Hash the file's bytes, read in small pieces. In hex."""

    def sync(self, path: str) -> None:
        """Bring a file that Spark wrote safely to disk, so that no pointer outlives what it names."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file in one step: a reader finds the old bytes or the new."""

    def make_directory(self, path: str) -> None:
        """Create the directory with its parents. Fine when it exists."""

    def delete(self, path: str) -> None:
        """Delete with all that is inside. Fine when nothing is there."""

    def check_writable(self, path: str) -> None:
        """Raise OSError when this user could not create the directory, or files in it. Leave nothing behind."""


class Directories(Files, Protocol):
    """A file system."""

    def rename(self, source: str, target: str) -> None:
        """Move a directory in one step. The target must not exist."""

    def lock(self, path: str, seconds: float | None = None) -> AbstractContextManager[None]:
        """Hold what one process holds at a time, and loses when it dies. ConflictError after ``seconds``, if given."""


class Objects(Files, Protocol):
    """An object store. A directory is what begins with its path: it is there as long as something is in it."""

    def version(self, path: str) -> str | None:
        """Name the version of a file. None where there is none."""

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        """Replace a file if it is there in this version (None: if it is not there). ChangedError if it is not so."""


def temporary_name() -> str:
    """Return a name for what is in the making, which no other process takes."""
    return f"{TEMPORARY_PREFIX}{uuid4().hex}"
