"""Readers that have nothing to do with the sinks: what does somebody else find in a warehouse?"""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psycopg
import pyarrow.parquet as pq
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from tests.warehouse.key_values import RunningRedis

Judge = Callable[[str], pd.DataFrame]


def hive_judge(scratch: Path, namespace: str, place_of: Callable[[str], str | None]) -> Judge:
    """The files of the table that the view names, by PyArrow."""
    home = scratch / "spark-warehouse" / f"{namespace}.db"
    return lambda table: pq.read_table(home / str(place_of(table))).to_pandas()


def delta_judge(scratch: Path, namespace: str) -> Judge:
    """The log and its files, by delta-rs."""
    home = scratch / "spark-warehouse" / f"{namespace}.db"
    return lambda table: DeltaTable(str(home / table)).to_pyarrow_table().to_pandas()


def hadoop_judge(scratch: Path, namespace: str) -> Judge:
    """The newest metadata file, by PyIceberg."""

    def read(table: str) -> pd.DataFrame:
        metadata = scratch / "lake" / namespace / table / "metadata"
        version = (metadata / "version-hint.text").read_text().strip()
        found: pd.DataFrame = StaticTable.from_metadata(f"{metadata}/v{version}.metadata.json").scan().to_pandas()
        return found

    return read


def jdbc_judge(scratch: Path, namespace: str) -> Judge:
    """The catalog in SQLite, by PyIceberg."""
    catalog = SqlCatalog("sea", uri=f"sqlite:///{scratch}/sea.sqlite", warehouse=f"{scratch}/sea")
    return lambda table: catalog.load_table(f"{namespace}.{table}").scan().to_pandas()


def rest_judge(uri: str, namespace: str, **properties: str) -> Judge:
    """The catalog behind HTTP, by PyIceberg's own client."""
    catalog = RestCatalog("rest", uri=uri, **properties)
    return lambda table: catalog.load_table(f"{namespace}.{table}").scan().to_pandas()


def postgresql_judge(database: psycopg.Connection, namespace: str) -> Judge:
    """The view, by psycopg."""

    def read(table: str) -> pd.DataFrame:
        with database.cursor(row_factory=dict_row) as cursor:
            return pd.DataFrame(cursor.execute(f'select * from "{namespace}"."{table}"').fetchall())

    return read


def redis_judge(server: RunningRedis, namespace: str) -> Judge:
    """The hash that the pointer names, by a client of its own."""
    ids = {"recommendations": "user_id", "item_factors": "id"}

    def read(table: str) -> pd.DataFrame:
        with server.reader() as client:
            token = client.hget(f"{namespace}:current", table)
            fields = client.hgetall(f"{namespace}:{token}:{table}")
        rows = [{ids[table]: key, **row} for key, rows in fields.items() for row in json.loads(rows)]
        found = pd.DataFrame(rows)
        if table == "item_factors":
            return found.astype({"id": "int64", "bias": "float64"})
        return found.assign(run_date=pd.to_datetime(found["run_date"]).dt.date)

    return read
