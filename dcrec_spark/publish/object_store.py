"""Tables published to an object store, which renames nothing: immutable runs, and a pointer put under a condition.

::

    <output>/CURRENT                   the run_id that readers read, replaced in one step. Not on S3:
    <output>/CURRENT.0000000007        the highest of its name is the one that readers read
    <output>/run_id=<run_id>/...       as on a file system. Nobody looks there before CURRENT names the run
                            /_begun        tells how old the directory is before there is anything else in it
                            /_published    marks a run that was current at some time

The steps are those of :mod:`dcrec_spark.publish.protocol`. A run notes the version of the pointer when it begins, and
committing puts the new one only if the store still has that version. So of runs that overlap, the first to commit wins,
without a lock. A process that dies leaves the old pointer or the new one. Nobody knows at once that it is dead. So a
directory that never was current goes when nothing in it is younger than two days.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import CURRENT, RUN_PREFIX, newest_of, run_id_in, run_path
from dcrec_spark.publish.manifest import MANIFEST, check_manifest
from dcrec_spark.publish.parquet import (
    Before,
    DirectorySink,
    ParquetSink,
    StagedRun,
    require_names,
    write_manifest,
    write_parts,
)
from dcrec_spark.publish.protocol import Folders, Record, Tables
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hadoop import ObjectFiles
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, ChangedError, Objects
from dcrec_spark.storage.staging import remove_old

# Readers skip names that begin so, and manifests do.
BEGUN = "_begun"
PUBLISHED = "_published"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ObjectStoreSink(DirectorySink):
    """Sink of the protocol on an object store."""

    files: Objects

    def base(self) -> Before:
        """Note the current run, the newest, and the version of the pointer."""
        version = self.files.version(self._pointer)
        # Read after its version: a pointer that moves in between makes the commit fail, not pass.
        return Before(run_id_in(self.files, self.root), newest_of(super().run_ids()), version)

    def stage(self, run_id: str, tables: Tables, folders: Folders, base: Before | None = None) -> StagedRun:
        """Write to the run's directory. Raises ConfigError: a name can't be used. ConflictError: it exists."""
        require_names(run_id, tables, folders)
        self.check_writable()
        self.remove_leftovers()
        path = run_path(self.root, run_id)
        if self.files.exists(path):
            raise ConflictError(
                f"run_id {run_id} is there already under {self.given}, and runs never change; use a new run_id"
            )
        before = base or self.base()
        staged = StagedRun(self.files, self.root, run_id, path, before.run_id, {}, version=before.version)
        self.require_unchanged(staged)
        try:
            self.files.write(f"{path}/{BEGUN}", b"")
            written, saved = write_parts(self.files, path, tables, folders)
        except BaseException:
            self.discard(staged)
            raise
        return replace(staged, tables=written, folders=saved)

    def commit(self, staged: StagedRun, record: Record) -> str:
        """Put the pointer. Raises ConflictError: it has moved. DcrecError: the store went away."""
        try:
            write_manifest(staged, record)
        except OSError as error:
            raise DcrecError(f"run {staged.run_id} was not published: {self.given}: {error}") from error
        if staged.base is not None:
            self._mark(staged.base)  # by a publisher that died before it could
        try:
            self._point_to(staged.run_id, staged.version)
        except ChangedError as error:
            # An answer that got lost is asked for again, and then the pointer is not the old one any more.
            if run_id_in(self.files, self.root) != staged.run_id:
                raise self.overtaken_error(staged) from error
        except OSError as error:
            raise DcrecError(
                f"{self.given} went away while run {staged.run_id} was committed ({error}): readers have that run or "
                f"run {staged.base}, whole; see which by 'dcrec runs', or run again"
            ) from error
        self._mark(staged.run_id)
        return self.files.uri(staged.path)

    def verify(self, staged: StagedRun) -> None:
        """Compare each file with the manifest, and withdraw a damaged run. It stays where the store went away."""
        try:
            check_manifest(self.files, staged.path)
        except (DataError, FileNotFoundError) as damage:
            self.withdraw(staged)
            raise self.damage_error(staged, damage) from damage
        except OSError as error:
            raise DcrecError(
                f"run {staged.run_id} was published, and {self.given} went away before it was verified: {error}"
            ) from error

    def discard(self, staged: StagedRun) -> None:
        """Remove the staged tables, unless they are published. Where the store is away, that is left to a later run."""
        try:
            if run_id_in(self.files, self.root) != staged.run_id and not self._is_published(staged.run_id):
                self.files.delete(staged.path)
        except OSError as error:
            _log.warning("%s is left to a later run: %s", self.files.uri(staged.path), error)

    def withdraw(self, staged: StagedRun) -> None:
        version = self.files.version(self._pointer)
        if run_id_in(self.files, self.root) == staged.run_id:
            if staged.base is None:
                self.files.delete(self._pointer)
            else:
                self._point_to(staged.base, version)
        self.files.delete(f"{staged.path}/{PUBLISHED}")
        self.files.delete(staged.path)

    def require_unchanged(self, staged: StagedRun) -> None:
        """Compare the pointer with that of the base. Raises ConflictError: it has moved."""
        if self.files.version(self._pointer) != staged.version:
            raise self.overtaken_error(staged)
        self.require_newer(staged.run_id, filter(None, [staged.base]))

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold nothing: of publishers to several places, the pointer says who was first, and the others go back."""
        yield

    def restore(self, run_id: str) -> None:
        """Point readers to an older run. Raises DataError: it is damaged. ConflictError: another was faster."""
        path, version, before = run_path(self.root, run_id), self.files.version(self._pointer), self._current()
        self.require_whole(run_id)
        try:
            self._point_to(run_id, version)
        except ChangedError as error:
            raise ConflictError(f"{self.given} was published to meanwhile: list the runs, and choose again") from error
        # A publisher that removes old runs looks at the pointer after the manifest is gone: one of the two sees it.
        if not self.files.exists(f"{path}/{MANIFEST}"):
            if before is not None:
                self._point_to(before, self.files.version(self._pointer))
            raise self.removal_error(run_id)

    def run_ids(self) -> list[str]:
        """Name the runs that were published, in the order of their names."""
        current = self._current()
        return [run_id for run_id in super().run_ids() if run_id == current or self._is_published(run_id)]

    def prune(self, keep: int) -> list[str]:
        current = run_id_in(self.files, self.root)
        return [run_id for run_id in self.run_ids()[:-keep] if run_id != current and self._remove(run_id)]

    def remove_leftovers(self) -> None:
        stay = {f"{RUN_PREFIX}{run_id}" for run_id in self.run_ids()}
        remove_old(self.files, self.root, (TEMPORARY_PREFIX, RUN_PREFIX), stay)

    @property
    def _pointer(self) -> str:
        return f"{self.root}/{CURRENT}"

    def _current(self) -> str | None:
        """Read the pointer. None where it is damaged: going back to a run is the cure, and needs the list of runs."""
        try:
            return run_id_in(self.files, self.root)
        except DataError:
            return None

    def _point_to(self, run_id: str, version: str | None) -> None:
        self.files.write_over(self._pointer, f"{run_id}\n".encode(), version)

    def _mark(self, run_id: str) -> None:
        """Note that a run is, or was, current. The next publisher does it if this one cannot."""
        try:
            if not self._is_published(run_id):
                self.files.write(f"{run_path(self.root, run_id)}/{PUBLISHED}", b"")
        except OSError as error:
            _log.warning("run %s could not be marked as published: %s", run_id, error)

    def _is_published(self, run_id: str) -> bool:
        return self.files.exists(f"{run_path(self.root, run_id)}/{PUBLISHED}")

    def _remove(self, run_id: str) -> bool:
        """Remove an old run, unless somebody has gone back to it just now."""
        path = run_path(self.root, run_id)
        manifest = self.files.read(f"{path}/{MANIFEST}")
        self.files.delete(f"{path}/{MANIFEST}")
        if run_id_in(self.files, self.root) == run_id:
            self.files.write(f"{path}/{MANIFEST}", manifest)
            return False
        self.files.delete(path)
        return True


Output: TypeAlias = ParquetSink | ObjectStoreSink


def open_output(output: str, spark: SparkSession | None = None) -> Output:
    """Open a directory on any kind of store, which need not exist. Raises ConfigError: names output.path."""
    files, root = open_files(output, spark)
    return ObjectStoreSink(files, root, output) if isinstance(files, ObjectFiles) else ParquetSink(files, root, output)
