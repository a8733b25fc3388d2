"""Tables published as one immutable directory per run, and a pointer that names the run to read.

::

    <output>/CURRENT                              the run_id that readers read. Replaced in one step
    <output>/run_id=<run_id>/<table>/*.parquet    appears atomically, and never changes
                            /model/               what else the run leaves, here a model: any files, at any depth
                            /run.json             the run's record
                            /manifest.json        checksums of all the above. Written last
    <output>/failed/run_id=<run_id>/run.json      the record of a run that published nothing
    <output>/.staging-<run_id>-<token>/           tables in the making. No reader looks here
            /.staging-<run_id>-<token>.lease      locked by the process that makes them, as long as it lives
    <output>/.committing                          the run being committed, or withdrawn, right now
    <output>/.lock                                held while committing
    <output>/.publishing                          held while committing to several places, of which this is the last

The steps are those of :mod:`dcrec_spark.publish.protocol`. Committing renames the staging directory, then replaces the
pointer. A process that dies in between leaves the pointer on the old run, and ``.committing`` tells the next publisher
to remove the directory that nobody points to. Of runs that overlap, the first to commit wins: the others see that the
pointer has moved since they began. Verifying reads each file once more. A damaged run is withdrawn as an interrupted
commit is. ``dcrec rollback`` goes back to an older run. The run_ids of jobs rise from run to run, whatever the clock
says, so their order is that of publication.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import (
    CURRENT,
    RUN_ID,
    RUN_PREFIX,
    TABLE_NAME,
    newest_of,
    read_run_id,
    require_name,
    run_id_in,
    run_path,
)
from dcrec_spark.publish.manifest import MANIFEST, RECORD, PartFiles, check_manifest, fingerprint, sealed, to_json
from dcrec_spark.publish.protocol import Folders, Record, Tables
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, Directories, Files
from dcrec_spark.storage.staging import leased, remove_stale, require_writable, write_table

COMMITTING = ".committing"
LOCK = ".lock"
PUBLISHING = ".publishing"
FAILED, SKIPPED = "failed", "skipped"
STAGING_PREFIX = ".staging-"
SETTING = "output.path"
_Parts = dict[str, PartFiles]


class Before(NamedTuple):
    """What is published when a run begins.

    run_id : the current run. newest : the newest of all runs. version : of the pointer, on an object store.
    """

    run_id: str | None
    newest: str | None
    version: str | None = None


@dataclass(frozen=True)
class StagedRun:
    """What is written and not published.

    base : the run that was current when this one began. version : of the pointer to it, on an object store. lease :
    releases the staging directory when it is closed.
    """

    files: Files
    output: str
    run_id: str
    path: str
    base: str | None
    tables: _Parts
    folders: Mapping[str, PartFiles] = field(default_factory=dict)
    lease: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    version: str | None = None

    def uri(self, table: str) -> str:
        """Where Spark reads the staged table: ``spark.read.parquet(staged.uri("recommendations"))``."""
        return self.files.uri(f"{self.path}/{table}")


@dataclass(frozen=True)
class DirectorySink:
    """The part of a sink that all stores share. root : path without scheme or bucket. given : as the user wrote it."""

    files: Any
    root: str
    given: str

    def check_writable(self) -> None:
        """Refuse an output that this user could not publish to. Raises ConfigError: names output.path."""
        require_writable(self.files, self.root, self.given, SETTING)

    def run_ids(self) -> list[str]:
        """Name the runs that have a directory, in the order of their names."""
        names = {entry.name for entry in self.files.list(self.root) if entry.is_directory}
        return sorted(name.removeprefix(RUN_PREFIX) for name in names if name.startswith(RUN_PREFIX))

    def require_newer(self, run_id: str, held: Iterable[str]) -> None:
        """Refuse a run that was named before one that is held. Raises ConflictError: names that one."""
        newest = newest_of(held)
        if newest is not None and run_id < newest:
            raise ConflictError(
                f"run {run_id} was not published: run {newest} under {self.given} began later and was published "
                "first; run again to publish over it"
            )

    def require_whole(self, run_id: str) -> None:
        """Hash all files of a run. Raises DataError: one is damaged. ConflictError: the run went meanwhile."""
        require_name("run_id", run_id, RUN_ID)
        path = run_path(self.root, run_id)
        was_there = self.files.exists(path)
        try:
            check_manifest(self.files, path)
        except (OSError, DataError) as error:
            if was_there and not self.files.exists(path):
                raise self.removal_error(run_id) from error
            raise

    def removal_error(self, run_id: str) -> ConflictError:
        return ConflictError(
            f"run {run_id} under {self.given} was removed meanwhile, by a run that keeps fewer: list the runs, and "
            "choose again"
        )

    def add(self, staged: StagedRun, tables: Tables) -> None:
        require_names(staged.run_id, tables, {})
        staged.tables.update(write_parts(self.files, staged.path, tables, {})[0])

    def overtaken_error(self, staged: StagedRun) -> ConflictError:
        return ConflictError(
            f"run {staged.run_id} was not published: {self.given} went from run {staged.base} to run "
            f"{run_id_in(self.files, self.root)} after this one began; run again to publish over it"
        )

    def damage_error(self, staged: StagedRun, damage: Exception) -> DcrecError:
        now = "none is published" if staged.base is None else f"readers are back on run {staged.base}"
        return DcrecError(f"run {staged.run_id} was published, found damaged, and withdrawn ({now}): {damage}")


@dataclass(frozen=True)
class ParquetSink(DirectorySink):
    """Sink of the protocol on a file system."""

    files: Directories

    def base(self) -> Before:
        return Before(run_id_in(self.files, self.root), newest_of(self.run_ids()))

    def stage(self, run_id: str, tables: Tables, folders: Folders, base: Before | None = None) -> StagedRun:
        """Write to a staging directory. Raises ConfigError: a name can't be used. DataError: rows are not seen."""
        require_names(run_id, tables, folders)
        files, root = self.files, self.root
        self.check_writable()
        files.make_directory(root)
        self.remove_leftovers()
        with files.lock(f"{root}/{LOCK}"):
            _undo_interrupted_commit(files, root)
            before = base or self.base()
        path = _staging_path(root, run_id)
        self.require_unchanged(StagedRun(files, root, run_id, path, before.run_id, {}))
        with ExitStack() as lease:
            lease.enter_context(leased(files, path))
            files.make_directory(path)
            written, saved = write_parts(files, path, tables, folders)
            return StagedRun(files, root, run_id, path, before.run_id, written, saved, lease.pop_all())

    def commit(self, staged: StagedRun, record: Record) -> str:
        """Rename, then put the pointer. Raises ConflictError: another run was published meanwhile, or this run_id."""
        files, root = self.files, self.root
        write_manifest(staged, record)
        with files.lock(f"{root}/{LOCK}"):
            _undo_interrupted_commit(files, root)
            self.require_unchanged(staged)
            files.write(f"{root}/{COMMITTING}", staged.run_id.encode())
            try:
                files.rename(staged.path, run_path(root, staged.run_id))
                files.write(f"{root}/{CURRENT}", f"{staged.run_id}\n".encode())
            finally:
                _undo_interrupted_commit(files, root)
        staged.lease.close()
        return files.uri(run_path(root, staged.run_id))

    def verify(self, staged: StagedRun) -> None:
        """Compare each published file with the manifest. Raises DcrecError: one differs, and the run is withdrawn."""
        try:
            check_manifest(self.files, run_path(self.root, staged.run_id))
        except (DataError, OSError) as damage:
            self.withdraw(staged)
            raise self.damage_error(staged, damage) from damage

    def discard(self, staged: StagedRun) -> None:
        self.files.delete(staged.path)
        staged.lease.close()

    def restore(self, run_id: str) -> None:
        """Point readers to an older run. Raises DataError: it is damaged. ConflictError: it was removed meanwhile."""
        files, root = self.files, self.root
        self.require_whole(run_id)  # before the lock: it reads every byte
        with files.lock(f"{root}/{LOCK}"):
            _undo_interrupted_commit(files, root)
            if not files.exists(f"{run_path(root, run_id)}/{MANIFEST}"):
                raise self.removal_error(run_id)
            files.write(f"{root}/{CURRENT}", f"{run_id}\n".encode())

    def publishing(self) -> AbstractContextManager[None]:
        """Hold the lock of those who publish to several places, of which this one is the last."""
        return self.files.lock(f"{self.root}/{PUBLISHING}")

    def remove_leftovers(self) -> None:
        remove_stale(self.files, self.root, (STAGING_PREFIX, TEMPORARY_PREFIX))

    def prune(self, keep: int) -> list[str]:
        """Remove all runs but the ``keep`` newest and the current one, each in one step from where readers look."""
        files, root = self.files, self.root
        with files.lock(f"{root}/{LOCK}"):
            _undo_interrupted_commit(files, root)
            current = run_id_in(files, root)
            old = [run_id for run_id in self.run_ids()[:-keep] if run_id != current]
            removed = {run_id: _staging_path(root, run_id) for run_id in old}
            for run_id, path in removed.items():
                files.rename(run_path(root, run_id), path)
        for path in removed.values():
            files.delete(path)
        return old

    def withdraw(self, staged: StagedRun) -> None:
        """Point readers to the run before, unless another one was published since, and remove this one's directory."""
        files, root = self.files, self.root
        with files.lock(f"{root}/{LOCK}"):
            _undo_interrupted_commit(files, root)
            is_current = run_id_in(files, root) == staged.run_id
            files.write(f"{root}/{COMMITTING}", staged.run_id.encode())
            if is_current and staged.base is None:
                files.delete(f"{root}/{CURRENT}")
            elif is_current:
                files.write(f"{root}/{CURRENT}", f"{staged.base}\n".encode())
            _undo_interrupted_commit(files, root)

    def require_unchanged(self, staged: StagedRun) -> None:
        """Compare the pointer with that of the base. Raises ConflictError: it moved, or the run_id is taken."""
        if run_id_in(self.files, self.root) != staged.base:
            raise self.overtaken_error(staged)
        held = self.run_ids()
        self.require_newer(staged.run_id, held)
        if staged.run_id in held:
            raise ConflictError(
                f"run_id {staged.run_id} is already published under {self.given}, and published runs never "
                "change; use a new run_id"
            )


def record_aside(
    output: str, run_id: str, record: Record, spark: SparkSession | None = None, folder: str = FAILED
) -> str:
    """Leave run.json of a run that published nothing, in place of an earlier try's. Returns its URI."""
    require_name("run_id", run_id, RUN_ID)
    files, root = open_files(output, spark)
    path = f"{root}/{folder}/run_id={run_id}/{RECORD}"
    files.make_directory(path.rpartition("/")[0])
    files.write(path, to_json(record))
    return files.uri(path)


def verify(run_directory: str, spark: SparkSession | None = None) -> None:
    """Compare a published run with its manifest, at any later time. Raises DataError: names each file that differs."""
    files, path = open_files(run_directory, spark, setting="run directory")
    check_manifest(files, path)


def require_names(run_id: str, tables: Tables, folders: Folders) -> None:
    """Refuse names that could lead out of the output. Raises ConfigError: names the name."""
    require_name("run_id", run_id, RUN_ID)
    for name in (*tables, *folders):
        require_name("table", name, TABLE_NAME)


def write_manifest(staged: StagedRun, record: Record) -> None:
    """Write the record, and the manifest, the last file of a run: a directory without it is not a complete run."""
    staged.files.write(f"{staged.path}/{RECORD}", to_json(record))
    content = {
        "run_id": staged.run_id,
        "record_sha256": staged.files.sha256(f"{staged.path}/{RECORD}"),
        "tables": {name: table._asdict() for name, table in staged.tables.items()},
        "folders": {name: folder._asdict() for name, folder in staged.folders.items()},
    }
    staged.files.write(f"{staged.path}/{MANIFEST}", sealed(content))


def write_parts(files: Files, path: str, tables: Tables, folders: Folders) -> tuple[_Parts, _Parts]:
    """Write tables and folders below a path, and take their checksums."""
    written, saved = {}, {}
    for name, table in tables.items():
        rows = write_table(files, f"{path}/{name}", table, SETTING).rows
        written[name] = fingerprint(files, f"{path}/{name}", rows)
    for name, save in folders.items():
        save(files.uri(f"{path}/{name}"))
        saved[name] = fingerprint(files, f"{path}/{name}")
    return written, saved


def _undo_interrupted_commit(files: Directories, root: str) -> None:
    """Finish the commit that ``.committing`` names: done if the pointer names it too, else taken back."""
    if not files.exists(f"{root}/{COMMITTING}"):
        return
    run_id = read_run_id(files, f"{root}/{COMMITTING}")
    path = run_path(root, run_id)
    if run_id_in(files, root) != run_id and files.exists(path):
        withdrawn = _staging_path(root, run_id)
        files.rename(path, withdrawn)
        files.delete(withdrawn)
    files.delete(f"{root}/{COMMITTING}")


def _staging_path(root: str, run_id: str) -> str:
    """Make a name for a staging directory. Its token keeps two processes with one run_id apart."""
    return f"{root}/{STAGING_PREFIX}{run_id}-{uuid4().hex[:8]}"
