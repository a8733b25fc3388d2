"""Warehouses: places that receive the tables of a run in addition to its directory.

A warehouse is a sink of :mod:`dcrec_spark.publish.protocol`, table by table: ``write`` puts rows where no reader looks,
``commit`` makes them those that readers find under the table's name. In between, ``stage`` reads back what was written.
PostgreSQL commits all tables at once. Catalogs are :class:`TableByTable`. A table that a run lacks stays as it was.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dcrec_spark.errors import ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import RUN_ID, TABLE_NAME, require_name
from dcrec_spark.publish.protocol import Folders, Record, Tables
from dcrec_spark.publish.schemas import differing_columns
from dcrec_spark.spark.failures import reason
from dcrec_spark.storage.staging import Content, content_of

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
# Between a table's name and what tells the tables of one run from those of another.
APART = "__"
TOKEN = re.compile(r"[0-9a-f]{20}")
ABANDONED_SECONDS = 2 * 24 * 3600


class StoredRun(NamedTuple):
    """A run that a place holds: its tables, which of them readers find now, and what is damaged."""

    run_id: str
    run_date: str
    tables: tuple[str, ...]
    current: tuple[str, ...]
    damage: str | None = None


@dataclass(frozen=True)
class StagedTables:
    """What is written and not shown.

    token : tells two attempts with one run_id apart. base : table -> what readers had when staging began, None where
    there was no such table. places : table -> where its rows are. contents : table -> what is there.
    """

    run_id: str
    token: str
    base: Mapping[str, str | None]
    places: dict[str, str] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)


class Warehouse(ABC):
    """A warehouse. Places are texts that only the warehouse itself understands.

    kind : its section in the settings. namespace : where its tables are. run_date : the day of its tables.
    """

    kind: str

    def __init__(self, namespace: str, keep: int, run_date: date | None) -> None:
        self.namespace = namespace
        self.keep = keep
        self.run_date = run_date

    @property
    def setting(self) -> str:
        return f"warehouses.{self.kind}"

    def takes(self, table: str) -> bool:
        """Whether the warehouse holds such a table. Those that it does not are left out."""
        return True

    @abstractmethod
    def check(self) -> None:
        """Refuse a warehouse that could not be published to. Raises ConfigError: names the setting."""

    @abstractmethod
    def prepare(self, table: str, rows: DataFrame) -> None:
        """Make what a table needs before anything of a run is written. Readers notice nothing."""

    @abstractmethod
    def now(self, table: str) -> str | None:
        """Name the place that readers of the table find. None where there is no such table."""

    @abstractmethod
    def write(self, staged: StagedTables, table: str, rows: DataFrame) -> str:
        """Write the rows where no reader looks. Returns the place."""

    @abstractmethod
    def read(self, staged: StagedTables, table: str, schema: StructType) -> DataFrame:
        """Open what was written, as ``schema`` has it. Columns of maps may be left out."""

    @abstractmethod
    def commit(self, staged: StagedTables, record: Record) -> str:
        """Show all tables, or none. Raises ConflictError: another run was shown since staging began."""

    @abstractmethod
    def undo(self, staged: StagedTables) -> None:
        """Bring what readers had when staging began back, unless they have another publisher's tables by now."""

    @abstractmethod
    def discard(self, staged: StagedTables) -> None:
        """Remove what is staged. Fine when it is gone or shown."""

    @abstractmethod
    def shown(self, table: str) -> DataFrame:
        """Open the table as readers find it."""

    @abstractmethod
    def runs(self) -> list[StoredRun]:
        """List the runs that the warehouse can show, the newest first."""

    @abstractmethod
    def restore(self, run_id: str) -> None:
        """Show the tables of an older run again. Raises DataError: the warehouse does not hold that run."""

    @abstractmethod
    def prune(self, table: str) -> None:
        """Remove runs of a table beyond those to be kept, and what publishers that died have left.

        By run_id, which rises from run to run whatever the clock says, or by the place's own order of publications.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what the warehouse holds open."""

    def is_shown(self, staged: StagedTables, table: str) -> bool:
        """Whether readers find what is staged: it was committed before, and committing it again changes nothing."""
        return self.now(table) == staged.places[table]

    def base(self) -> dict[str, str]:
        """Name the run that readers of each table have now. Tables of which that is unknown are left out."""
        return {table: run.run_id for run in self.runs() for table in run.current}

    def stage(
        self, run_id: str, tables: Tables, folders: Folders, base: Mapping[str, str] | None = None
    ) -> StagedTables:
        """Write all tables, and read back what is there. Raises ConflictError: readers have another run than then."""
        require_name("run_id", run_id, RUN_ID)
        for name in tables:
            require_name("table", name, TABLE_NAME)
        if folders:
            raise ConfigError(f"{self.setting}: a warehouse holds tables only; found the folders {sorted(folders)}")
        for name, rows in tables.items():
            self.prepare(name, rows)
            self.prune(name)
        staged = StagedTables(run_id, new_token(), {table: self.now(table) for table in tables})
        if base is not None:
            # After what is there is noted: what is shown from here on is found when it is committed.
            # By runs, not by places: upkeep of a table moves its place too.
            shows = {table: run for table, run in self.base().items() if table in tables}
            others = [f"{of} shows run {run}" for of, run in shows.items() if run not in (base.get(of), run_id)]
            if others:
                raise self.conflict(run_id, f"{', '.join(others)}, published after this run began")
        try:
            for name, rows in tables.items():
                staged.places[name] = self.write(staged, name, rows)
                staged.contents[name] = content_of(self.read(staged, name, rows.schema))
        except BaseException:
            self.discard(staged)
            raise
        return staged

    def verify(self, staged: StagedTables) -> None:
        """Compare what readers find with what was staged. Raises DcrecError: it differs, and old tables are back."""
        differing = self.differing(staged)
        if differing:
            self.undo(staged)
            raise DcrecError(
                f"{self.setting}: run {staged.run_id} was published, and {', '.join(differing)} found different from "
                "what was written; the tables of before are back"
            )

    def differing(self, staged: StagedTables) -> list[str]:
        """Name the tables that readers find other than they were staged, but for those of somebody who came after."""
        other = [name for name, content in staged.contents.items() if content_of(self.shown(name)) != content]
        return [name for name in other if self.now(name) is None or self.is_shown(staged, name)]

    def require_unchanged(self, staged: StagedTables) -> None:
        """Compare with what readers found when staging began. Raises ConflictError: they find something else."""
        moved = [
            table
            for table, before in staged.base.items()
            if self.now(table) != before and not self.is_shown(staged, table)
        ]
        if moved:
            raise self.conflict(staged.run_id, f"{', '.join(moved)} changed after this run started staging")

    def conflict(self, run_id: str, why: str) -> ConflictError:
        return ConflictError(f"{self.setting}: run {run_id} was not published: {why}; run again to publish over it")

    def unknown_run(self, run_id: str) -> DataError:
        held = ", ".join(run.run_id for run in self.runs()) or "none"
        return DataError(f"{self.setting}: run {run_id} is not held in {self.namespace}; held are: {held}")


class TableByTable(Warehouse):
    """A warehouse that shows one table in one step, and all of them one after the other."""

    @abstractmethod
    def show(self, staged: StagedTables, table: str) -> str:
        """Show what was written to readers, in one step, once or again. Returns the place that they read now."""

    @abstractmethod
    def put_back(self, table: str, place: str | None) -> None:
        """Make a place of before the one that readers find. None: there was no such table."""

    @abstractmethod
    def drop(self, staged: StagedTables, table: str) -> None:
        """Remove what is staged of a table and not shown. Fine when there is nothing."""

    def commit(self, staged: StagedTables, record: Record) -> str:
        self.require_unchanged(staged)
        try:
            return ", ".join([self.show(staged, table) for table in staged.places])
        except BaseException:
            self.undo(staged)
            raise

    def undo(self, staged: StagedTables) -> None:
        for table in staged.places:
            if self.is_shown(staged, table):
                self.put_back(table, staged.base[table])

    def discard(self, staged: StagedTables) -> None:
        for table in staged.base:
            self.drop(staged, table)


class CatalogWarehouse(TableByTable):
    """A warehouse among the catalogs of a Spark session. namespace : ``catalog.database`` or ``database``."""

    format: str

    def __init__(self, spark: SparkSession, namespace: str, keep: int, run_date: date | None) -> None:
        super().__init__(namespace, keep, run_date)
        self.spark = spark

    @abstractmethod
    def holdings(self, table: str) -> list[tuple[str, str, str]]:
        """List the place, the run_id and the run_date of all that readers of a table could be shown, newest first."""

    def published(self) -> list[str]:
        """Name the tables of the namespace that runs may have been published to."""
        return self.table_names()

    def runs(self) -> list[StoredRun]:
        runs: dict[str, StoredRun] = {}
        for table in self.published():
            now = self.now(table)
            for place, run_id, run_date in self.holdings(table):
                run = runs.get(run_id, StoredRun(run_id, run_date, (), ()))
                tables = run.tables if table in run.tables else (*run.tables, table)
                current = (*run.current, table) if place == now else run.current
                runs[run_id] = run._replace(tables=tables, current=current)
        return sorted(runs.values(), reverse=True)

    def restore(self, run_id: str) -> None:
        places = {
            table: [place for place, run, _ in self.holdings(table) if run == run_id] for table in self.published()
        }
        if not any(places.values()):
            raise self.unknown_run(run_id)
        for table, of_run in places.items():
            if of_run:
                self.put_back(table, of_run[0])

    def check(self) -> None:
        """Make the database, which tells whether its catalog is there and may be written to."""
        parts = self.namespace.split(".")
        if not all(IDENTIFIER.fullmatch(part) for part in parts):
            raise ConfigError(
                f"{self.setting} is {self.namespace!r}; expected catalog.database, each of letters, digits and '_'"
            )
        try:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(self.namespace)}")
        except Exception as error:
            catalog = f"spark.sql.catalog.{parts[0]}" if len(parts) > 1 else "Spark's own catalog"
            raise ConfigError(
                f"{self.setting} is {self.namespace!r}, which Spark cannot open; set up {catalog} in spark.conf (its "
                f"archive in spark.jars, an address, a credential or token); Spark says: {reason(error)}"
            ) from error

    def close(self) -> None:
        """Nothing: the session is its maker's to stop."""

    def prepare(self, table: str, rows: DataFrame) -> None:
        """Make an empty table, or compare columns. Raises ConfigError: the table that is there has others."""
        if not self.exists(table):
            rows.limit(0).writeTo(self.table(table)).using(self.format).create()
        elif differing := differing_columns(self.spark.table(self.table(table)).schema, rows.schema):
            raise ConfigError(
                f"{self.setting}: table {self.namespace}.{table} has other columns than the run: {differing}: alter "
                "the table, or publish to another namespace"
            )

    def write(self, staged: StagedTables, table: str, rows: DataFrame) -> str:
        place = staged_place(table, staged.token)
        rows.writeTo(self.table(place)).using(self.format).create()
        return place

    def read(self, staged: StagedTables, table: str, schema: StructType) -> DataFrame:
        return self.spark.table(self.table(staged.places[table]))

    def table(self, name: str) -> str:
        """Name a table in full, quoted for SQL."""
        return f"{quoted(self.namespace)}.`{name}`"

    def exists(self, name: str) -> bool:
        return self.spark.catalog.tableExists(self.table(name))

    def shown(self, table: str) -> DataFrame:
        self.spark.catalog.refreshTable(self.table(table))
        return self.spark.table(self.table(table))

    def table_names(self, pattern: str = "*") -> list[str]:
        found = self.spark.sql(f"SHOW TABLES IN {quoted(self.namespace)} LIKE '{pattern}'").collect()
        return [str(row["tableName"]) for row in found]

    def places_of(self, table: str) -> list[str]:
        """Name the tables that hold rows of attempts to publish a table."""
        prefix = f"{table}{APART}"
        return [place for place in self.table_names(f"{prefix}*") if TOKEN.fullmatch(place.removeprefix(prefix))]

    def drop_abandoned(self, table: str, stay: set[str | None], before: str = "") -> None:
        """Drop the tables of attempts whose publisher died, or that are older than one, but for those that ``stay``."""
        for place in self.places_of(table):
            if place not in stay and (place < before or is_abandoned(place)):
                self.spark.sql(f"DROP TABLE IF EXISTS {self.table(place)}")


def new_token() -> str:
    """Make a name for an attempt that no other one has: its time in microseconds, and a random part, in hex."""
    return f"{time.time_ns() // 1000:014x}{uuid4().hex[:6]}"


def staged_place(table: str, token: str) -> str:
    """Name the table that holds the rows of one attempt."""
    return f"{table}{APART}{token}"


def is_abandoned(place: str) -> bool:
    """Whether the attempt that a table's name tells of began so long ago that its publisher is dead."""
    return time.time() - int(place.rpartition(APART)[2][:14], 16) / 1e6 > ABANDONED_SECONDS


def quoted(name: str) -> str:
    """Quote each part of a dotted name for Spark's SQL."""
    return ".".join(f"`{part}`" for part in name.split("."))


def text_literal(text: str) -> str:
    """Write a text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def password_in(path: str, setting: str) -> str:
    """Read a password from the first line of a file. Raises ConfigError: there is none. Names the setting."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"setting {setting}.password_file: {path} cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise ConfigError(f"setting {setting}.password_file: the first line of {path} is empty; expected the password")
    return lines[0]


def first_line(error: BaseException) -> str:
    """Cut the error of a database's driver down to what it says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
