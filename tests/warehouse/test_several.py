"""A directory and warehouses in one run: all or none, and readers who look all the time see whole tables only."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConflictError, DcrecError
from dcrec_spark.publish.content import Content
from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.parquet import ParquetSink
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.several import Several
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "runs")


class Places:
    def __init__(self, spark: SparkSession, output: Path, url: str, name: str) -> None:
        self.spark, self.output, self.name = spark, output, name
        server = Server.open(url, "publisher", None, "test")
        self.hive = HiveWarehouse(spark, name, 3, RUN_DATE)
        self.database = PostgresqlWarehouse(spark, server, name, 3, RUN_DATE, lock_seconds=5)
        self.sinks = Several(spark, ParquetSink.open(str(output), spark), [self.hive, self.database])
        for warehouse in self.sinks.warehouses:
            warehouse.check()

    def publish(self, run_id: str, users: int = len(IDS)) -> None:
        publish(self.sinks, run_id, tables_of(self.spark, run_id, users, NAMES), lambda _: record(run_id))

    def read_directory(self) -> set[str]:
        run = current_run(str(self.output))
        path = Path(run.directory.removeprefix("file://")) / "recommendations"
        return set(pq.read_table(path, partitioning=None)["run_id"].to_pylist())

    def read_database(self) -> set[str]:
        reader = self.database.server.connect("test")
        rows = reader.execute(f"select distinct run_id from {self.name}.recommendations").fetchall()
        reader.close()
        return {run_id for (run_id,) in rows}

    def read_hive(self) -> set[str]:
        return {row["run_id"] for row in self.spark.table(f"{self.name}.recommendations").collect()}

    def everywhere(self) -> list[set[str]]:
        return [self.read_directory(), self.read_hive(), self.read_database()]


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path, postgresql: str, request: pytest.FixtureRequest) -> Places:
    made = Places(spark, tmp_path / "out", postgresql, f"several_{crc32(request.node.nodeid.encode())}")
    made.publish("first")
    return made


def test_the_record_says_what_each_place_has_and_every_reader_at_any_time_a_whole_table(
    places: Places, database: psycopg.Connection
) -> None:
    stop, torn, looks = threading.Event(), list[str](), {"directory": 0, "database": 0}
    rows = {"first": 2 * len(IDS), "second": 6, "third": 2 * len(IDS)}

    def look(where: str, read: Callable[[], list[str]]) -> None:
        while not stop.is_set():
            found = read()
            looks[where] += 1
            if len(set(found)) != 1 or len(found) != rows[found[0]]:
                torn.append(f"{where}: {sorted(set(found))}, {len(found)} rows")

    def in_directory() -> list[str]:
        path = Path(current_run(str(places.output)).directory.removeprefix("file://")) / "recommendations"
        found: list[str] = pq.read_table(path, partitioning=None)["run_id"].to_pylist()
        return found

    def in_database() -> list[str]:
        return [
            run_id for (run_id,) in database.execute(f"select run_id from {places.name}.recommendations").fetchall()
        ]

    readers = [
        threading.Thread(target=look, args=("directory", in_directory)),
        threading.Thread(target=look, args=("database", in_database)),
    ]
    for reader in readers:
        reader.start()
    try:
        places.publish("second", users=3)
        places.publish("third")
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert torn == []
    assert min(looks.values()) > 20
    assert places.everywhere() == [{"third"}] * 3
    published = current_run(str(places.output)).record["warehouses"]
    assert published["postgresql"]["tables"] == {"recommendations": 2 * len(IDS), "runs": 1}
    assert places.hive.now("runs") in published["hive"]["where"]


def test_a_place_that_fails_takes_the_others_back(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise ConflictError("another was first")

    monkeypatch.setattr(PostgresqlWarehouse, "commit", refuse)
    with pytest.raises(ConflictError, match="another was first"):
        places.publish("second")
    monkeypatch.undo()
    assert places.everywhere() == [{"first"}] * 3
    damaged = ParquetSink.commit

    def damage(sink: ParquetSink, *given: object) -> str:
        where = damaged(sink, *given)  # type: ignore[arg-type]
        next(Path(where.removeprefix("file://"), "recommendations").glob("*.parquet")).write_bytes(b"gone")
        return where

    monkeypatch.setattr(ParquetSink, "commit", damage)
    with pytest.raises(DcrecError, match="found damaged, and withdrawn"):
        places.publish("third")
    assert places.everywhere() == [{"first"}] * 3


@pytest.mark.parametrize("when", ["before the second place", "after the second place"])
def test_a_signal_between_two_commits_takes_all_places_back(
    when: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SIGTERM and Ctrl-C come: the first place is committed, and the directory, the last one, is not."""
    commit = PostgresqlWarehouse.commit

    def stopped(warehouse: PostgresqlWarehouse, *given: Any) -> str:
        if when.startswith("after"):
            commit(warehouse, *given)
        raise KeyboardInterrupt("stopped by SIGTERM")

    monkeypatch.setattr(PostgresqlWarehouse, "commit", stopped)
    with pytest.raises(KeyboardInterrupt):
        places.publish("second", users=3)
    assert places.everywhere() == [{"first"}] * 3
    monkeypatch.undo()
    places.publish("third")
    assert places.everywhere() == [{"third"}] * 3


def test_a_warehouse_that_holds_something_else_than_was_sent_stops_all(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcrec_spark.publish.warehouse.content_of", lambda _: Content(7, "other"))
    with pytest.raises(
        AuditError, match=r"warehouses.hive: the staged tables differ .*recommendations \(7 rows, sent 16"
    ):
        places.publish("second")
    assert places.everywhere() == [{"first"}] * 3
    assert [path.name for path in places.output.iterdir() if path.name.startswith(".staging")] == []
