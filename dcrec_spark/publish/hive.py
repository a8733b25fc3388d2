"""Tables of Spark's session catalog, which a Hive metastore keeps: a table for each run, a view for readers.

A place is the name of a run's table, which never changes. The view shows one of them. Replacing it is one change in
the metastore. Its properties list the tables that it can show, so that what was published and what was only staged are
distinguished without a second change. The metastore has no lock that spans looking and replacing: the directory's lock
keeps publishers to one output apart, and publishers to different outputs must not share a namespace.
"""

from pyspark.sql import DataFrame

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.warehouse import CatalogWarehouse, StagedTables, staged_place, text_literal

SHOWN = "dcrec.shown"
HELD = "dcrec.held"


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
        return self._properties(table)[SHOWN] if self.exists(table) else None

    def show(self, staged: StagedTables, table: str) -> str:
        place, others = staged.places[table], [held for held in self.holdings(table) if held[1] != staged.run_id]
        self._replace_view(table, place, [(place, staged.run_id, str(self.run_date)), *others][: self.keep])
        return f"{self.namespace}.{table} from {place}"

    def put_back(self, table: str, place: str | None) -> None:
        """Have the view show a table of before. Without one there was no view."""
        if place is None:
            self.spark.sql(f"DROP VIEW IF EXISTS {self.table(table)}")
        else:
            self._replace_view(table, place, self.holdings(table))

    def drop(self, staged: StagedTables, table: str) -> None:
        """Drop the run's table, unless it is shown, and forget it."""
        place, now, held = staged_place(table, staged.token), self.now(table), self.holdings(table)
        if now == place:
            return
        others = [run for run in held if run[0] != place]
        if now is not None and others != held:
            self._replace_view(table, now, others)
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table(place)}")

    def prune(self, table: str) -> None:
        """Drop old tables that the view cannot show: of runs too old, and of publishers that died.

        A table that is older than all that the view can show is too old, or of a publisher that has lost already.
        """
        held = {place for place, _, _ in self.holdings(table)}
        self.drop_abandoned(table, {*held, self.now(table)}, min(held, default=""))

    def holdings(self, table: str) -> list[tuple[str, str, str]]:
        listed = self._properties(table).get(HELD, "") if self.exists(table) else ""
        return [(place, run_id, day) for place, run_id, day in (run.split(" ") for run in listed.split(",") if run)]

    def published(self) -> list[str]:
        names = [str(row["viewName"]) for row in self.spark.sql(f"SHOW VIEWS IN {self.namespace}").collect()]
        return [name for name in names if SHOWN in self._properties(name)]

    def _replace_view(self, table: str, place: str, held: list[tuple[str, str, str]]) -> None:
        listed = ",".join(" ".join(run) for run in held)
        self.spark.sql(
            f"CREATE OR REPLACE VIEW {self.table(table)} "
            f"TBLPROPERTIES ('{SHOWN}' = {text_literal(place)}, '{HELD}' = {text_literal(listed)}) "
            f"AS SELECT * FROM {self.table(place)}"
        )

    def _properties(self, table: str) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.table(table)}").collect()
        return {row["key"]: row["value"] for row in rows}
