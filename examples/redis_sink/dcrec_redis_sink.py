"""Redis as a sink of dcrec: a hash for each table of each run, and one pointer that a commit switches.

::

    <namespace>:current              hash: table -> token of the run that readers read
    <namespace>:<token>:<table>      hash: id of a user or an item -> its rows, as a JSON list in the order of ranks
    <namespace>:runs                 hash: token -> run_id, run_date, tables, time of publication, as JSON
    <namespace>:staging              set: tokens of runs that are being written

A reader asks for the token, and then for the rows of an id. ``fallback`` has the empty id. A commit is one transaction.
It is refused if the pointer has moved since staging began, or if something of what was staged is gone. What was begun
two days ago and never committed goes when the next run is staged.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import redis
from pydantic import Field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructType
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from dcrec_spark.config.types import Section
from dcrec_spark.errors import ConfigError, DcrecError
from dcrec_spark.publish.protocol import Record
from dcrec_spark.publish.warehouse import (
    IDENTIFIER,
    StagedTables,
    StoredRun,
    Warehouse,
    first_line,
    is_abandoned,
    password_in,
)
from dcrec_spark.spark.failures import message_of

# Table -> the column that its rows are looked up by; None: one list for all.
KEYS: Mapping[str, str | None] = {
    "recommendations": "user_id",
    "similar_items": "item_id",
    "fallback": None,
    "user_overlap": "user_id",
    "item_overlap": "item_id",
    "user_vectors": "id",
    "item_vectors": "id",
    "user_factors": "id",
    "item_factors": "id",
}
_log = logging.getLogger(__name__)
_KEY, _ROWS = "key", "rows"
# Policies of a full server that drop keys without an expiry: tables that readers read.
_DROPPING = "allkeys"
_URL = re.compile(r"rediss?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[0-9]{1,4})?")
_CONNECT_SECONDS = 15.0
# Tries of one command, up to 2 s apart: a server that restarts is back by then.
_TRIES = 15
_TRANSIENT = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)


class RedisSettings(Section):
    """Settings under ``warehouses.other.redis``."""

    url: str = Field(description="redis://host:port/number, or rediss:// for TLS, without password")
    user: str | None = Field(default=None, description="Redis user; null: the default user")
    password_file: str | None = Field(
        default=None, description="File whose first line is the password; null: environment variable REDISCLI_AUTH"
    )
    namespace: str = Field(default="dcrec", description="Prefix of all keys")


@dataclass(frozen=True)
class RedisServer:
    """Address and user, for executors and for the driver."""

    url: str
    user: str | None
    password: str | None = field(repr=False)

    @classmethod
    def open(cls, settings: RedisSettings, setting: str) -> "RedisServer":
        """Read the password from its file, or from the environment variable REDISCLI_AUTH.

        Raises ConfigError: the url is of another form, or the file cannot be read. It repeats neither, which may hold a
        secret.
        """
        if _URL.fullmatch(settings.url) is None:
            raise ConfigError(
                f"setting {setting}.url: expected redis://host:port/number, or rediss:// for TLS, without user and "
                "password"
            )
        file = settings.password_file
        password = os.environ.get("REDISCLI_AUTH") if file is None else password_in(file, setting)
        return cls(settings.url, settings.user, password)

    def connect(self) -> redis.Redis:
        """Make a client. It connects when it is first used, and tries again while a server restarts."""
        return redis.Redis.from_url(
            self.url,
            username=self.user,
            password=self.password,
            decode_responses=True,
            socket_connect_timeout=_CONNECT_SECONDS,
            retry=Retry(ExponentialBackoff(cap=2.0, base=0.1), _TRIES, supported_errors=_TRANSIENT),
            retry_on_error=list(_TRANSIENT),
        )


class _Staged(NamedTuple):
    """Table that was staged: its ids, by which it is read back, its columns, and the number of ids."""

    keys: DataFrame
    schema: StructType
    fields: int


class RedisWarehouse(Warehouse):
    """Tables of a Redis server, under keys that begin with ``namespace``.

    spark : writes the rows; None is enough to list runs and to go back to one.
    """

    kind = "redis"
    Settings = RedisSettings

    def __init__(
        self, spark: SparkSession | None, server: RedisServer, namespace: str, keep: int, run_date: date | None
    ) -> None:
        super().__init__(namespace, keep, run_date)
        self.spark = spark
        self.server = server
        self._client = server.connect()
        self._staged: dict[tuple[str, str], _Staged] = {}

    @classmethod
    def open(
        cls, settings: RedisSettings, spark: SparkSession | None, keep: int, run_date: date | None
    ) -> "RedisWarehouse":
        """Open the sink with the settings that a job has for it."""
        server = RedisServer.open(settings, "warehouses.other.redis")
        return cls(spark, server, settings.namespace, keep, run_date)

    @property
    def setting(self) -> str:
        """Its name in the settings."""
        return "warehouses.other.redis"

    def takes(self, table: str) -> bool:
        """Whether the table's rows are looked up by an id."""
        return table in KEYS

    def check(self) -> None:
        """Connect, and refuse a server that drops tables when it is full."""
        if IDENTIFIER.fullmatch(self.namespace) is None:
            raise ConfigError(
                f"{self.setting}.namespace is {self.namespace!r}; expected letters, digits and '_', not first a digit"
            )
        try:
            self._client.ping()
            policy = str(self._policy())
        except redis.RedisError as error:
            raise ConfigError(
                f"setting {self.setting}.url is {self.server.url!r}: {self._without_secret(first_line(error))}"
            ) from error
        if policy.startswith(_DROPPING):
            raise ConfigError(
                f"setting {self.setting}.url: the server's maxmemory-policy is {policy}, by which a full server drops "
                "tables that are read; expected noeviction or one of volatile-*"
            )

    def _policy(self) -> object:
        try:
            return self._client.config_get("maxmemory-policy").get("maxmemory-policy")
        except redis.ResponseError:  # not every user may ask
            return None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    # ---- stage

    def prepare(self, table: str, rows: DataFrame) -> None:
        """Nothing: a hash is there when something is in it."""

    def now(self, table: str) -> str | None:
        """Name the token that the pointer has."""
        token = self._client.hget(self._current, table)
        return None if token is None else str(token)

    def write(self, staged: StagedTables, table: str, rows: DataFrame) -> str:
        """Write a field for each id from the executors. Returns the token."""
        place = self._place(staged.token, table)
        self._client.sadd(self._staging, staged.token)
        lists = _as_lists(rows, KEYS[table])
        written = lists.mapInArrow(_writer(self.server, place), "fields long")
        try:
            fields = written.agg(F.sum("fields")).collect()[0][0] or 0
        except Exception as error:
            what = self._without_secret(message_of(error))
            raise DcrecError(f"{self.setting}: {place} could not be written: {what}") from error
        self._staged[staged.token, table] = _Staged(lists.select(_KEY), rows.schema, fields)
        return staged.token

    def read(self, staged: StagedTables, table: str, schema: StructType) -> DataFrame:
        """Open what was written, by its ids."""
        return self._open(staged.token, table)

    def _open(self, token: str, table: str) -> DataFrame:
        (keys, schema, _), place, column = self._staged[token, table], self._place(token, table), KEYS[table]
        found = keys.mapInArrow(_reader(self.server, place), f"{_KEY} string, {_ROWS} string")
        inner = StructType([field for field in schema if field.name != column])
        rows = found.select(_KEY, F.explode(F.from_json(_ROWS, ArrayType(inner))).alias("row"))
        key = [] if column is None else [F.col(_KEY).cast(schema[column].dataType).alias(column)]
        return rows.select(*key, "row.*").select(*schema.fieldNames())

    # ---- commit

    def commit(self, staged: StagedTables, record: Record) -> str:
        """Switch the pointer of all tables, and note the run, in one transaction.

        Raises ConflictError: another run was shown since staging began, or something of what was staged is gone.
        """
        if not staged.places:
            return f"{self.namespace}: no table of this run is looked up by an id"
        places = {table: self._place(token, table) for table, token in staged.places.items()}

        def switch(transaction: redis.client.Pipeline) -> None:
            self.require_unchanged(staged)
            wanted = [table for table in places if staged.contents[table].rows]
            gone = [table for table in wanted if not transaction.exists(places[table])]
            if gone:
                raise self.conflict(staged.run_id, f"the server has lost what was staged of {', '.join(gone)}")
            note = {"run_id": staged.run_id, "run_date": str(self.run_date), "tables": sorted(places)}
            seconds, microseconds = transaction.time()
            transaction.multi()
            transaction.srem(self._staging, staged.token)
            transaction.hset(self._current, items=[part for place in staged.places.items() for part in place])
            transaction.hset(
                self._runs, staged.token, json.dumps({**note, "published_at": seconds + microseconds / 1e6})
            )

        try:
            self._client.transaction(switch, self._current, *places.values())
        except redis.RedisError as error:
            why = self._without_secret(first_line(error))
            raise DcrecError(f"{self.setting}: {self.server.url} went away, or refuses: {why}; run again") from error
        return ", ".join(places.values())

    def undo(self, staged: StagedTables) -> None:
        """Point to what was there when staging began. The publication is no longer noted."""
        for table in filter(partial(self.is_shown, staged), staged.places):
            if (before := staged.base[table]) is None:
                self._client.hdel(self._current, table)
            else:
                self._client.hset(self._current, table, before)
        self._client.hdel(self._runs, staged.token)
        self._remove(staged.token)

    def shown(self, table: str) -> DataFrame:
        """Open what the pointer names, where this publisher wrote it."""
        return self._open(str(self.now(table)), table)

    def differing(self, staged: StagedTables) -> list[str]:
        """Count the ids, unless somebody came after. Rows were compared when they were staged, and never change."""
        return [
            table
            for table, token in staged.places.items()
            if (now := self.now(table)) is None
            or (now == token and self._client.hlen(self._place(token, table)) != self._staged[token, table].fields)
        ]

    # ---- clear up, list, go back

    def discard(self, staged: StagedTables) -> None:
        """Remove what is staged, unless the run is held. Where the server is away, that is left to a later run."""
        try:
            if not self._client.hexists(self._runs, staged.token):
                self._remove(staged.token)
        except redis.RedisError as error:
            _log.warning("%s: what was staged is left to a later run: %s", self.setting, first_line(error))

    def prune(self, table: str) -> None:
        """Remove runs that are neither shown nor among those to keep, and what publishers that died have left."""
        for token in filter(is_abandoned, map(str, self._client.smembers(self._staging))):
            self._remove(token)
        for token, _ in self._notes()[self.keep :]:
            self._client.transaction(partial(self._prune_one, token), self._current)

    def _prune_one(self, token: str, transaction: redis.client.Pipeline) -> None:
        """Remove a run that is not shown. The transaction begins anew if somebody goes back to it meanwhile."""
        if token not in transaction.hvals(self._current):
            transaction.multi()
            transaction.hdel(self._runs, token)
            transaction.unlink(*(self._place(token, table) for table in KEYS))

    def _remove(self, token: str) -> None:
        self._client.unlink(*(self._place(token, table) for table in KEYS))
        self._client.srem(self._staging, token)

    def runs(self) -> list[StoredRun]:
        """List the published runs."""
        current, runs = self._client.hgetall(self._current), []
        for token, note in self._notes():
            shown = sorted(str(table) for table, place in current.items() if place == token)
            runs.append(StoredRun(note["run_id"], note["run_date"], tuple(note["tables"]), tuple(shown)))
        return runs

    def restore(self, run_id: str) -> None:
        """Point to all tables of an older run, in one step."""

        def go_back(transaction: redis.client.Pipeline) -> None:
            found = next(((token, note) for token, note in self._notes() if note["run_id"] == run_id), None)
            if found is None:
                raise self.unknown_run(run_id)
            transaction.multi()
            transaction.hset(self._current, mapping=dict.fromkeys(found[1]["tables"], found[0]))

        self._client.transaction(go_back, self._current, self._runs)

    # ---- the server

    @property
    def _current(self) -> str:
        return f"{self.namespace}:current"

    @property
    def _runs(self) -> str:
        return f"{self.namespace}:runs"

    @property
    def _staging(self) -> str:
        return f"{self.namespace}:staging"

    def _place(self, token: str, table: str) -> str:
        return f"{self.namespace}:{token}:{table}"

    def _notes(self) -> list[tuple[str, dict[str, Any]]]:
        """Tokens and notes of the published runs, the newest first."""
        notes = {str(token): json.loads(note) for token, note in self._client.hgetall(self._runs).items()}
        return sorted(notes.items(), key=lambda item: (item[1]["run_id"], item[1]["published_at"]), reverse=True)

    def _without_secret(self, text: str) -> str:
        return text.replace(self.server.password, "***") if self.server.password else text


def _as_lists(rows: DataFrame, column: str | None) -> DataFrame:
    """Make a row for each id: the id as text, and its rows as JSON, in the order of ranks where they have some."""
    names = [name for name in rows.columns if name != column]
    # Sorted by the first field.
    first = [name for name in names if name == "rank"]
    row = F.struct(*first, *(name for name in names if name not in first))
    lists = F.to_json(
        F.array_sort(F.collect_list(row)) if first else F.collect_list(row), {"ignoreNullFields": "false"}
    )
    key: Column = F.lit("") if column is None else F.col(column).cast(StringType())
    return rows.groupBy(key.alias(_KEY)).agg(lists.alias(_ROWS))


def _writer(server: RedisServer, place: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = 0
        with server.connect() as client:
            for batch in filter(len, batches):
                keys, rows = (batch.column(name).to_pylist() for name in (_KEY, _ROWS))
                client.hset(place, mapping=dict(zip(keys, rows, strict=True)))
                fields += len(keys)
        yield pa.RecordBatch.from_pydict({"fields": pa.array([fields], pa.int64())})

    return write


def _reader(server: RedisServer, place: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with server.connect() as client:
            for batch in filter(len, batches):
                keys = batch.column(_KEY)
                rows = pa.array(client.hmget(place, keys.to_pylist()), pa.string())
                yield pa.RecordBatch.from_arrays([keys, rows], names=[_KEY, _ROWS])

    return read
