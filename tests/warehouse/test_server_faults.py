"""A PostgreSQL server that goes away in the middle of a run, and comes back or does not; readers look all the time."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DcrecError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from tests.warehouse.database import Postgresql, running_server
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")
ROWS = {"recommendations": 2 * len(IDS), "item_factors": 2}
AWAY_SECONDS = 1.0


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Postgresql]:
    with running_server(scratch) as running:
        yield running


@pytest.fixture
def warehouse(
    spark: SparkSession, server: Postgresql, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresqlWarehouse]:
    monkeypatch.setenv("PGPASSWORD", server.password)
    connection = Server.open(server.url, "publisher", None, "test")
    namespace = f"s_{crc32(request.node.nodeid.encode())}"
    made = PostgresqlWarehouse(spark, connection, namespace, 2, RUN_DATE, lock_seconds=60)
    made.check()
    send(made, "old")
    yield made
    made.close()


def send(warehouse: PostgresqlWarehouse, run_id: str) -> None:
    assert warehouse.spark is not None
    publish(warehouse, run_id, tables_of(warehouse.spark, run_id, names=NAMES), lambda _: record(run_id))


def restart(server: Postgresql) -> None:
    server.stop(signal.SIGQUIT)
    threading.Timer(AWAY_SECONDS, server.start).start()


def look(warehouse: PostgresqlWarehouse) -> dict[str, tuple[str, int]]:
    """What a reader finds in one transaction: table -> run and number of rows."""
    reader = warehouse.server.connect("test")
    with reader, reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        found = {}
        for table in NAMES:
            query = f"select min(run_id), max(run_id), count(*) from {warehouse.namespace}.{table}"
            first, last, rows = reader.execute(query).fetchone() or (None, None, 0)
            assert first == last
            found[table] = (str(first), int(rows))
        return found


def whole(run_id: str) -> dict[str, tuple[str, int]]:
    return {table: (run_id, rows) for table, rows in ROWS.items()}


@contextmanager
def readers(warehouse: PostgresqlWarehouse) -> Iterator[list[Any]]:
    """Look all the time; what was found that is neither the old run nor the new one."""
    stop, torn, looks = threading.Event(), list[Any](), list[None]()

    def keep_looking() -> None:
        while not stop.is_set():
            try:
                found = look(warehouse)
            except (ConfigError, psycopg.OperationalError):
                time.sleep(0.05)  # the server is away
                continue
            looks.append(None)
            if found not in (whole("old"), whole("new")):
                torn.append(found)

    reader = threading.Thread(target=keep_looking)
    reader.start()
    try:
        yield torn
    finally:
        stop.set()
        reader.join()
    assert len(looks) > 2


def fall_at(
    step: str, when: str, warehouse: PostgresqlWarehouse, server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Have the server fall before or after the first call of a step; the list fills when it has."""
    make, fallen = getattr(warehouse, step), list[str]()

    def made(*given: Any) -> Any:
        if fallen:
            return make(*given)
        fallen.append(step)
        if when == "before":
            restart(server)
            return make(*given)
        result = make(*given)
        restart(server)
        if step == "_commit":  # the transaction is through, and its answer gets lost
            raise psycopg.OperationalError("the connection is lost")
        return result

    monkeypatch.setattr(warehouse, step, made)
    return fallen


@pytest.mark.parametrize(
    ("step", "when"),
    [
        ("_load", "before"),
        ("_load", "after"),
        ("_commit", "before"),
        ("_show", "after"),
        ("_commit", "after"),
        ("_differing", "before"),
    ],
)
def test_a_server_that_restarts_costs_the_step_and_not_the_run(
    step: str, when: str, warehouse: PostgresqlWarehouse, server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows are loaded, between the steps, inside the commit's transaction, and as its answer is on its way."""
    fallen = fall_at(step, when, warehouse, server, monkeypatch)
    with readers(warehouse) as torn:
        send(warehouse, "new")
    assert fallen == [step]
    assert torn == []
    assert look(warehouse) == whole("new")
    assert [run.run_id for run in warehouse.kept()] == ["new", "old"]
    monkeypatch.undo()
    monkeypatch.setenv("PGPASSWORD", server.password)
    send(warehouse, "next")  # which clears up what the lost attempts have left
    query = f"select count(*) from {warehouse.namespace}.dcrec_runs"
    assert warehouse.session.connection().execute(query).fetchone() == (3,)


@pytest.mark.parametrize("step", ["_load", "_commit"])
def test_a_server_that_stays_away_is_named_and_has_the_tables_of_before_when_it_is_back(
    step: str, warehouse: PostgresqlWarehouse, server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = getattr(warehouse, step)

    def stopped(*given: Any) -> Any:
        if server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        return make(*given)

    monkeypatch.setattr(warehouse, step, stopped)
    warehouse.session.lock_seconds = 1
    try:
        with pytest.raises(DcrecError, match=r"warehouses\.postgresql: the connection to .* broke, and .* after 1 s"):
            send(warehouse, "new")
    finally:
        server.start()
    assert look(warehouse) == whole("old")


def test_what_another_publisher_removed_while_the_server_was_away_is_not_committed(
    warehouse: PostgresqlWarehouse, server: Postgresql, spark: SparkSession
) -> None:
    staged = warehouse.stage("new", tables_of(spark, "new", names=NAMES), {})
    query = f"delete from {warehouse.namespace}.dcrec_runs where token = %s"
    warehouse.session.connection().execute(query, [staged.token])
    with pytest.raises(ConflictError, match="another publisher removed what was staged"):
        warehouse.commit(staged, record("new"))
    assert look(warehouse) == whole("old")
