"""Services that read the published lists all the time, each by a library that has nothing to do with the sinks."""

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from dcrec_spark.errors import DataError
from dcrec_spark.publish.current import current_run

PAUSE_SECONDS = 0.5
Rows = list[tuple[str, str, int, int]]  # run_id, user_id, item_id, rank: as text or as numbers, all the same


class Look(NamedTuple):
    """What one look found: the runs that the rows name, how many rows, and a hash of the lists."""

    run_ids: frozenset[str]
    rows: int
    lists: str


class Reader(threading.Thread):
    """Looks at one place until it is told to stop; ``nothing`` counts the looks before there was a table."""

    def __init__(self, place: str, read: Callable[[], Rows | None]) -> None:
        super().__init__(daemon=True, name=f"reader of {place}")
        self.place, self.read = place, read
        self.looks: list[Look] = []
        self.nothing = 0
        self._stop_asked = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            rows = self.read()
            if rows or self.looks:
                self.looks.append(look_of(rows or []))
            else:
                self.nothing += 1
            time.sleep(PAUSE_SECONDS)

    def stop(self) -> None:
        self._stop_asked.set()
        self.join(timeout=60)


def look_of(rows: Rows) -> Look:
    """Sum a table up; the hash is that of its lists, whatever run they are of."""
    lists = sorted((str(user), str(item), int(rank)) for _, user, item, rank in rows)
    return Look(frozenset(row[0] for row in rows), len(rows), hashlib.sha256(repr(lists).encode()).hexdigest()[:16])


def read_directory(output: Path) -> Rows | None:
    try:
        directory = Path(current_run(str(output)).directory.removeprefix("file://"))
    except DataError:
        return None
    return rows_of(pq.read_table(directory / "recommendations", partitioning=None))


def read_iceberg(scratch: Path, table: str) -> Rows | None:
    catalog = SqlCatalog("sea", uri=f"sqlite:///{scratch}/sea.sqlite?timeout=60", warehouse=f"{scratch}/sea")
    try:
        return rows_of(catalog.load_table(table).scan().to_arrow())
    except NoSuchTableError:
        return None
    finally:
        catalog.engine.dispose()


def read_postgresql(connection: psycopg.Connection, table: str) -> Rows | None:
    try:
        return connection.execute(f"select run_id, user_id, item_id, rank from {table}").fetchall()  # type: ignore[return-value]
    except psycopg.errors.UndefinedTable:
        return None


def rows_of(table: pa.Table) -> Rows:
    columns = [table[name].to_pylist() for name in ("run_id", "user_id", "item_id", "rank")]
    return list(zip(*columns, strict=True))
