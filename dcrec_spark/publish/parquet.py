"""Tables published as one immutable directory per run, and a pointer that names the run to read.

::

    <output>/CURRENT                              the run_id that readers read; replaced in one step
    <output>/run_id=<run_id>/<table>/*.parquet    appears in one step, whole, and never changes
                            /model/               what else the run leaves, here a model: any files, at any depth
                            /run.json             the run's record
                            /manifest.json        checksums of all the above; written last
    <output>/failed/run_id=<run_id>/run.json      the record of a run that published nothing
    <output>/.staging-<run_id>-<token>/           tables in the making; no reader looks here
    <output>/.committing                          the run being committed right now
    <output>/.lock                                held while committing

Staging writes the tables, the caller audits them, and committing renames the directory, then replaces the
pointer. A run that dies in between leaves the pointer on the old run; the next publisher, told by
``.committing``, removes the directory that nobody points to. Of publishers whose spans from staging to commit
overlap, the first to commit wins: the others find that the pointer has moved since they started staging, and
raise ConflictError. To go back to an older run, write its run_id into ``CURRENT``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConflictError
from dcrec_spark.publish.current import CURRENT, RUN_ID, TABLE_NAME, read_run_id, require_name, run_id_in, run_path
from dcrec_spark.publish.manifest import (
    RECORD,
    FolderFiles,
    TableFiles,
    check_manifest,
    fingerprint,
    fingerprint_folder,
    to_json,
    write_manifest,
)
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, Files
from dcrec_spark.storage.staging import remove_stale, require_writable
from dcrec_spark.storage.tables import write_table

COMMITTING = ".committing"
LOCK = ".lock"
FAILED = "failed"
STAGING_PREFIX = ".staging-"
SETTING = "output.path"


# Writes something that is no table to the URI that it is given, a directory that does not exist yet.
Save = Callable[[str], object]


@dataclass(frozen=True)
class StagedRun:
    """What is written and not published. ``base`` is the run that was current when staging began."""

    files: Files
    output: str
    run_id: str
    path: str
    base: str | None
    tables: Mapping[str, TableFiles]
    folders: Mapping[str, FolderFiles] = field(default_factory=dict)

    def uri(self, table: str) -> str:
        """Where Spark reads the staged table: ``spark.read.parquet(staged.uri("recommendations"))``."""
        return self.files.uri(f"{self.path}/{table}")


def check_writable(output: str, spark: SparkSession | None = None) -> None:
    """ConfigError naming output.path when a run could not be published there. Leaves nothing behind."""
    files, path = open_files(output, spark)
    require_writable(files, path, output, SETTING)


def publish(
    spark: SparkSession,
    output: str,
    run_id: str,
    tables: Mapping[str, DataFrame],
    record: Callable[[StagedRun], Mapping[str, object]],
    audit: Callable[[StagedRun], None] | None = None,
    folders: Mapping[str, Save] | None = None,
) -> str:
    """Stage, audit, commit; returns the run's directory as a URI. Whatever fails, the old tables stay.

    record : makes the content of run.json, when the tables are staged and audited.
    audit : raises AuditError to refuse the tables.
    folders : what else appears with the tables, by its name in the run's directory.
    """
    staged = stage(spark, output, run_id, tables, folders or {})
    try:
        if audit is not None:
            audit(staged)
        return commit(staged, record(staged))
    except BaseException:
        discard(staged)
        raise


def stage(
    spark: SparkSession,
    output: str,
    run_id: str,
    tables: Mapping[str, DataFrame],
    folders: Mapping[str, Save] | None = None,
) -> StagedRun:
    """Write each table and folder once into a staging directory; nothing stays when one of them fails.

    ConfigError for an unusable output or name, DataError for a table written where the driver can't see it.
    """
    require_name("run_id", run_id, RUN_ID)
    folders = folders or {}
    for name in (*tables, *folders):
        require_name("table", name, TABLE_NAME)
    files, root = open_files(output, spark)
    require_writable(files, root, output, SETTING)
    files.make_directory(root)
    remove_stale(files, root, (STAGING_PREFIX, TEMPORARY_PREFIX))
    with files.lock(f"{root}/{LOCK}"):
        _undo_interrupted_commit(files, root)
        base = run_id_in(files, root)
    path = _staging_path(root, run_id)
    try:
        files.make_directory(path)
        written = {name: _write_table(files, f"{path}/{name}", table) for name, table in tables.items()}
        saved = {name: _write_folder(files, f"{path}/{name}", save) for name, save in folders.items()}
    except BaseException:
        files.delete(path)
        raise
    return StagedRun(files, root, run_id, path, base, written, saved)


def commit(staged: StagedRun, record: Mapping[str, object]) -> str:
    """Make the staged tables the current ones; returns the run's directory as a URI.

    ConflictError, and nothing changes, when another run was published since staging began, or this run_id.
    """
    files, root = staged.files, staged.output
    files.write(f"{staged.path}/{RECORD}", to_json(record))
    write_manifest(files, staged.path, staged.run_id, staged.tables, staged.folders)
    with files.lock(f"{root}/{LOCK}"):
        _undo_interrupted_commit(files, root)
        _require_unchanged(staged)
        _swap(staged)
    return files.uri(run_path(root, staged.run_id))


def discard(staged: StagedRun) -> None:
    """Remove the staged tables; fine when they are gone or committed."""
    staged.files.delete(staged.path)


def record_failure(output: str, run_id: str, record: Mapping[str, object], spark: SparkSession | None = None) -> str:
    """Leave run.json of a run that published nothing, in place of an earlier try's; returns its URI."""
    require_name("run_id", run_id, RUN_ID)
    files, root = open_files(output, spark)
    path = f"{root}/{FAILED}/run_id={run_id}/{RECORD}"
    files.make_directory(path.rpartition("/")[0])
    files.write(path, to_json(record))
    return files.uri(path)


def verify(run_directory: str, spark: SparkSession | None = None) -> None:
    """DataError naming every file of a published run that is missing, changed or foreign."""
    files, path = open_files(run_directory, spark, setting="run directory")
    check_manifest(files, path)


def _write_table(files: Files, path: str, table: DataFrame) -> TableFiles:
    return fingerprint(files, path, write_table(files, path, table, SETTING))


def _write_folder(files: Files, path: str, save: Save) -> FolderFiles:
    save(files.uri(path))
    return fingerprint_folder(files, path)


def _swap(staged: StagedRun) -> None:
    files, root = staged.files, staged.output
    files.write(f"{root}/{COMMITTING}", staged.run_id.encode())
    try:
        files.rename(staged.path, run_path(root, staged.run_id))
        files.write(f"{root}/{CURRENT}", f"{staged.run_id}\n".encode())
    finally:
        _undo_interrupted_commit(files, root)


def _undo_interrupted_commit(files: Files, root: str) -> None:
    """Settle the commit that ``.committing`` tells of: done if the pointer names it, else taken back."""
    if not files.exists(f"{root}/{COMMITTING}"):
        return
    run_id = read_run_id(files, f"{root}/{COMMITTING}")
    path = run_path(root, run_id)
    if run_id_in(files, root) != run_id and files.exists(path):
        withdrawn = _staging_path(root, run_id)
        files.rename(path, withdrawn)
        files.delete(withdrawn)
    files.delete(f"{root}/{COMMITTING}")


def _require_unchanged(staged: StagedRun) -> None:
    current = run_id_in(staged.files, staged.output)
    if current != staged.base:
        raise ConflictError(
            f"run {staged.run_id} was not published: {staged.output} went from run {staged.base} to run "
            f"{current} after this one started staging; run again to publish over it"
        )
    if staged.files.exists(run_path(staged.output, staged.run_id)):
        raise ConflictError(
            f"run_id {staged.run_id} is already published under {staged.output}, and published runs never "
            "change; use a new run_id"
        )


def _staging_path(root: str, run_id: str) -> str:
    """Its token keeps two processes with one run_id apart."""
    return f"{root}/{STAGING_PREFIX}{run_id}-{uuid4().hex[:8]}"
