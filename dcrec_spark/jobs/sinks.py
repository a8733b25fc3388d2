"""The places that a job publishes to: its output directory, and the warehouses that its settings name."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date

from pyspark.sql import SparkSession

from dcrec_spark.config import JobConfig, WarehousesConfig, WithWarehouses
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.output import open_output
from dcrec_spark.publish.several import Several
from dcrec_spark.publish.warehouse import CatalogWarehouse, Warehouse

_CATALOGS: tuple[type[CatalogWarehouse], ...] = (HiveWarehouse, IcebergWarehouse, DeltaWarehouse)


@contextmanager
def opened_sinks(config: JobConfig, spark: SparkSession, output: str) -> Iterator[Several]:
    """Open all places of a job; what they hold open is let go at the end.

    Raises
    ------
    ConfigError : one of them cannot be used; names the setting.
    """
    chosen = warehouses_of(config)
    with opened_warehouses(chosen, spark, config.run.run_date) as warehouses:
        yield Several(spark, open_output(output, spark), warehouses, chosen.tables)


def check_places(config: JobConfig, spark: SparkSession, output: str) -> None:
    """Refuse an output or a warehouse that could not be published to, before anything is computed.

    Raises
    ------
    ConfigError : names the setting.
    """
    with opened_sinks(config, spark, output) as sinks:
        sinks.directory.check_writable()
        for warehouse in sinks.warehouses:
            warehouse.check()


def warehouses_of(config: JobConfig) -> WarehousesConfig:
    """Take the warehouses of a job's settings; none for a job that publishes to none."""
    return config.warehouses if isinstance(config, WithWarehouses) else WarehousesConfig()


@contextmanager
def opened_warehouses(
    chosen: WarehousesConfig, spark: SparkSession | None, run_date: date | None
) -> Iterator[list[Warehouse]]:
    """Open the warehouses that are set.

    spark : None where none of them is a catalog of the session's. run_date : None to read, not to publish.
    """
    with ExitStack() as resources:
        warehouses: list[Warehouse] = []
        for kind in _CATALOGS:
            namespace = getattr(chosen, kind.kind).namespace
            if namespace is not None and spark is not None:
                warehouses.append(kind(spark, namespace, chosen.keep, run_date))
        if chosen.postgresql.url is not None:
            warehouses.append(_postgresql(chosen, spark, run_date))
        if chosen.redis.url is not None:
            warehouses.append(_redis(chosen, spark, run_date))
        for warehouse in warehouses:
            resources.callback(warehouse.close)
        yield warehouses


def need_a_session(chosen: WarehousesConfig) -> bool:
    """Whether one of the warehouses is a catalog of a Spark session's."""
    return any(getattr(chosen, kind.kind).namespace is not None for kind in _CATALOGS)


def _postgresql(chosen: WarehousesConfig, spark: SparkSession | None, run_date: date | None) -> Warehouse:
    # Imported where it is asked for: its library is an extra.
    from dcrec_spark.publish.postgresql import PostgresqlWarehouse
    from dcrec_spark.publish.server import Server

    given = chosen.postgresql
    server = Server.open(str(given.url), given.user, given.password_file, "warehouses.postgresql")
    return PostgresqlWarehouse(
        spark, server, given.namespace, chosen.keep, run_date, given.lock_seconds, given.index_vectors
    )


def _redis(chosen: WarehousesConfig, spark: SparkSession | None, run_date: date | None) -> Warehouse:
    from dcrec_spark.publish.redis import RedisWarehouse
    from dcrec_spark.publish.redis_server import RedisServer

    given = chosen.redis
    server = RedisServer.open(str(given.url), given.user, given.password_file, "warehouses.redis")
    return RedisWarehouse(spark, server, given.namespace, chosen.keep, run_date)
