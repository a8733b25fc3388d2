"""Stores as tests need them: one that dies while it is used, and objects in memory."""

import hashlib
import time
from functools import partialmethod
from typing import Any

from dcrec_spark.storage.hadoop import Numbered
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import ChangedError, Entry


class Killed(BaseException):
    """Not an Exception, like a signal: nothing may catch it and carry on."""


class Dying:
    """Dies at the n-th change, before or after making it, and then changes nothing more: like a process."""

    changes_left: int
    after: bool

    def _change(self, name: str, *given: Any, **named: Any) -> None:
        self.changes_left -= 1
        if self.changes_left == 0 and self.after:
            getattr(super(), name)(*given, **named)
        if self.changes_left <= 0:
            raise Killed
        getattr(super(), name)(*given, **named)

    make_directory = partialmethod(_change, "make_directory")
    write = partialmethod(_change, "write")
    write_over = partialmethod(_change, "write_over")
    create = partialmethod(_change, "create")
    rename = partialmethod(_change, "rename")
    delete = partialmethod(_change, "delete")


class DyingFiles(Dying, LocalFiles):
    def __init__(self, changes_left: int, after: bool) -> None:
        self.changes_left, self.after = changes_left, after


class MemoryObjects:
    """:class:`dcrec_spark.storage.protocol.Objects`; ``contents``, ``times`` and ``versions`` by path."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.versions: dict[str, str] = {}

    def uri(self, path: str) -> str:
        return f"memory://{path}"

    def exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in self.contents)

    def list(self, path: str) -> list[Entry]:
        found, now = set(), time.time()
        for whole, content in self.contents.items():
            if whole.startswith(f"{path}/"):
                name, is_directory, _ = whole.removeprefix(f"{path}/").partition("/")
                # A directory has the time of whoever asks, as Hadoop has it.
                size, modified = (0, now) if is_directory else (len(content), self.times[whole])
                found.add(Entry(name, bool(is_directory), size, modified))
        return sorted(found)

    def read(self, path: str) -> bytes:
        if path not in self.contents:
            raise FileNotFoundError(path)
        return self.contents[path]

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.read(path)).hexdigest()

    def write(self, path: str, content: bytes) -> None:
        self.contents[path], self.times[path] = content, time.time()
        self.versions[path] = f"{len(self.versions)}-{time.time_ns()}"

    def delete(self, path: str) -> None:
        for name in [name for name in self.contents if name == path or name.startswith(f"{path}/")]:
            del self.contents[name], self.times[name], self.versions[name]

    def sync(self, path: str) -> None: ...
    def make_directory(self, path: str) -> None: ...
    def check_writable(self, path: str) -> None: ...

    def version(self, path: str) -> str | None:
        return self.versions.get(path)

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        if self.versions.get(path) != version:
            raise ChangedError(f"{path}: 412")
        self.write(path, content)

    def create(self, path: str, content: bytes) -> None:
        if path in self.contents:
            raise FileExistsError(path)
        self.write(path, content)


class NumberedObjects(Numbered, MemoryObjects):
    """A store that replaces nothing under a condition."""
