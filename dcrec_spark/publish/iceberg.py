"""Iceberg tables: a branch for what is staged, a fast-forward to publish it, a tag for each run that is kept.

A place is the id of a snapshot. Readers read the branch ``main``. A run is written to a branch of its own, which ends
in one snapshot with the run_id and the run_date among its properties. That snapshot is read back, and the
fast-forward, one atomic commit of the catalog, makes it main's. Iceberg refuses it when main has moved since. Rows of
snapshots that no tag holds go with the next expire_snapshots, which is the warehouse's own maintenance.
"""

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.warehouse import CatalogWarehouse, StagedTables, text_literal

MAIN = "main"
BRANCH_PREFIX = "dcrec_staged_"
TAG_PREFIX = "dcrec_"
RUN_ID = "dcrec.run_id"
RUN_DATE = "dcrec.run_date"
# After so many days Iceberg's own maintenance drops the branch of a publisher that died.
BRANCH_DAYS = 2


class IcebergWarehouse(CatalogWarehouse):
    """Tables of an Iceberg catalog, set up in the session as ``spark.sql.catalog.NAME``."""

    kind = "iceberg"
    format = "iceberg"

    def check(self) -> None:
        """Make the database. Its catalog has to be named, for Iceberg's procedures are called there."""
        if "." not in self.namespace:
            raise ConfigError(f"{self.setting}.namespace is {self.namespace!r}; expected catalog.database")
        super().check()

    def now(self, table: str) -> str | None:
        if not self.exists(table):
            return None
        heads = [ref["snapshot_id"] for ref in self._refs(table) if ref["name"] == MAIN]
        return str(heads[0]) if heads else "no snapshot"

    def write(self, staged: StagedTables, table: str, rows: DataFrame) -> str:
        branch = f"{BRANCH_PREFIX}{staged.token}"
        self.spark.sql(f"ALTER TABLE {self.table(table)} CREATE BRANCH `{branch}` RETAIN {BRANCH_DAYS} DAYS")
        writer = rows.writeTo(f"{self.table(table)}.branch_{branch}")
        writer = writer.option(f"snapshot-property.{RUN_ID}", staged.run_id)
        writer.option(f"snapshot-property.{RUN_DATE}", str(self.run_date)).overwrite(F.lit(True))
        return self._head(table, branch)

    def read(self, staged: StagedTables, table: str, schema: StructType) -> DataFrame:
        """Open the snapshot that was written, whatever its branch names by now."""
        return self.spark.sql(f"SELECT * FROM {self.table(table)} VERSION AS OF {int(staged.places[table])}")

    def show(self, staged: StagedTables, table: str) -> str:
        branch, place = f"{BRANCH_PREFIX}{staged.token}", staged.places[table]
        if not self.is_shown(staged, table):
            # A fast-forward goes to the head of the branch, whatever that is by now.
            if self._head(table, branch) != place:
                raise self.conflict(staged.run_id, f"something else was written to branch {branch} of {table}")
            try:
                self._call(f"fast_forward('{self.namespace}.{table}', '{MAIN}', '{branch}')")
            except Exception as error:
                if self.now(table) != staged.base[table]:
                    raise self.conflict(staged.run_id, f"{table} changed after this run started staging") from error
                raise
        tag = f"{TAG_PREFIX}{staged.run_id}"
        self.spark.sql(f"ALTER TABLE {self.table(table)} CREATE OR REPLACE TAG `{tag}` AS OF VERSION {place}")
        self.spark.sql(f"ALTER TABLE {self.table(table)} DROP BRANCH IF EXISTS `{branch}`")
        return f"{self.namespace}.{table} snapshot {place}"

    def put_back(self, table: str, place: str | None) -> None:
        if place is not None:
            self._call(f"set_current_snapshot('{self.namespace}.{table}', {int(place)})")

    def drop(self, staged: StagedTables, table: str) -> None:
        """Drop the branch, and the tag of a run that was put back."""
        if self.exists(table):
            self.spark.sql(f"ALTER TABLE {self.table(table)} DROP BRANCH IF EXISTS `{BRANCH_PREFIX}{staged.token}`")
            tag = f"{TAG_PREFIX}{staged.run_id}"
            if table in staged.places and self.now(table) != staged.places[table]:
                self.spark.sql(f"ALTER TABLE {self.table(table)} DROP TAG IF EXISTS `{tag}`")

    def prune(self, table: str) -> None:
        now = self.now(table)
        tagged = [row for row in self._snapshots(table) if row["tag"] is not None]
        for row in tagged[self.keep :]:
            if str(row["snapshot_id"]) != now:
                self.spark.sql(f"ALTER TABLE {self.table(table)} DROP TAG IF EXISTS `{row['tag']}`")

    def holdings(self, table: str) -> list[tuple[str, str, str]]:
        """List the snapshots that have a tag, or are main's."""
        return [(str(row["snapshot_id"]), row["run_id"], row["run_date"]) for row in self._snapshots(table)]

    def _head(self, table: str, branch: str) -> str:
        (head,) = [str(ref["snapshot_id"]) for ref in self._refs(table) if ref["name"] == branch]
        return head

    def _refs(self, table: str) -> list[Row]:
        return self.spark.sql(f"SELECT name, type, snapshot_id FROM {self.table(table)}.refs").collect()

    def _snapshots(self, table: str) -> list[Row]:
        """snapshot_id, run_id, run_date, tag (None for main's alone) of runs that can be shown, the newest first."""
        refs = f"(SELECT * FROM {self.table(table)}.refs WHERE name = '{MAIN}' OR name LIKE '{TAG_PREFIX}%')"
        return self.spark.sql(
            f"SELECT s.snapshot_id, s.summary[{text_literal(RUN_ID)}] AS run_id, "
            f"s.summary[{text_literal(RUN_DATE)}] AS run_date, max(if(r.type = 'TAG', r.name, null)) AS tag "
            f"FROM {self.table(table)}.snapshots s JOIN {refs} r ON s.snapshot_id = r.snapshot_id "
            f"WHERE s.summary[{text_literal(RUN_ID)}] IS NOT NULL "
            "GROUP BY s.snapshot_id, s.committed_at, 2, 3 ORDER BY run_id DESC, s.committed_at DESC"
        ).collect()

    def _call(self, procedure: str) -> None:
        # Its tables are named in full: it would take a database for a catalog where the catalog is left out.
        self.spark.sql(f"CALL `{self.namespace.partition('.')[0]}`.system.{procedure}").collect()
