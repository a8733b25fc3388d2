"""One run published to several places: the directory of the run, and any number of warehouses.

The tables are computed once, into the directory's staging, and audited there. The warehouses are written from there.
All of it is staged before the first place changes. Then the warehouses are committed one after the other, and the
directory, whose record says what each of them has published, last: a run is published when it is there.

One lock below the output is held from the first commit to the last, so of publishers to one output one wins
everywhere. On an object store, which has no lock, the pointer decides at the end, and who is late puts back what he has
shown. A commit that fails puts the places before it back. A process that is killed in between leaves places on two
runs. The same command, or ``dcrec rollback``, brings them together again: a run replaces what it finds.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import AuditError
from dcrec_spark.publish.current import run_id_in
from dcrec_spark.publish.object_store import Output
from dcrec_spark.publish.parquet import Before, StagedRun
from dcrec_spark.publish.protocol import Record, Save
from dcrec_spark.publish.warehouse import StagedTables, Warehouse
from dcrec_spark.storage.staging import content_of

Audit = Callable[[StagedRun], Mapping[str, DataFrame]]


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
    """Sink of the protocol that publishes to several.

    spark : session of the tables. directory : where the record goes. warehouses : further places. audit : refuses the
    tables that are staged in the directory, and returns more tables, which tell what it found.
    """

    spark: SparkSession
    directory: Output
    warehouses: Sequence[Warehouse] = ()
    audit: Audit | None = None

    def base(self) -> BeforeEverywhere:
        return BeforeEverywhere(self.directory.base(), {place.kind: place.base() for place in self.warehouses})

    def stage(
        self,
        run_id: str,
        tables: Mapping[str, DataFrame],
        folders: Mapping[str, Save],
        base: BeforeEverywhere | None = None,
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
