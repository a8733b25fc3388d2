"""Files on a POSIX file system: of this machine, or one that is mounted on all nodes."""

import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from dcrec_spark.errors import ConflictError, DataError
from dcrec_spark.storage.protocol import Entry, temporary_name

POLL_SECONDS = 0.05
# Linux takes 4,096 bytes. A task's file below an output has some 400 more than the output.
_LONGEST_PATH = 3500


@dataclass
class LocalFiles:
    """Files on a POSIX file system, also a shared one. lock_seconds : how long to wait for another's lock."""

    lock_seconds: float = 30.0

    def uri(self, path: str) -> str:
        return f"file://{path}"  # Not percent-encoded: Hadoop takes the text as it is.

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def list(self, path: str) -> list[Entry]:
        entries = []
        with suppress(FileNotFoundError), os.scandir(path) as children:
            for child in children:
                try:
                    status = child.stat()
                except FileNotFoundError:  # another run's temporary name, gone since it was listed, or a dangling link
                    continue
                except OSError:  # a link to itself, or to where this user may not look
                    status = child.stat(follow_symlinks=False)
                entries.append(Entry(child.name, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime))
        return sorted(entries)

    def read(self, path: str) -> bytes:
        with _open_file(path) as stream:
            return stream.read()

    def sha256(self, path: str) -> str:
        with _open_file(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, path: str, content: bytes) -> None:
        """Write a temporary file that takes the old one's place."""
        parent = Path(path).parent
        temporary = parent / temporary_name()
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
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):  # rename(2) would replace an empty directory.
            raise FileExistsError(f"{target} already exists")
        Path(source).rename(target)
        self.sync(str(Path(target).parent))

    def delete(self, path: str) -> None:
        """Delete with all that is inside. Of a link it is the link that goes, and not what somebody moved elsewhere."""
        while self.exists(path):
            try:
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
            except FileNotFoundError:
                continue  # Another run cleans up the same leftovers: look again.

    @contextmanager
    def lock(self, path: str, seconds: float | None = None) -> Iterator[None]:
        """Hold an flock, which the kernel releases when the process dies."""
        patience = self.lock_seconds if seconds is None else seconds
        # The file stays: removing it would let two processes hold locks on two files of the same name.
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666), "wb") as stream:
            deadline = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ConflictError(f"another process holds {path} for over {patience:.0f} s") from None
                    time.sleep(POLL_SECONDS)
            yield

    def check_writable(self, path: str) -> None:
        """Create and remove a directory in the nearest one that exists."""
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise OSError(f"its path has {len(os.fsencode(path))} bytes, and what is written below it needs room")
        ancestor = Path(path)
        while not ancestor.exists():
            ancestor = ancestor.parent
        probe = ancestor / temporary_name()
        probe.mkdir()
        probe.rmdir()


def _open_file(path: str) -> BufferedReader:
    """Open a file to read. Raises DataError: it is a pipe or the like, on which a reader would wait."""
    stream = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # noqa: SIM115 (closed by the caller)
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise DataError(f"{path} is no file, but a pipe or a device: remove it")
    return stream
