"""Work under a name that no reader looks at, until one rename makes it appear, and tables that the driver sees."""

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from dcrec_spark.errors import ConfigError, ConflictError, DataError
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, Directories, Entry, Files, Objects

# A process locks a file of this ending next to the directory that it makes.
LEASE = ".lease"
# A directory without such a file is the leftover of a dead process when nothing in it has changed for so long.
STALE_SECONDS = 2 * 24 * 3600


@contextmanager
def staged(files: Directories, path: str) -> Iterator[str]:
    """Make a directory next to ``path``, to be renamed to it, or deleted. Leftovers of dead processes go too."""
    parent, _, name = path.rpartition("/")
    files.make_directory(parent)
    prefix = f"{TEMPORARY_PREFIX}{name}-"
    remove_stale(files, parent, (prefix,))
    directory = f"{parent}/{prefix}{uuid4().hex[:8]}"
    with leased(files, directory):
        files.make_directory(directory)
        yield directory


@contextmanager
def leased(files: Directories, directory: str) -> Iterator[None]:
    """Hold what tells others that the directory, which need not exist yet, is in the making. It is gone afterwards.

    The lease is a lock, which the store releases when its holder dies: a process on another machine sees so too, and no
    clock is asked.
    """
    with ExitStack() as afterwards:
        afterwards.callback(files.delete, f"{directory}{LEASE}")
        afterwards.enter_context(files.lock(f"{directory}{LEASE}"))
        afterwards.callback(files.delete, directory)
        yield


def remove_stale(files: Directories, directory: str, prefixes: tuple[str, ...]) -> None:
    """Remove what begins with one of the prefixes and was in the making by a process that died."""
    names = [entry for entry in files.list(directory) if entry.name.startswith(prefixes)]
    leases = {entry.name for entry in names if entry.name.endswith(LEASE)}
    for lease in sorted(leases):
        with suppress(ConflictError):  # its process lives
            with files.lock(f"{directory}/{lease}", seconds=0):
                files.delete(f"{directory}/{lease.removesuffix(LEASE)}")
            files.delete(f"{directory}/{lease}")
    for entry in names:
        path = f"{directory}/{entry.name}"
        touched = [entry, *(files.list(path) if entry.is_directory else [])]
        is_old = all(one.modified < time.time() - STALE_SECONDS for one in touched)
        if is_old and entry.name not in leases and f"{entry.name}{LEASE}" not in leases:
            files.delete(path)


def remove_old(files: Objects, directory: str, prefixes: tuple[str, ...], stay: Collection[str] = ()) -> None:
    """Remove what begins with a prefix and has no file younger than two days, but for the names that ``stay``."""
    long_ago = time.time() - STALE_SECONDS
    for entry in files.list(directory):
        is_meant = entry.name.startswith(prefixes) and entry.name not in stay
        if is_meant and _newest(files, directory, entry) < long_ago:
            files.delete(f"{directory}/{entry.name}")


def _newest(files: Objects, directory: str, entry: Entry) -> float:
    """Return when the youngest file of an entry was written. A directory has no time of its own there."""
    if not entry.is_directory:
        return entry.modified
    path = f"{directory}/{entry.name}"
    times = (_newest(files, path, child) for child in files.list(path))
    return max(times, default=inf)  # somebody may be about to write the first one


def require_writable(files: Files, path: str, given: str, setting: str) -> None:
    """Raise ConfigError when this user could not create files under ``path``, which ``setting`` has as ``given``."""
    try:
        files.check_writable(path)
    except OSError as error:
        raise ConfigError(
            f"{setting} is {given!r}, where this user can not write ({error}); "
            "choose a directory in which it may create files"
        ) from error


class Content(NamedTuple):
    """Number of rows, and the sum of their 64-bit hashes as text. None: there are no rows."""

    rows: int
    hashed: str | None


def content_of(table: DataFrame) -> Content:
    """Read a table once and sum up what it holds.

    It is equal for equal rows in any order, files and kind of place. Columns count by their names, not by their order.
    Columns of maps are left out: maps have no order to be hashed in.
    """
    return Content(*table.agg(*_sums(table)).collect()[0])


def _sums(table: DataFrame) -> tuple[Column, Column]:
    """Return how the fields of a Content are added up."""
    names = sorted(field.name for field in table.schema if not isinstance(field.dataType, MapType))
    hashed = F.xxhash64(*(F.col(f"`{name}`") for name in names)).cast("decimal(38,0)")
    return F.count(F.lit(1)).alias("rows"), F.sum(hashed).cast("string").alias("hashed")


def write_table(files: Files, path: str, table: DataFrame, setting: str) -> Content:
    """Write a table, and sum up its rows. Raises DataError: the driver does not see all of them. Names ``setting``."""
    observed = Observation()
    table.observe(observed, *_sums(table)).write.parquet(files.uri(path))
    written = Content(**observed.get)
    readable = table.sparkSession.read.schema(table.schema).parquet(files.uri(path)).count()
    if readable != written.rows:
        raise DataError(
            f"{written.rows} rows were written to {files.uri(path)}, and {readable} are there: the executors wrote to "
            f"disks of their own; set {setting} to one that all nodes share (hdfs://, or a shared mount)"
        )
    for name in ["", *(entry.name for entry in files.list(path))]:
        files.sync(f"{path}/{name}")
    return written
