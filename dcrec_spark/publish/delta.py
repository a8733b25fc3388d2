"""Delta tables: rows are staged in a second table, and overwrite the table that readers read in one commit.

A place is the version of the table that readers read. The commit carries the run_id as ``txnAppId``, so that it counts
once, and the run in its ``userMetadata``. Of two overwrites that began on one version Delta refuses the second. How
long an older version can be restored is the table's own setting, ``delta.deletedFileRetentionDuration``. Vacuum ends
it.
"""

import json

from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.warehouse import CatalogWarehouse, StagedTables, staged_place
from dcrec_spark.spark.failures import SPARK_FAILURES
from dcrec_spark.spark.planning import borrow

APPLICATION = "dcrec-spark"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class DeltaWarehouse(CatalogWarehouse):
    """Tables of a catalog that keeps Delta tables, such as the session's with Delta's DeltaCatalog."""

    kind = "delta"
    format = "delta"

    def check(self) -> None:
        """Check for Delta itself too: Spark's own catalog makes any database, and no Delta table without it."""
        super().check()
        try:
            self.spark.read.format(self.format).load("/")  # no table, which is no matter here
        except SPARK_FAILURES as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise ConfigError(
                    f"{self.setting} is {self.namespace!r}, and this session has no Delta: 'dcrec jars delta' "
                    "fetches what spark.jars has to name; set spark.sql.extensions and "
                    "spark.sql.catalog.spark_catalog to Delta's too"
                ) from error

    def now(self, table: str) -> str | None:
        if not self.exists(table):
            return None
        return str(self.spark.sql(f"DESCRIBE HISTORY {self.table(table)} LIMIT 1").collect()[0]["version"])

    def show(self, staged: StagedTables, table: str) -> str:
        """Overwrite the table by what is staged. Delta counts it once, however often it is asked."""
        rows = self.spark.table(self.table(staged.places[table]))
        run = {"writer": APPLICATION, "run_id": staged.run_id, "run_date": str(self.run_date)}
        writer = rows.writeTo(self.table(table)).option("userMetadata", json.dumps(run))
        writer = writer.option("txnAppId", f"{APPLICATION}.{staged.run_id}").option("txnVersion", "1")
        try:
            writer.overwrite(F.lit(True))
        except Exception as error:
            if "DELTA_CONCURRENT" in str(error):
                raise self.conflict(staged.run_id, f"{table} was overwritten by another at the same time") from error
            raise
        return f"{self.namespace}.{table} version {self.now(table)}"

    def is_shown(self, staged: StagedTables, table: str) -> bool:
        versions = self._versions(table)
        run = _run_in(versions[max(versions)])
        return run is not None and run[0] == staged.run_id

    def verify(self, staged: StagedTables) -> None:
        """Compare what readers find with what was staged, which then goes."""
        super().verify(staged)
        self.discard(staged)

    def put_back(self, table: str, place: str | None) -> None:
        versions = self._versions(table)
        if place is not None and int(place) != max(versions):
            with borrow(self.spark, {USER_METADATA: versions[int(place)]}):
                self.spark.sql(f"RESTORE TABLE {self.table(table)} TO VERSION AS OF {int(place)}")

    def drop(self, staged: StagedTables, table: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table(staged_place(table, staged.token))}")

    def prune(self, table: str) -> None:
        """Drop the second tables that dead publishers have left."""
        self.drop_abandoned(table, set())

    def holdings(self, table: str) -> list[tuple[str, str, str]]:
        versions = sorted(self._versions(table).items(), reverse=True)
        return [(str(version), *run) for version, metadata in versions if (run := _run_in(metadata)) is not None]

    def published(self) -> list[str]:
        """Name the tables in the namespace whose history can be read: Delta's own."""
        details = {
            name: self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.table(name)}").collect() for name in self.table_names()
        }
        return [name for name, rows in details.items() if ("Provider", "delta") in {(r[0], r[1]) for r in rows}]

    def _versions(self, table: str) -> dict[int, str]:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.table(table)}").collect()
        return {int(row["version"]): row["userMetadata"] or "" for row in history}


def _run_in(metadata: str) -> tuple[str, str] | None:
    """run_id and run_date of a version that was written here. None for versions of others."""
    try:
        content = json.loads(metadata)
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("writer") != APPLICATION:
        return None
    return str(content["run_id"]), str(content["run_date"])
