"""Warehouses of every kind, and readers of them that have nothing to do with the sinks."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pyarrow.parquet as pq
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from examples.redis_sink.dcrec_redis_sink import RedisServer, RedisSettings, RedisWarehouse
from tests.warehouse.servers import RunningRedis
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

Judge = Callable[[str], pd.DataFrame]
# Each table takes Spark seconds in a catalog: all three go where types differ most.
NAMES = {"postgresql": ("recommendations", "item_factors", "runs"), "redis": ("recommendations", "item_factors")}


@dataclass
class Place:
    kind: str
    namespace: str
    warehouse: Any
    judge: Judge

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES.get(self.kind, ("recommendations", "runs"))

    def tables(self, run_id: str, users: int = len(IDS), names: tuple[str, ...] = ()) -> dict[str, DataFrame]:
        return tables_of(self.warehouse.spark, run_id, users, names or self.names)

    def publish(self, run_id: str, users: int = len(IDS), names: tuple[str, ...] = (), **steps: Any) -> None:
        publish(self.warehouse, run_id, self.tables(run_id, users, names), lambda _: record(run_id), **steps)

    def stage(self, run_id: str, users: int = len(IDS), names: tuple[str, ...] = ()) -> Any:
        return self.warehouse.stage(run_id, self.tables(run_id, users, names), {})

    def shows(self, run_id: str, users: int = len(IDS)) -> bool:
        rows = {"recommendations": 2 * users, "item_factors": 2, "runs": 1}
        return all(self.judge(table)["run_id"].tolist() == [run_id] * rows[table] for table in self.names)


# Opens a warehouse of a kind, in a namespace of the test's own if none is given.
Opened = Callable[..., Place]


def open_place(
    kind: str,
    namespace: str,
    spark: SparkSession,
    scratch: Path,
    server_of: Callable[[str], Any],
    keep: int = 3,
    lock_seconds: float = 2,
) -> Place:
    """Open a warehouse whose server, if it has one, is the fixture of that name."""
    settings, home = (keep, RUN_DATE), scratch / "spark-warehouse" / f"{namespace}.db"
    warehouse: Any
    judge: Judge
    match kind:
        case "hive":  # judged by PyArrow: the files of the table that the view names
            hive = HiveWarehouse(spark, namespace, *settings)
            warehouse, judge = hive, lambda table: pq.read_table(home / str(hive.now(table))).to_pandas()
        case "delta":  # judged by delta-rs: the log and its files
            delta = DeltaWarehouse(spark, namespace, *settings)
            warehouse, judge = delta, lambda table: DeltaTable(str(home / table)).to_pyarrow_table().to_pandas()
        case "postgresql":
            server = Server.open(server_of("postgresql").url, "publisher", None, "test")
            warehouse = PostgresqlWarehouse(spark, server, namespace, *settings, lock_seconds)
            judge = postgresql_judge(server_of("database"), namespace)
        case "redis":
            running = server_of("redis_server")
            where = RedisServer.open(RedisSettings(url=running.url), "test")
            warehouse = RedisWarehouse(spark, where, namespace, *settings)
            judge = redis_judge(running, namespace)
        case "iceberg in a folder":
            warehouse = IcebergWarehouse(spark, f"lake.{namespace}", *settings)
            judge = hadoop_judge(scratch, namespace)
        case "iceberg behind sqlite":
            warehouse = IcebergWarehouse(spark, f"sea.{namespace}", *settings)
            judge = catalog_judge(sqlite_catalog(scratch), namespace)
        case _:  # iceberg behind rest, whose server tells the session where it is
            judge = catalog_judge(RestCatalog("rest", uri=server_of("rest_catalog").uri), namespace)
            warehouse = IcebergWarehouse(spark, f"rest.{namespace}", *settings)
    return Place(kind, namespace, warehouse, judge)


def hadoop_judge(scratch: Path, namespace: str) -> Judge:
    return lambda table: StaticTable.from_metadata(f"{scratch}/lake/{namespace}/{table}").scan().to_pandas()


def sqlite_catalog(scratch: Path) -> Catalog:
    return SqlCatalog("sea", uri=f"sqlite:///{scratch}/sea.sqlite?timeout=60", warehouse=f"{scratch}/sea")


def catalog_judge(catalog: Catalog, namespace: str) -> Judge:
    return lambda table: catalog.load_table(f"{namespace}.{table}").scan().to_pandas()


def postgresql_judge(database: psycopg.Connection, namespace: str) -> Judge:
    cursor = database.cursor(row_factory=dict_row)
    return lambda table: pd.DataFrame(cursor.execute(f'select * from "{namespace}"."{table}"').fetchall())


def redis_judge(server: RunningRedis, namespace: str) -> Judge:
    """The hash that the pointer names, by a client of its own."""
    ids = {"recommendations": "user_id", "item_factors": "id"}

    def read(table: str) -> pd.DataFrame:
        with server.reader() as client:
            token = client.hget(f"{namespace}:current", table)
            fields = client.hgetall(f"{namespace}:{token}:{table}")
        found = pd.DataFrame([{ids[table]: key, **row} for key, rows in fields.items() for row in json.loads(rows)])
        if table == "item_factors":
            return found.astype({"id": "int64", "bias": "float64"})
        return found.assign(run_date=pd.to_datetime(found["run_date"]).dt.date)

    return read


def directory_judge(output: Path) -> Judge:
    return lambda table: pd.read_parquet(
        f"{current_run(str(output)).directory.removeprefix('file://')}/{table}", partitioning=None
    )


@contextmanager
def watching(*reads: Callable[[], Hashable], pause: float = 0) -> Iterator[list[Counter[Any]]]:
    """Read all the time, each in a thread of its own; how often each found what, when the block has ended."""
    stop, found = threading.Event(), [Counter[Any]() for _ in reads]

    def watch(read: Callable[[], Hashable], seen: Counter[Any]) -> None:
        while not stop.is_set():
            seen[read()] += 1
            stop.wait(pause)

    with ThreadPoolExecutor(len(reads)) as pool:
        watches = [pool.submit(watch, *given) for given in zip(reads, found, strict=True)]
        try:
            yield found
        finally:
            stop.set()
        for watched in watches:
            watched.result()
