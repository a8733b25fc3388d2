"""A store that dies while it is used."""

from collections.abc import Callable

from dcrec_spark.storage.local import LocalFiles


class Killed(BaseException):
    """Not an Exception, like a signal: nothing may catch it and carry on."""


class DyingFiles(LocalFiles):
    """Dies at the n-th change, before or after making it, and then changes nothing more: like a process."""

    def __init__(self, changes_left: int, after: bool) -> None:
        self.changes_left = changes_left
        self.after = after

    def _change(self, make: Callable[[], None]) -> None:
        self.changes_left -= 1
        if self.changes_left == 0 and self.after:
            make()
        if self.changes_left <= 0:
            raise Killed
        make()

    def make_directory(self, path: str) -> None:
        self._change(lambda: LocalFiles.make_directory(self, path))

    def write(self, path: str, content: bytes) -> None:
        self._change(lambda: LocalFiles.write(self, path, content))

    def rename(self, source: str, target: str) -> None:
        self._change(lambda: LocalFiles.rename(self, source, target))

    def delete(self, path: str) -> None:
        self._change(lambda: LocalFiles.delete(self, path))
