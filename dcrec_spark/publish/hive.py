"""Tables of Spark's session catalog, which a Hive metastore keeps: a table for each run, a view for readers.

A place is the name of a run's table, which never changes. The view shows one of them. Replacing it is one change in
the metastore. Its properties list the tables that it can show, so that what was published and what was only staged are
distinguished without a second change. The metastore has no lock that spans looking and replacing: the directory's lock
keeps publishers to one output apart, and publishers to different outputs must not share a namespace.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.warehouse import (
    CatalogWarehouse,
    StagedTables,
    StoredRun,
    gather_runs,
    staged_place,
    text_literal,
)

SHOWN = "dcrec.shown"
HELD = "dcrec.held"


class _Run(NamedTuple):
    place: str
    run_id: str
    run_date: str


class HiveWarehouse(CatalogWarehouse):
    """Parquet tables and views of the session catalog."""

    kind = "hive"
    format = "parquet"

    def prepare(self, table: str, rows: DataFrame) -> None:
        """Refuse a name that something else has than a view of ours."""
        if self.exists(table) and SHOWN not in self._properties(table):
            raise ConfigError(
                f"{self.setting}: {self.namespace}.{table} is there and was not published by dcrec; "
                "rename it, or publish to another namespace"
            )

    def now(self, table: str) -> str | None:
        """Name the table that the view shows."""
        return self._properties(table)[SHOWN] if self.exists(table) else None

    def show(self, staged: StagedTables, table: str) -> str:
        """Replace the view."""
        run = _Run(staged.places[table], staged.run_id, str(self.run_date))
        held = [other for other in self._runs_of(table) if other.run_id != run.run_id]
        self._replace_view(table, run.place, [run, *held][: self.keep])
        return f"{self.namespace}.{table} from {run.place}"

    def put_back(self, table: str, place: str | None) -> None:
        """Have the view show a table of before. Without one there was no view."""
        if place is None:
            self.spark.sql(f"DROP VIEW IF EXISTS {self.table(table)}")
        else:
            self._replace_view(table, place, self._runs_of(table))

    def drop(self, staged: StagedTables, table: str) -> None:
        """Drop the run's table, unless it is shown, and forget it."""
        place = staged_place(table, staged.token)
        if self.now(table) == place:
            return
        now = self.now(table)
        if now is not None and any(run.place == place for run in self._runs_of(table)):
            self._replace_view(table, now, [run for run in self._runs_of(table) if run.place != place])
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table(place)}")

    def prune(self, table: str) -> None:
        """Drop old tables that the view cannot show: of runs too old, and of publishers that died.

        A table that is older than all that the view can show is too old, or of a publisher that has lost already.
        """
        held = {run.place for run in self._runs_of(table)}
        self.drop_abandoned(table, {*held, self.now(table)}, min(held, default=""))

    def runs(self) -> list[StoredRun]:
        shown = {table: self.now(table) for table in self._views()}
        return gather_runs(
            (run.run_id, run.run_date, table, run.place == now)
            for table, now in shown.items()
            for run in self._runs_of(table)
        )

    def restore(self, run_id: str) -> None:
        places = {table: run.place for table in self._views() for run in self._runs_of(table) if run.run_id == run_id}
        if not places:
            raise self.unknown_run(run_id)
        for table, place in places.items():
            self._replace_view(table, place, self._runs_of(table))

    def _replace_view(self, table: str, place: str, held: list[_Run]) -> None:
        listed = ",".join(" ".join(run) for run in held)
        self.spark.sql(
            f"CREATE OR REPLACE VIEW {self.table(table)} "
            f"TBLPROPERTIES ('{SHOWN}' = {text_literal(place)}, '{HELD}' = {text_literal(listed)}) "
            f"AS SELECT * FROM {self.table(place)}"
        )

    def _views(self) -> list[str]:
        names = [str(row["viewName"]) for row in self.spark.sql(f"SHOW VIEWS IN {self.namespace}").collect()]
        return [name for name in names if SHOWN in self._properties(name)]

    def _runs_of(self, table: str) -> list[_Run]:
        if not self.exists(table):
            return []
        listed = self._properties(table).get(HELD, "")
        return [_Run(*run.split(" ")) for run in listed.split(",") if run]

    def _properties(self, table: str) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.table(table)}").collect()
        return {row["key"]: row["value"] for row in rows}
