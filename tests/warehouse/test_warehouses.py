"""What holds for every warehouse: readers find one run's tables, whole, whatever is published or taken back."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.warehouse import StagedTables, Warehouse
from examples.redis_sink.dcrec_redis_sink import RedisServer, RedisSettings, RedisWarehouse
from tests.warehouse.judges import (
    Judge,
    delta_judge,
    hadoop_judge,
    hive_judge,
    jdbc_judge,
    postgresql_judge,
    redis_judge,
    rest_judge,
)
from tests.warehouse.key_values import RunningRedis
from tests.warehouse.rest_catalog import CATALOG, RestCatalog
from tests.warehouse.tables import ALL, IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

KINDS = (
    "hive",
    "iceberg in a folder",
    "iceberg behind sqlite",
    "iceberg behind rest",
    "delta",
    "postgresql",
    "redis",
)
# The steps of the protocol, once for each sink: catalogs of Iceberg differ in where readers find a table.
SINKS = ("hive", "iceberg behind sqlite", "delta", "postgresql", "redis")
KEEP = 3


@dataclass
class Place:
    kind: str
    warehouse: Warehouse
    judge: Judge

    @property
    def names(self) -> tuple[str, ...]:
        """Each table takes Spark seconds in a catalog: all three go where types differ most."""
        if self.kind == "redis":
            return ("recommendations", "item_factors")
        return ALL if self.kind == "postgresql" else ("recommendations", "runs")

    def tables(self, spark: SparkSession, run_id: str, users: int = len(IDS)) -> dict[str, DataFrame]:
        return tables_of(spark, run_id, users, self.names)

    def all_of(self, run_id: str) -> dict[str, set[str]]:
        return {table: {run_id} for table in self.names}

    def run_ids(self) -> dict[str, set[str]]:
        return {table: set(self.judge(table)["run_id"]) for table in self.names}


def place_of_kind(
    kind: str,
    namespace: str,
    spark: SparkSession,
    scratch: Path,
    postgresql: str,
    database: psycopg.Connection,
    redis_server: RunningRedis,
    rest_catalog: RestCatalog,
) -> Place:
    settings = (spark, namespace, KEEP, RUN_DATE)
    if kind == "hive":
        hive = HiveWarehouse(*settings)
        return Place(kind, hive, hive_judge(scratch, namespace, hive.now))
    if kind == "delta":
        return Place(kind, DeltaWarehouse(*settings), delta_judge(scratch, namespace))
    if kind == "postgresql":
        server = Server.open(postgresql, "publisher", None, "test")
        warehouse = PostgresqlWarehouse(spark, server, namespace, KEEP, RUN_DATE, lock_seconds=2)
        return Place(kind, warehouse, postgresql_judge(database, namespace))
    if kind == "redis":
        where = RedisServer.open(RedisSettings(url=redis_server.url), "test")
        return Place(
            kind, RedisWarehouse(spark, where, namespace, KEEP, RUN_DATE), redis_judge(redis_server, namespace)
        )
    if kind == "iceberg behind rest":
        iceberg = IcebergWarehouse(spark, f"{CATALOG}.{namespace}", KEEP, RUN_DATE)
        return Place(kind, iceberg, rest_judge(rest_catalog.uri, namespace))
    catalog, judge = ("lake", hadoop_judge) if kind == "iceberg in a folder" else ("sea", jdbc_judge)
    return Place(kind, IcebergWarehouse(spark, f"{catalog}.{namespace}", KEEP, RUN_DATE), judge(scratch, namespace))


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    scratch: Path,
    postgresql: str,
    database: psycopg.Connection,
    redis_server: RunningRedis,
    rest_catalog: RestCatalog,
) -> Iterator[Place]:
    namespace = f"shop_{crc32(request.node.nodeid.encode())}"
    made = place_of_kind(request.param, namespace, spark, scratch, postgresql, database, redis_server, rest_catalog)
    made.warehouse.check()
    yield made
    made.warehouse.close()


def publish_run(place: Place, spark: SparkSession, run_id: str, users: int = len(IDS)) -> None:
    publish(place.warehouse, run_id, place.tables(spark, run_id, users), lambda _: record(run_id))


def staged_in_redis(place: Place) -> list[str]:
    """Keys of runs that were never shown, and what tells that some are being written."""
    assert isinstance(place.warehouse, RedisWarehouse)
    client, namespace = place.warehouse.server.connect(), place.warehouse.namespace
    held = set(client.hkeys(f"{namespace}:runs"))  # type: ignore[arg-type]
    names = [key.split(":") for key in client.scan_iter(f"{namespace}:*")]
    return [":".join(name) for name in names if name[1:] == ["staging"] or (len(name) > 2 and name[1] not in held)]


def leftovers(place: Place, spark: SparkSession) -> list[str]:
    if place.kind == "postgresql":
        query = "select tablename from pg_tables where schemaname = %s and tablename like '%%\\_\\_%%'"
        shown = place.warehouse.now("recommendations")
        reader = place.warehouse.server.connect("test")  # type: ignore[attr-defined]
        names = [name for (name,) in reader.execute(query, [place.warehouse.namespace]).fetchall()]
        reader.close()
        return [name for name in names if shown is None or not name.endswith(shown)]
    if place.kind == "redis":
        return staged_in_redis(place)
    namespace = place.warehouse.namespace
    if place.kind.startswith("iceberg"):
        refs = spark.sql(f"select name from {namespace}.recommendations.refs where name like 'dcrec_staged%'").collect()
        return [row["name"] for row in refs]
    names = [row["tableName"] for row in spark.sql(f"show tables in {namespace} like '*__*'").collect()]
    return [name for name in names if name != place.warehouse.now(name.split("__")[0])]


def test_a_second_run_replaces_the_first_and_going_back_brings_it_whole(place: Place, spark: SparkSession) -> None:
    publish_run(place, spark, "monday")
    written = place.tables(spark, "monday")
    found = place.judge("recommendations").sort_values(["user_id", "rank"], ignore_index=True)
    sent = written["recommendations"].toPandas().sort_values(["user_id", "rank"], ignore_index=True)
    pd.testing.assert_frame_equal(found[sent.columns].astype(sent.dtypes), sent)
    if "item_factors" in place.names:
        factors = place.judge("item_factors").set_index("id")
        assert np.array_equal(factors.loc[7, "features"], [0.1, 2.0**-1074])
        assert factors.loc[7, "exposure_shape"] is None
    if "runs" in place.names:
        assert list(place.judge("runs")["warnings"][0]) == ["it's", 'a "warning"', ""]
    publish_run(place, spark, "tuesday", users=3)
    assert place.run_ids() == place.all_of("tuesday")
    assert sorted(set(place.judge("recommendations")["user_id"])) == sorted(IDS[:3])
    assert leftovers(place, spark) == [] or place.kind in ("hive", "postgresql")  # they hold monday's tables
    held = {run.run_id: (sorted(run.tables), sorted(run.current)) for run in place.warehouse.kept()}
    assert held == {"monday": (sorted(written), []), "tuesday": (sorted(written), sorted(written))}
    place.warehouse.restore("monday")
    assert place.run_ids() == place.all_of("monday")
    assert len(place.judge("recommendations")) == 2 * len(IDS)
    with pytest.raises(DataError, match=r"run sunday is not held in .*monday"):
        place.warehouse.restore("sunday")


@pytest.mark.parametrize("place", SINKS, indirect=True)
def test_committed_twice_counts_once_and_of_two_publishers_the_first_wins(place: Place, spark: SparkSession) -> None:
    warehouse = place.warehouse
    first, second = (warehouse.stage(name, place.tables(spark, name), {}) for name in ("first", "second"))
    warehouse.commit(first, record("first"))
    warehouse.commit(first, record("first"))
    assert len(place.judge("recommendations")) == 2 * len(IDS)
    with pytest.raises(ConflictError, match="run second was not published"):
        warehouse.commit(second, record("second"))
    warehouse.discard(second)
    warehouse.verify(first)
    assert place.run_ids() == place.all_of("first")
    assert leftovers(place, spark) == []


@pytest.mark.parametrize("place", SINKS, indirect=True)
def test_what_is_refused_or_taken_back_leaves_the_old_tables(place: Place, spark: SparkSession) -> None:
    publish_run(place, spark, "good")

    def refuse(staged: StagedTables) -> None:
        assert {name: content.rows for name, content in staged.contents.items()}["recommendations"] == 6
        assert place.run_ids() == place.all_of("good")
        raise DcrecError("refused")

    tables = place.tables(spark, "bad", users=3)
    with pytest.raises(DcrecError, match="refused"):
        publish(place.warehouse, "bad", tables, lambda _: record("bad"), audit=refuse)
    staged = place.warehouse.stage("undone", tables, {})
    place.warehouse.commit(staged, record("undone"))
    place.warehouse.undo(staged)
    place.warehouse.discard(staged)
    assert place.run_ids() == place.all_of("good")
    assert leftovers(place, spark) == []
    current = {run.run_id: run.current for run in place.warehouse.kept() if run.current}
    assert set(current) == {"good"}


@pytest.mark.parametrize("place", SINKS, indirect=True)
def test_other_columns_and_folders_are_refused_by_name(place: Place, spark: SparkSession) -> None:
    tables = place.tables(spark, "monday")
    with pytest.raises(ConfigError, match=r"a warehouse holds tables only; found the folders .*model"):
        place.warehouse.stage("monday", tables, {"model": lambda uri: uri})
    with pytest.raises(ConfigError, match="table is"):
        place.warehouse.stage("monday", {'x"; drop table runs; --': tables["recommendations"]}, {})
