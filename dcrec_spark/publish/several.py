"""One run published to several places: the directory of the run, and any number of warehouses.

The tables are computed once, into the directory's staging, and audited there. The warehouses are written from there.
All of it is staged before the first place changes. Then the warehouses are committed one after the other, and the
directory, whose record says what each of them has published, last: a run is published when it is there.

One lock below the output is held from the first commit to the last, so of publishers to one output one wins
everywhere. On an object store, which has no lock, the pointer decides at the end, and who is late puts back what he has
shown. A commit that fails puts the places before it back. A process that is killed in between leaves places on two
runs. The same command, or ``dcrec rollback``, brings them together again: a run replaces what it finds.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import published_run, run_id_in, run_path
from dcrec_spark.publish.object_store import Output
from dcrec_spark.publish.parquet import Before, StagedRun
from dcrec_spark.publish.protocol import Folders, Record, Tables
from dcrec_spark.publish.warehouse import StagedTables, StoredRun, Warehouse
from dcrec_spark.storage.staging import content_of

Audit = Callable[[StagedRun], Tables]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BeforeEverywhere:
    """What readers of each place have. Warehouses by their kind: table -> run."""

    directory: Before
    warehouses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class StagedEverywhere:
    """What is written and not published, in each place. Warehouses by their kind."""

    directory: StagedRun
    warehouses: dict[str, StagedTables] = field(default_factory=dict)


@dataclass(frozen=True)
class Several:
    """Sink of the protocol that publishes to several, lists their runs, and goes back to one.

    spark : session of the tables. None is enough to list and to go back, if no place needs one. directory : where the
    record goes. warehouses : further places. audit : refuses the tables that are staged in the directory, and returns
    more tables, which tell what it found.
    """

    spark: SparkSession | None
    directory: Output
    warehouses: Sequence[Warehouse] = ()
    audit: Audit | None = None

    def base(self) -> BeforeEverywhere:
        return BeforeEverywhere(self.directory.base(), {place.kind: place.base() for place in self.warehouses})

    def stage(
        self, run_id: str, tables: Tables, folders: Folders, base: BeforeEverywhere | None = None
    ) -> StagedEverywhere:
        """Write to the directory, audit it, write to the warehouses. Raises AuditError: refused, or one differs."""
        before = base or self.base()
        staged = StagedEverywhere(self.directory.stage(run_id, tables, folders, before.directory))
        try:
            if self.audit is not None:
                self.directory.add(staged.directory, self.audit(staged.directory))
            self._stage_warehouses(run_id, staged, before)
        except BaseException:
            self.discard(staged)
            raise
        return staged

    def _stage_warehouses(self, run_id: str, staged: StagedEverywhere, before: BeforeEverywhere) -> None:
        if not self.warehouses:
            return
        assert self.spark is not None
        rows = {name: self.spark.read.parquet(staged.directory.uri(name)) for name in staged.directory.tables}
        expected = {name: content_of(table) for name, table in rows.items()}
        for warehouse in self.warehouses:
            taken = {name: table for name, table in rows.items() if warehouse.takes(name)}
            there = warehouse.stage(run_id, taken, {}, before.warehouses[warehouse.kind])
            staged.warehouses[warehouse.kind] = there
            differing = [
                f"{name} ({there.contents[name].rows} rows, sent {expected[name].rows})"
                for name in taken
                if there.contents[name] != expected[name]
            ]
            if differing:
                raise AuditError(
                    f"{warehouse.setting}: the staged tables differ from those of the run: {', '.join(differing)}; "
                    "nothing was published"
                )

    def commit(self, staged: StagedEverywhere, record: Record) -> str:
        """Commit the warehouses, then the directory. Raises ConflictError: one has moved, and all are as they were."""
        if not self.warehouses:
            return self.directory.commit(staged.directory, {**record, "warehouses": {}})
        done: list[Warehouse] = []
        with self.directory.publishing():
            self.directory.require_unchanged(staged.directory)
            try:
                published: dict[str, object] = {}
                for warehouse in self.warehouses:
                    there = staged.warehouses[warehouse.kind]
                    # Before: a signal may come when the commit is just made. What is not shown, is left alone.
                    done.append(warehouse)
                    try:
                        where = warehouse.commit(there, record)
                    except Exception:
                        done.remove(warehouse)
                        raise
                    rows = {name: content.rows for name, content in there.contents.items()}
                    published[warehouse.kind] = {"where": where, "tables": rows}
                return self.directory.commit(staged.directory, {**record, "warehouses": published})
            except BaseException:
                if not self._is_published(staged):
                    self._undo(staged, done)
                raise

    def verify(self, staged: StagedEverywhere) -> None:
        """Verify each place. Raises DcrecError: one is damaged, and all are back on the run before."""
        try:
            for warehouse in self.warehouses:
                warehouse.verify(staged.warehouses[warehouse.kind])
        except BaseException:
            with ExitStack() as cleanup:
                cleanup.callback(self.directory.withdraw, staged.directory)
                self._undo(staged, self.warehouses)
            raise
        try:
            self.directory.verify(staged.directory)
        except BaseException:
            if not self._is_published(staged):
                self._undo(staged, self.warehouses)
            raise

    def discard(self, staged: StagedEverywhere) -> None:
        with ExitStack() as cleanup:
            cleanup.callback(self.directory.discard, staged.directory)
            for warehouse in self.warehouses:
                if warehouse.kind in staged.warehouses:
                    cleanup.callback(warehouse.discard, staged.warehouses[warehouse.kind])

    def runs(self) -> dict[str, list[StoredRun]]:
        """List the runs of each place, by the place's name, the newest first."""
        return {"output": self._in_directory(), **{place.kind: place.runs() for place in self.warehouses}}

    def _in_directory(self) -> list[StoredRun]:
        files, root = self.directory.files, self.directory.root
        try:
            current = run_id_in(files, root)
        except DataError as error:  # going back to a run is the cure
            _log.warning(str(error))
            current = None
        runs = []
        named = set(filter(None, [current]))  # it may be gone
        for run_id in sorted(named.union(self.directory.run_ids()), reverse=True):
            damage, record = None, {}
            try:
                record = published_run(self.directory.given, run_id, self.spark).record
            except DataError as error:
                damage = str(error)
            there = (entry.name for entry in files.list(run_path(root, run_id)) if entry.is_directory)
            tables = tuple(record.get("tables", there))
            shown = (tables or (run_id,)) if run_id == current else ()
            runs.append(StoredRun(run_id, str(record.get("run_date", "?")), tables, shown, damage))
        return runs

    def roll_back(self, run_id: str) -> None:
        """Bring all places to a run that all of them hold, the directory last.

        Raises DataError: a place does not hold the run, or it is damaged. Nothing has changed. DcrecError : a place
        failed. Names the places that are on the run already.
        """
        held = self.runs()
        lacking = [place for place, runs in held.items() if run_id not in {run.run_id for run in runs}]
        if lacking:
            everywhere = set.intersection(*({run.run_id for run in runs} for runs in held.values()))
            known = ", ".join(sorted(everywhere, reverse=True)) or "none"
            raise DataError(f"run {run_id} is not held in {', '.join(lacking)}; held everywhere: {known}")
        if self.warehouses:  # before they change
            self.directory.require_whole(run_id)
        done: list[str] = []
        with self.directory.publishing():
            try:
                for warehouse in self.warehouses:
                    warehouse.restore(run_id)
                    done.append(warehouse.kind)
                self.directory.restore(run_id)
            except DcrecError as error:
                already = ", ".join(done) or "no place"
                message = f"{error}; {already} is on run {run_id}: fix the cause, and run the same command again"
                # A warehouse had the run just now: one that lacks it has removed it meanwhile.
                is_gone = isinstance(error, DataError) and len(done) < len(self.warehouses)
                raise (ConflictError if is_gone else type(error))(message) from error

    def _is_published(self, staged: StagedEverywhere) -> bool:
        """Whether readers of the directory have the run: then it is done, whatever signal came since."""
        directory = staged.directory
        try:
            return run_id_in(directory.files, directory.output) == directory.run_id
        except OSError:  # a store that is away: all other places go back, and the same command brings them together
            return False

    def _undo(self, staged: StagedEverywhere, warehouses: Sequence[Warehouse]) -> None:
        with ExitStack() as cleanup:
            for warehouse in warehouses:
                cleanup.callback(warehouse.undo, staged.warehouses[warehouse.kind])
