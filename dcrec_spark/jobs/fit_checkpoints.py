"""Checkpoints of a fit under the output, from which an interrupted run resumes when it is started again.

::

    <output>/.fit-<key>/<stage>-<sweep>/users/*.parquet    the table of a side
                                       /items/*.parquet
                                       /sweep.json         past of the fit, what all pairs share, checksums of all
    <output>/.fit-<key>.lease                              locked by the run that fits

The key is a hash of all that the fit depends on. A sweep appears in one rename, and the one before stays until the
next: a disk may damage either. Of two runs with one key at a time the second keeps no checkpoints.

An object store has neither renames nor locks. A sweep is in its place from the beginning there, named after its run
too, and is one when ``sweep.json`` is there. Two runs of one key each keep theirs, and could resume from the other's.
What runs of other settings or ratings have left goes when it is two days old.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from secrets import token_hex
from typing import Any

import structlog
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import config_hash
from dcrec_spark.engine.ascent import Past
from dcrec_spark.errors import ConflictError, DataError, DiskFullError, interruption
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.fitting.stages import KeptSweep
from dcrec_spark.publish.manifest import fingerprint, read_sealed, sealed
from dcrec_spark.spark.failures import SPARK_FAILURES, full_disk, message_of
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hadoop import ObjectFiles
from dcrec_spark.storage.protocol import Directories, Files
from dcrec_spark.storage.staging import LEASE, remove_old, staged, write_table
from dcrec_spark.version import __version__

PREFIX = ".fit-"
_SWEEP = "sweep.json"
# The end of a stage is kept sooner than any other sweep: it is never made again.
_SHARE_AT_END = 0.1

_log = structlog.get_logger()


class StoredCheckpoints:
    """:class:`~dcrec_spark.models.fitting.stages.FitCheckpoints` in a directory of Parquet files."""

    def __init__(
        self, spark: SparkSession, files: Directories | ObjectFiles, directory: str, seconds: float, run: Run
    ) -> None:
        self._spark, self._files, self._directory, self._seconds, self._run = spark, files, directory, seconds, run
        self._last = time.monotonic()
        self._ending = f"-{token_hex(4)}" if isinstance(files, ObjectFiles) else ""
        # Read again where an executor is lost, so they stay until the end.
        self._begun_from: set[str] = set()
        self._kept_last: dict[str, str] = {}

    def is_due(self, stage: str, is_last: bool) -> bool:
        return time.monotonic() - self._last >= self._seconds * (_SHARE_AT_END if is_last else 1.0)

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        """Write a sweep, and then remove the stage's earlier ones but for the one that this run kept before."""
        files, name = self._files, f"{stage}-{len(sweep.past.objective)}{self._ending}"
        try:
            with _stage(files, f"{self._directory}/{name}") as making:
                tables = {}
                for table, frame in sweep.tables.items():
                    rows = write_table(files, f"{making}/{table}", frame, "output.path").rows
                    tables[table] = fingerprint(files, f"{making}/{table}", rows)._asdict()
                facts = {"past": asdict(sweep.past), "shared": sweep.shared, "tables": tables}
                files.write(f"{making}/{_SWEEP}", sealed(facts))
        except (OSError, *SPARK_FAILURES) as error:
            reason = full_disk(error)
            if reason is None or interruption(error) is not None:
                raise
            # Named, because without checkpoints the run may succeed.
            raise DiskFullError(f"in the checkpoint {name} of the fit: {reason}") from error
        stay = {name, self._kept_last.get(stage), *self._begun_from}
        for other in self._names(stage):
            if other not in stay and other.endswith(self._ending):
                files.delete(f"{self._directory}/{other}")
        self._kept_last[stage] = name
        self._last = time.monotonic()

    def kept(self, stage: str) -> KeptSweep | None:
        """Read the last sweep of a stage that is not damaged. None where there is none."""
        for name in reversed(self._names(stage)):
            sweep = self._read(stage, name)
            if sweep is not None:
                self._begun_from.add(name)
                iterations = len(sweep.past.objective)
                self._run.warnings.append(f"{stage}: resuming an interrupted run after {iterations} iterations")
                _log.info("resuming an interrupted run", stage=stage, iterations=iterations)
                return sweep
        return None

    def _read(self, stage: str, name: str) -> KeptSweep | None:
        """Read a sweep and compare its checksums. None, and a warning, where they are not those that were written."""
        path = f"{self._directory}/{name}"
        try:
            facts = read_sealed(self._files, f"{path}/{_SWEEP}")
            tables = {name: self._table(f"{path}/{name}", table) for name, table in facts["tables"].items()}
            return KeptSweep(Past(**facts["past"]), facts["shared"], tables)
        except (DataError, KeyError, TypeError, AttributeError, *SPARK_FAILURES) as error:
            if interruption(error) is not None:
                raise
            reason = message_of(error).partition("\n")[0]
            self._run.warnings.append(f"{stage}: a checkpoint of an interrupted run is damaged, and not used: {reason}")
            _log.warning("a checkpoint is damaged, and not used", stage=stage, checkpoint=name, reason=reason)
            return None

    def _table(self, path: str, written: Mapping[str, Any]) -> DataFrame:
        if fingerprint(self._files, path, written["rows"])._asdict() != written:
            raise DataError(f"{path} is not as it was written")
        return self._spark.read.parquet(self._files.uri(path))

    def _names(self, stage: str) -> list[str]:
        names = [entry.name for entry in self._files.list(self._directory) if entry.name.startswith(f"{stage}-")]
        if isinstance(self._files, ObjectFiles):
            names = [name for name in names if self._files.exists(f"{self._directory}/{name}/{_SWEEP}")]
        return sorted(names, key=lambda name: int(name.split("-")[1]))


@contextmanager
def _stage(files: Directories | ObjectFiles, path: str) -> Iterator[str]:
    """Return where to write what appears at ``path`` atomically."""
    if isinstance(files, ObjectFiles):
        try:
            yield path
        except BaseException:
            files.delete(path)
            raise
        return
    with staged(files, path) as making:
        yield making
        files.delete(path)
        files.rename(making, path)


def checkpoints_of(context: Context[RetrainConfig]) -> StoredCheckpoints | None:
    """Return the checkpoints of this run's fit, held until the run ends. None if none are written.

    Checkpoints of other settings or ratings are removed, unless their run is still active.
    """
    seconds, run = context.config.model.checkpoint_seconds, context.run
    files, root = open_files(context.output, context.spark)
    name = _name(run)
    if isinstance(files, ObjectFiles):
        remove_old(files, root, (PREFIX,))
        return StoredCheckpoints(context.spark, files, f"{root}/{name}", seconds, run) if seconds else None
    _remove_others(files, root, name, run)
    if seconds == 0:
        return None
    files.make_directory(root)
    lease = ExitStack()

    def forget() -> None:
        if not files.exists(f"{root}/{name}"):
            files.delete(f"{root}/{name}{LEASE}")

    lease.callback(forget)
    try:
        lease.enter_context(files.lock(f"{root}/{name}{LEASE}", seconds=0))
    except ConflictError:
        run.warnings.append(
            "another run fits the same at the same time, so this one cannot resume if it is interrupted"
        )
        return None
    context.resources.push(lease)
    return StoredCheckpoints(context.spark, files, f"{root}/{name}", seconds, run)


def remove_checkpoints(context: Context[RetrainConfig]) -> None:
    """Remove the checkpoints of a fit that is published."""
    files, root = open_files(context.output, context.spark)
    files.delete(f"{root}/{_name(context.run)}")


def kept_sweeps(files: Files, root: str, run: Run) -> list[str]:
    """Name the checkpoints of this run's fit, those of the later stage last."""
    names = [entry.name for entry in files.list(f"{root}/{_name(run)}") if not entry.name.startswith(".")]
    return sorted(names, key=lambda name: (name.split("-")[0], int(name.split("-")[1])))


def _name(run: Run) -> str:
    start = None if run.source is None else run.source.model_version
    parts = {"settings": config_hash(run.config), "data": run.data_fingerprint, "start": start, "version": __version__}
    return PREFIX + hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _remove_others(files: Directories, root: str, name: str, run: Run) -> None:
    """Remove checkpoints of other fits. A fit that is active holds its lease."""
    others = {entry.name.removesuffix(LEASE) for entry in files.list(root) if entry.name.startswith(PREFIX)} - {name}
    for other in sorted(others):
        try:
            with files.lock(f"{root}/{other}{LEASE}", seconds=0):
                if files.exists(f"{root}/{other}"):
                    files.delete(f"{root}/{other}")
                    run.warnings.append(
                        "an interrupted run had other settings or ratings: its checkpoints were removed, and this "
                        "fit starts from scratch"
                    )
        except ConflictError:
            continue  # active
        files.delete(f"{root}/{other}{LEASE}")
