"""What PostgreSQL's sink does about locks, readers, dead publishers and passwords."""

import threading
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConfigError, ConflictError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from tests.warehouse.tables import RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")
LOCK = "select pg_advisory_lock(hashtextextended('dcrec-spark {} publish', 0))"


@pytest.fixture
def warehouse(spark: SparkSession, postgresql: str, request: pytest.FixtureRequest) -> Iterator[PostgresqlWarehouse]:
    """A schema of the test's own; two seconds of patience, and two runs that are kept."""
    made = open_warehouse(spark, postgresql, f"s_{crc32(request.node.nodeid.encode())}")
    made.check()
    yield made
    made.close()


def open_warehouse(spark: SparkSession, url: str, namespace: str, lock_seconds: float = 2) -> PostgresqlWarehouse:
    return PostgresqlWarehouse(spark, Server.open(url, "publisher", None, "test"), namespace, 2, RUN_DATE, lock_seconds)


def tables_in(database: psycopg.Connection, schema: str) -> set[str]:
    rows = database.execute("select tablename from pg_tables where schemaname = %s", [schema]).fetchall()
    return {str(name).partition("__")[0] for (name,) in rows} - {"dcrec_runs", "dcrec_current"}


def test_a_lock_that_another_holds_ends_with_5_and_one_that_is_let_go_is_waited_for(
    warehouse: PostgresqlWarehouse, database: psycopg.Connection, spark: SparkSession
) -> None:
    staged = warehouse.stage("run", tables_of(spark, "run", names=NAMES), {})
    database.execute(LOCK.format(warehouse.namespace))
    with pytest.raises(ConflictError, match=r"holds locks in .* for.over 2 s") as refusal:
        warehouse.commit(staged, record("run"))
    assert refusal.value.exit_code == 5
    warehouse.session.lock_seconds = 60
    release = threading.Timer(2, database.execute, ["select pg_advisory_unlock_all()"])
    release.start()
    warehouse.commit(staged, record("run"))
    release.join()  # who has let go is still to hear that he has, when the commit is done
    assert warehouse.now("recommendations") == staged.token


def test_a_reader_inside_a_transaction_sees_tables_of_one_run_and_holds_the_publisher_up(
    warehouse: PostgresqlWarehouse, database: psycopg.Connection, spark: SparkSession
) -> None:
    publish(warehouse, "old", tables_of(spark, "old", names=NAMES), lambda _: record("old"))
    staged = warehouse.stage("new", tables_of(spark, "new", names=NAMES), {})
    select = "select distinct run_id from {}.{}"
    with database.transaction():
        first = database.execute(select.format(warehouse.namespace, NAMES[0])).fetchall()
        with pytest.raises(ConflictError, match="a reader holds locks"):
            warehouse.commit(staged, record("new"))
        assert database.execute(select.format(warehouse.namespace, NAMES[1])).fetchall() == first == [("old",)]
    warehouse.commit(staged, record("new"))
    assert database.execute(select.format(warehouse.namespace, NAMES[1])).fetchall() == [("new",)]


def test_what_a_dead_publisher_left_goes_and_what_a_living_one_stages_stays(
    warehouse: PostgresqlWarehouse, database: psycopg.Connection, spark: SparkSession, postgresql: str
) -> None:
    names = ("recommendations",)
    living = open_warehouse(spark, postgresql, warehouse.namespace)
    dead = open_warehouse(spark, postgresql, warehouse.namespace)
    staged = living.stage("living", tables_of(spark, "living", names=names), {})
    dead.stage("dead", tables_of(spark, "dead", names=names), {})
    dead.close()  # as the kernel does when a process is killed
    publish(warehouse, "next", tables_of(spark, "next", names=names), lambda _: record("next"))
    tokens = {token for (token,) in database.execute(f"select token from {warehouse.namespace}.dcrec_runs").fetchall()}
    assert tokens == {staged.token, warehouse.now("recommendations")}
    with pytest.raises(ConflictError, match="run living was not published"):
        living.commit(staged, record("living"))
    living.discard(staged)
    living.close()


def test_runs_beyond_those_to_keep_go_and_the_record_stays_with_each(
    warehouse: PostgresqlWarehouse, database: psycopg.Connection, spark: SparkSession
) -> None:
    for run_id in ("one", "two", "three", "four"):
        tables = tables_of(spark, run_id, 1, ("recommendations",))
        publish(warehouse, run_id, tables, lambda _: record("any"))
    assert [run.run_id for run in warehouse.runs()] == ["four", "three", "two"]  # the oldest goes with the next run
    query = f"select record->>'status', record->'loss' = 'null' from {warehouse.namespace}.dcrec_runs"
    assert set(database.execute(query).fetchall()) == {("published", True)}
    assert tables_in(database, warehouse.namespace) == {"recommendations"}


def test_a_rank_twice_and_a_foreign_table_are_refused(
    warehouse: PostgresqlWarehouse, database: psycopg.Connection, spark: SparkSession
) -> None:
    rows = tables_of(spark, "twice")["recommendations"]
    with pytest.raises(AuditError, match=r"recommendations: Key \(user_id, rank\)=\(.*\) is duplicated"):
        warehouse.stage("twice", {"recommendations": rows.union(rows)}, {})
    assert tables_in(database, warehouse.namespace) == set()
    database.execute(f"create table {warehouse.namespace}.recommendations (mine int)")
    staged = warehouse.stage("run", {"recommendations": rows}, {})
    with pytest.raises(ConfigError, match="recommendations is not a view with the columns of this run"):
        warehouse.commit(staged, record("run"))
    warehouse.discard(staged)
    assert tables_in(database, warehouse.namespace) == {"recommendations"}


def test_a_password_is_read_from_a_file_and_never_repeated(
    postgresql: str, spark: SparkSession, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    server = Server.open(postgresql, "publisher", str(secret), "warehouses.postgresql")
    with pytest.raises(ConfigError, match="password authentication failed") as refusal:
        server.connect("warehouses.postgresql.url")
    assert "hunter2" not in f"{refusal.value} {server!r}"
    wrong = PostgresqlWarehouse(spark, server, "any", 2, RUN_DATE, 1)
    with pytest.raises(Exception, match="could not be loaded") as failure:
        wrong._load("any", tables_of(spark, "run", 1)["runs"])
    assert str(failure.value) == (
        'warehouses.postgresql: any.any could not be loaded: FATAL: password authentication failed for user "publisher"'
    )
