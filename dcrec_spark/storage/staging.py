"""Work under a name that no reader looks at, until one rename makes it appear."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from dcrec_spark.errors import ConfigError
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, Files

# A staging directory in which nothing was begun or ended for so long belongs to a process that died.
STALE_SECONDS = 2 * 24 * 3600


@contextmanager
def staged(files: Files, path: str) -> Iterator[str]:
    """Make a new directory next to ``path``, to be renamed to it; whatever is left of it afterwards is deleted.

    What processes that died have left next to the same path is deleted too.
    """
    parent, _, name = path.rpartition("/")
    files.make_directory(parent)
    prefix = f"{TEMPORARY_PREFIX}{name}-"
    remove_stale(files, parent, (prefix,))
    directory = f"{parent}/{prefix}{uuid4().hex[:8]}"
    files.make_directory(directory)
    try:
        yield directory
    finally:
        files.delete(directory)


def remove_stale(files: Files, directory: str, prefixes: tuple[str, ...]) -> None:
    """Remove what begins with one of the prefixes and was last touched by a process long dead."""
    oldest = time.time() - STALE_SECONDS
    for entry in files.list(directory):
        if not entry.name.startswith(prefixes):
            continue
        path = f"{directory}/{entry.name}"
        inside = files.list(path) if entry.is_directory else []
        if all(touched.modified < oldest for touched in [entry, *inside]):
            files.delete(path)


def require_writable(files: Files, path: str, given: str, setting: str) -> None:
    """Raise ConfigError when this user could not create files under ``path``, which ``setting`` has as ``given``."""
    try:
        files.check_writable(path)
    except OSError as error:
        raise ConfigError(
            f"{setting} is {given!r}, where this user can not write ({error}); "
            "choose a directory in which it may create files"
        ) from error
