"""Places that a job publishes to: its output directory, and warehouses. Also the runs in them, and rollback.

Another package can offer a warehouse by an entry point of the group ``dcrec_spark.sinks``. It names a class with the
methods of :class:`~dcrec_spark.publish.warehouse.Warehouse`, a pydantic model ``Settings``, and a class method
``open(settings, spark, keep, run_date)``. Its settings are in ``warehouses.other``, under the name of the entry point.
``examples/redis_sink`` is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from dcrec_spark.config.load import validation_message
from dcrec_spark.config.sections import JobConfig, PlacesConfig, WarehousesConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.several import Audit, BeforeEverywhere, Several
from dcrec_spark.publish.warehouse import CatalogWarehouse, StoredRun, Warehouse
from dcrec_spark.spark.session import build_session
from dcrec_spark.storage.files import is_local
from dcrec_spark.storage.hadoop import require_exclusive

GROUP = "dcrec_spark.sinks"
_CATALOGS: tuple[type[CatalogWarehouse], ...] = (HiveWarehouse, IcebergWarehouse, DeltaWarehouse)
# Of two publishers at once these let one pass, so output.path, for the record alone, need not.
_DECIDE = frozenset({"iceberg", "delta", "postgresql"})
# Runs that a warehouse keeps where output.keep is null.
_KEEP = 7


def output_path(config: JobConfig) -> str:
    """Return where the tables go. Raises ConfigError: the configuration does not say."""
    if config.output.path is None:
        raise ConfigError(
            "setting output.path: found null, expected the directory for the tables; add --set output.path=DIR, "
            "or --config FILE"
        )
    return config.output.path


@contextmanager
def open_sinks(config: JobConfig, spark: SparkSession, output: str, audit: Audit | None = None) -> Iterator[Several]:
    """Open all places of a job, and close them at the end. Raises ConfigError: names the one that cannot be used."""
    with _open_warehouses(config, spark, config.run.run_date) as warehouses:
        directory = open_output(output, spark)
        if not any(place.kind in _DECIDE for place in warehouses):
            require_exclusive(directory.files, output, "output.path")
        yield Several(spark, directory, warehouses, audit)


def check_sinks(config: JobConfig, spark: SparkSession, output: str) -> BeforeEverywhere:
    """Refuse an unusable place. Returns what readers have everywhere. Raises ConfigError: names the setting."""
    with open_sinks(config, spark, output) as sinks:
        sinks.directory.check_writable()
        for warehouse in sinks.warehouses:
            warehouse.check()
        return sinks.base()


@contextmanager
def _open_warehouses(config: JobConfig, spark: SparkSession | None, run_date: date | None) -> Iterator[list[Warehouse]]:
    """Open the warehouses that are set. spark : None if no catalog is among them. run_date : None to read."""
    chosen = config.warehouses if isinstance(config, PlacesConfig) else WarehousesConfig()
    keep = config.output.keep or _KEEP
    warehouses: list[Warehouse] = []
    for kind in _CATALOGS:
        namespace = getattr(chosen, kind.kind)
        if namespace is not None and spark is not None:
            warehouses.append(kind(spark, namespace, keep, run_date))
    given = chosen.postgresql
    if given.url is not None:
        # Imported here, because its library is an extra.
        from dcrec_spark.publish.postgresql import PostgresqlWarehouse
        from dcrec_spark.publish.server import Server

        server = Server.open(given.url, given.user, given.password_file, "warehouses.postgresql")
        warehouses.append(PostgresqlWarehouse(spark, server, given.namespace, keep, run_date))
    warehouses += [_open_other(name, settings, spark, keep, run_date) for name, settings in chosen.other.items()]
    with ExitStack() as resources:
        for warehouse in warehouses:
            resources.callback(warehouse.close)
        yield warehouses


def _open_other(
    name: str, given: Mapping[str, Any], spark: SparkSession | None, keep: int, run_date: date | None
) -> Warehouse:
    """Open the sink of another package. Raises ConfigError: no package offers it, or it refuses its settings."""
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in offered:
        raise ConfigError(
            f"setting warehouses.other.{name}: no installed package offers this sink (entry point group {GROUP}); "
            f"found {', '.join(sorted(offered)) or 'none'}"
        )
    kind = offered[name].load()
    prefix = f"warehouses.other.{name}."
    try:
        settings = kind.Settings.model_validate(dict(given))
    except ValidationError as error:
        lines = [validation_message(one, {}, kind.Settings, prefix=prefix) for one in error.errors()]
        raise ConfigError("\n".join(lines)) from None
    warehouse: Warehouse = kind.open(settings, spark, keep, run_date)
    return warehouse


@contextmanager
def open_places(config: PlacesConfig) -> Iterator[Several]:
    """Open what the settings name. Spark starts only if a place needs it. Raises ConfigError: names the setting."""
    output = output_path(config)
    needs_spark = any(getattr(config.warehouses, kind.kind) is not None for kind in _CATALOGS) or not is_local(output)
    spark = build_session(config.run.name, config.spark.master, config.spark.conf) if needs_spark else None
    with _open_warehouses(config, spark, None) as warehouses:
        for warehouse in warehouses:
            warehouse.check()
        yield Several(spark, open_output(output, spark), warehouses)


def table_of_runs(held: Mapping[str, Sequence[StoredRun]]) -> RenderableType:
    """Show a row for each run and a column for each place: current, held, or nothing."""
    # A state may be long: it is broken into lines, and a run's name never is.
    table = Table(Column("run", no_wrap=True), Column("date", no_wrap=True), *held, box=None, padding=(0, 2, 0, 0))
    dates = {run.run_id: run.run_date for runs in held.values() for run in runs}
    for run_id in sorted(dates, reverse=True):
        in_places = [next((run for run in runs if run.run_id == run_id), None) for runs in held.values()]
        table.add_row(run_id, dates[run_id], *map(_state, in_places))
    damaged = {run.run_id: run.damage for runs in held.values() for run in runs if run.damage is not None}
    lines = [Text(f"{run_id} is damaged: {damage}") for run_id, damage in damaged.items()]
    return Group(table, *lines) if dates else Text("nothing is published")


def _state(run: StoredRun | None) -> str:
    if run is None:
        return ""
    if run.damage is not None:
        return "current, damaged" if run.current else "damaged"
    if not run.current:
        return "held"
    whole = set(run.current) == set(run.tables)
    return "current" if whole else f"current: {', '.join(run.current)}"
