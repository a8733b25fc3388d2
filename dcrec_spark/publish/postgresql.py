"""PostgreSQL: a table for each run, loaded by the executors, and views for readers, swapped in one transaction.

::

    <namespace>.<table>             the view that readers read
    <namespace>.<table>__<token>    the rows of one run
    <namespace>.dcrec_runs          every run that is staged or held: its tables, when it was published, its record
    <namespace>.dcrec_current       which run each view shows

A place is the token of a run. The transaction that swaps the views holds an advisory lock, compares what is shown with
what was shown when staging began, and records the publication. It waits for readers and for other publishers in short
attempts, and gives up after a minute. A publisher holds a second advisory lock, on its token, for as long as
it lives: what is staged under a token that nobody holds is left over, and goes.

After a restart of the server staging has a new token, and committing looks first whether it was done.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dcrec_spark.errors import AuditError, ConfigError, ConflictError, DcrecError, require_extra
from dcrec_spark.publish.manifest import to_json
from dcrec_spark.publish.protocol import Folders, Record, Tables
from dcrec_spark.publish.warehouse import IDENTIFIER, StagedTables, StoredRun, Warehouse, first_line, staged_place

require_extra("warehouse")

import psycopg
from psycopg import sql

from dcrec_spark.publish.server import PAUSE_SECONDS, Server, Session
from dcrec_spark.spark.failures import message_of

_TYPES: dict[type[DataType], str] = {
    T.StringType: "text",
    T.LongType: "bigint",
    T.IntegerType: "integer",
    T.DoubleType: "double precision",
    T.BooleanType: "boolean",
    T.DateType: "date",
    T.TimestampType: "timestamptz",
    T.FloatType: "real",
    MapType: "json",
}
# What the lists and factors are looked up by; unique, too.
_KEYS = {
    "recommendations": ("user_id", "rank"),
    "fallback": ("rank",),
    "similar_items": ("item_id", "rank"),
    "changes": ("user_id", "item_id"),
    "user_overlap": ("user_id",),
    "item_overlap": ("item_id",),
    **dict.fromkeys(("user_vectors", "item_vectors", "user_factors", "item_factors"), ("id",)),
}
LOCK_SECONDS = 60.0
_ATTEMPT_SECONDS = 1
_log = logging.getLogger(__name__)
_PAGES_PER_READ = 2**16
_REGISTRY = """
create table if not exists {schema}.dcrec_runs (
    token text primary key, run_id text not null, run_date date not null, tables text[] not null,
    staged_at timestamptz not null default now(), published_at timestamptz, record jsonb);
create table if not exists {schema}.dcrec_current (
    table_name text primary key, token text not null references {schema}.dcrec_runs)
"""


class PostgresqlWarehouse(Warehouse):
    """Tables of a PostgreSQL database.

    spark : writes the rows. None is enough to list runs and to go back to one. lock_seconds : how long to wait for
    readers, other publishers, and a server that restarts.
    """

    kind = "postgresql"

    def __init__(
        self,
        spark: SparkSession | None,
        server: Server,
        namespace: str,
        keep: int,
        run_date: date | None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        super().__init__(namespace, keep, run_date)
        self.spark: Any = spark
        self.server = server
        self.session = Session(server, namespace, self.setting, lock_seconds)

    def check(self) -> None:
        """Connect, and make the two tables of the registry."""
        if IDENTIFIER.fullmatch(self.namespace) is None:
            raise ConfigError(
                f"{self.setting}.namespace is {self.namespace!r}; expected a schema: letters, digits and '_'"
            )
        try:
            with self.session.transaction() as connection:
                registry, may_create = self._dotted("dcrec_current"), "select has_schema_privilege(%s, 'create')"
                if connection.execute("select to_regclass(%s) is null", [registry]).fetchone() == (True,):
                    self.session.keep_publishers_out(connection)
                    self._run(connection, "create schema if not exists {schema}")
                    self._run(connection, _REGISTRY)
                elif connection.execute(may_create, [self.namespace]).fetchone() != (True,):
                    raise ConfigError(f"{self.setting}.user may not create tables in the schema {self.namespace}")
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigError(
                f"{self.setting}.user may not publish to {self.namespace}: {first_line(error)}"
            ) from error

    def close(self) -> None:
        self.session.close()

    def stage(
        self, run_id: str, tables: Tables, folders: Folders, base: Mapping[str, str] | None = None
    ) -> StagedTables:
        """Load all tables, and read back what is there. Started again if the server went away in between."""
        stage = super().stage
        return self.session.through_restarts(lambda: stage(run_id, tables, folders, base))

    def prepare(self, table: str, rows: DataFrame) -> None:
        """Refuse columns that PostgreSQL cannot hold."""
        for field in rows.schema:
            self._type_of(table, field.name, field.dataType)

    def now(self, table: str) -> str | None:
        query = "select token from {schema}.dcrec_current where table_name = %s"
        row = self._run(self.session.connection(), query, table).fetchone()
        return None if row is None else str(row[0])

    def write(self, staged: StagedTables, table: str, rows: DataFrame) -> str:
        place = staged_place(table, staged.token)
        types = {field.name: sql.SQL(self._type_of(table, field.name, field.dataType)) for field in rows.schema}
        columns = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), of) for name, of in types.items())
        with self.session.transaction() as connection:
            self.session.hold(connection, staged.token)
            query = (
                "insert into {schema}.dcrec_runs (token, run_id, run_date, tables) values (%s, %s, %s, array[%s]) "
                "on conflict (token) do update set tables = dcrec_runs.tables || excluded.tables"
            )
            self._run(connection, query, staged.token, staged.run_id, self.run_date, table)
            self._run(connection, "create table {schema}.{place} ({columns})", place=place, columns=columns)
        self._load(place, rows)
        try:
            with self.session.transaction() as connection:
                if table in _KEYS:
                    keys = sql.SQL(", ").join(map(sql.Identifier, _KEYS[table]))
                    self._run(connection, "create unique index on {schema}.{place} ({keys})", place=place, keys=keys)
                self._run(connection, "analyze {schema}.{place}", place=place)
        except psycopg.errors.UniqueViolation as error:
            raise AuditError(f"{self.setting}: {table}: {error.diag.message_detail or first_line(error)}") from error
        return staged.token

    def _load(self, place: str, rows: DataFrame) -> None:
        maps = [field.name for field in rows.schema if isinstance(field.dataType, MapType)]
        sent = rows.withColumns({name: F.to_json(F.col(f"`{name}`")) for name in maps})
        writer = sent.write.format("jdbc").options(**self.server.jdbc()).option("dbtable", self._dotted(place))
        # Ten thousand rows a statement: three times as many a second as with the defaults.
        writer = writer.option("batchsize", "10000").option("reWriteBatchedInserts", "true")
        try:
            writer.option("stringtype", "unspecified").mode("append").save()
        except Exception as error:
            what = self.server.without_secret(message_of(error))
            raise DcrecError(f"{self.setting}: {self.namespace}.{place} could not be loaded: {what}") from error

    def read(self, staged: StagedTables, table: str, schema: StructType) -> DataFrame:
        """Open what was loaded, in pieces that executors read in parallel. Maps are left out."""
        place = staged_place(table, staged.token)
        query = "select relpages from pg_class where oid = %s::regclass"
        row = self.session.connection().execute(query, [self._dotted(place)]).fetchone()
        pages = 0 if row is None else int(row[0])
        cuts = range(0, pages + 1, _PAGES_PER_READ)
        pieces = [f"ctid >= '({cut},0)'::tid and ctid < '({cut + _PAGES_PER_READ},0)'::tid" for cut in cuts]
        # What was written since the table was measured.
        pieces[-1] = f"ctid >= '({cuts[-1]},0)'::tid"
        options = self.server.jdbc()
        frame: DataFrame = self.spark.read.jdbc(
            options.pop("url"), self._dotted(place), predicates=pieces, properties={**options, "fetchsize": "10000"}
        )
        return frame.select(*(f"`{field.name}`" for field in schema if not isinstance(field.dataType, MapType)))

    def commit(self, staged: StagedTables, record: Record) -> str:
        """Swap all views and record the publication in one transaction."""
        return self.session.through_restarts(lambda: self._commit(staged, record))

    def _commit(self, staged: StagedTables, record: Record) -> str:
        with self._swap(staged.run_id) as connection:
            self.require_unchanged(staged)
            query = "select 1 from {schema}.dcrec_runs where token = %s"
            if self._run(connection, query, staged.token).fetchone() is None:  # left over, while nobody held it
                why = "another publisher removed what was staged while the server was away"
                raise self.conflict(staged.run_id, why)
            # A run_id that is published again replaces itself.
            query = "update {schema}.dcrec_runs set published_at = null where run_id = %s and token <> %s"
            self._run(connection, query, staged.run_id, staged.token)
            query = "update {schema}.dcrec_runs set published_at = now(), record = %s::jsonb where token = %s"
            self._run(connection, query, to_json(record).decode(), staged.token)
            self._show(connection, dict(staged.places))
        return ", ".join(f"{self.namespace}.{table}" for table in staged.places)

    def undo(self, staged: StagedTables) -> None:
        """Show what was shown when staging began, all views at once. The publication is no longer recorded."""
        self.session.through_restarts(lambda: self._undo(staged))

    def _undo(self, staged: StagedTables) -> None:
        with self._swap(staged.run_id) as connection:
            ours = [table for table in staged.places if self.is_shown(staged, table)]
            self._show(connection, {table: staged.base[table] for table in ours})
            self._run(connection, "update {schema}.dcrec_runs set published_at = null where token = %s", staged.token)

    def _show(self, connection: psycopg.Connection, tokens: Mapping[str, str | None]) -> None:
        for table, token in sorted(tokens.items()):
            if token is None:
                self._run(connection, "drop view if exists {schema}.{place}", place=table)
                self._run(connection, "delete from {schema}.dcrec_current where table_name = %s", table)
                continue
            rows = self._sql("{schema}.{place}", place=staged_place(table, token))
            try:
                query = "create or replace view {schema}.{place} as select * from {rows}"
                self._run(connection, query, place=table, rows=rows)
            except (psycopg.errors.InvalidTableDefinition, psycopg.errors.WrongObjectType) as error:
                raise ConfigError(
                    f"{self.setting}: {self.namespace}.{table} is not a view with the columns of this run "
                    f"({first_line(error)}): drop it, whose grants go with it, and run again"
                ) from error
            query = (
                "insert into {schema}.dcrec_current values (%s, %s) "
                "on conflict (table_name) do update set token = excluded.token"
            )
            self._run(connection, query, table, token)

    def differing(self, staged: StagedTables) -> list[str]:
        """Count what the views show. Their tables were compared when they were staged, and never change."""
        return self.session.through_restarts(lambda: self._differing(staged))

    def _differing(self, staged: StagedTables) -> list[str]:
        differing = []
        for table, content in staged.contents.items():
            row = self._run(self.session.connection(), "select count(*) from {schema}.{p}", p=table).fetchone()
            if row != (content.rows,) and self.now(table) in (None, staged.token):  # else somebody came after
                differing.append(table)
        return differing

    def shown(self, table: str) -> DataFrame:
        options = {**self.server.jdbc(), "dbtable": self._dotted(table)}
        shown: DataFrame = self.spark.read.format("jdbc").options(**options).load()
        return shown

    def discard(self, staged: StagedTables) -> None:
        """Remove what is staged, unless it is shown or held. Where the server is away, that is left to the next run."""
        try:
            held = self.session.forget(staged.token)
            with self.session.transaction() as connection:
                query = "select published_at is null from {schema}.dcrec_runs where token = %s"
                if self._run(connection, query, staged.token).fetchone() == (True,):
                    self._forget(connection, staged.token)
                if held:
                    self.session.release(connection, staged.token)
        except (DcrecError, psycopg.OperationalError) as error:
            if self.session.answers():
                raise
            _log.warning("%s: what was staged is left to the next run: %s", self.setting, first_line(error))

    def prune(self, table: str) -> None:
        """Remove runs that are neither shown nor among those to keep, and what nobody alive is staging."""
        with self.session.transaction() as connection:
            # Who publishes or goes back to one of these runs has the lock: then the next publisher clears up.
            if not self.session.tries_to_keep_publishers_out(connection):
                return
            query = """
                select token, published_at is null from {schema}.dcrec_runs
                where token not in (select token from {schema}.dcrec_current)
                and token not in (select token from {schema}.dcrec_runs where published_at is not null
                                  order by run_id desc limit %s)"""
            for token, unpublished in self._run(connection, query, self.keep).fetchall():
                if unpublished and self.session.has_holder(connection, token):
                    continue
                try:
                    with connection.transaction():
                        connection.execute(f"set local lock_timeout = '{_ATTEMPT_SECONDS}s'")
                        self._forget(connection, token)
                except psycopg.errors.LockNotAvailable:
                    continue  # Somebody still reads that old run: the next publisher removes it.

    def _forget(self, connection: psycopg.Connection, token: str) -> None:
        query = "delete from {schema}.dcrec_runs where token = %s returning tables"
        row = self._run(connection, query, token).fetchone()
        for table in row[0] if row else ():
            self._run(connection, "drop table if exists {schema}.{place}", place=staged_place(table, token))

    def runs(self) -> list[StoredRun]:
        query = """
            select r.run_id, r.run_date::text, r.tables,
                   array(select table_name from {schema}.dcrec_current c where c.token = r.token order by 1)
            from {schema}.dcrec_runs r where published_at is not null order by run_id desc"""
        rows = self._run(self.session.connection(), query).fetchall()
        return [StoredRun(run_id, day, tuple(tables), tuple(current)) for run_id, day, tables, current in rows]

    def restore(self, run_id: str) -> None:
        query = "select token, tables from {schema}.dcrec_runs where run_id = %s and published_at is not null"
        with self._swap(run_id) as connection:
            row = self._run(connection, query, run_id).fetchone()
            if row is None:
                raise self.unknown_run(run_id)
            self._show(connection, dict.fromkeys(row[1], row[0]))

    @contextmanager
    def _swap(self, run_id: str) -> Iterator[psycopg.Connection]:
        """Hold the lock of publishers, and the locks on all views, inside one transaction."""
        with self.session.transaction() as connection:
            deadline = time.monotonic() + self.session.lock_seconds
            while not self._locked_views(connection):
                if time.monotonic() > deadline:
                    raise ConflictError(
                        f"{self.setting}: run {run_id} was not published: another publisher or a reader holds locks in "
                        f"{self.namespace} for over {self.session.lock_seconds:g} s; run again"
                    )
                time.sleep(PAUSE_SECONDS)
            yield connection

    def _locked_views(self, connection: psycopg.Connection) -> bool:
        """Try to lock. New readers queue up behind an attempt, so each is short."""
        try:
            with connection.transaction():
                connection.execute(f"set local lock_timeout = '{_ATTEMPT_SECONDS}s'")
                self.session.keep_publishers_out(connection)
                query = """
                    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = %s and c.relkind = 'v'
                    and c.relname in (select table_name from {schema}.dcrec_current) order by 1"""
                for (view,) in self._run(connection, query, self.namespace).fetchall():
                    self._run(connection, "lock table {schema}.{place} in access exclusive mode", place=view)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            return False
        return True

    def _dotted(self, place: str) -> str:
        return f'"{self.namespace}"."{place}"'

    def _run(
        self, connection: psycopg.Connection, text: str, *values: object, **parts: str | sql.Composable
    ) -> psycopg.Cursor[Any]:
        """Execute a statement, with names filled in and quoted."""
        return connection.execute(self._sql(text, **parts), values or None)

    def _sql(self, text: str, **parts: str | sql.Composable) -> sql.Composed:
        named = {name: sql.Identifier(part) if isinstance(part, str) else part for name, part in parts.items()}
        return sql.SQL(text).format(schema=sql.Identifier(self.namespace), **named)

    def _type_of(self, table: str, column: str, kind: DataType) -> str:
        if isinstance(kind, ArrayType) and type(kind.elementType) in _TYPES:
            return f"{_TYPES[type(kind.elementType)]}[]"
        if type(kind) not in _TYPES:
            raise ConfigError(
                f"{self.setting}: table {table}, column {column} is {kind.simpleString()}, which has no type there"
            )
        return _TYPES[type(kind)]
