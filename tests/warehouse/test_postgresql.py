"""What PostgreSQL's sink does about locks, readers, dead publishers, passwords, and a server that goes away."""

import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.warehouse import StagedTables, new_token, staged_place
from dcrec_spark.storage.staging import Content
from tests.steps import at_first
from tests.warehouse.judges import Opened, Place, watching
from tests.warehouse.servers import Postgresql
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

LOCK = "select pg_advisory_lock(hashtextextended('dcrec-spark {} publish', 0))"
NAMES, LISTS = ("recommendations", "item_factors"), ("recommendations",)
ROWS = {"recommendations": 2 * len(IDS), "item_factors": 2}


@pytest.fixture
def place(opened: Opened) -> Place:
    """A schema of the test's own, with a run; two seconds of patience, and two runs that are kept."""
    made = opened("postgresql", keep=2)
    made.publish("old", names=NAMES)
    return made


def tables_in(database: psycopg.Connection, schema: str) -> set[str]:
    rows = database.execute("select tablename from pg_tables where schemaname = %s", [schema]).fetchall()
    return {str(name).partition("__")[0] for (name,) in rows} - {"dcrec_runs", "dcrec_current"}


def look(place: Place) -> frozenset[tuple[str, str, int]] | None:
    """What a reader finds in one transaction, table by table: its run and rows; None while the server is away."""
    try:
        with place.warehouse.server.connect("test") as reader, reader.transaction():
            reader.execute("set transaction isolation level repeatable read")
            query = f"select %s, run_id, count(*) from {place.namespace}.{{}} group by run_id"
            return frozenset(row for name in NAMES for row in reader.execute(query.format(name), [name]).fetchall())
    except (ConfigError, psycopg.OperationalError):
        time.sleep(0.05)
        return None


def whole(run_id: str) -> frozenset[tuple[str, str, int]]:
    return frozenset((table, run_id, rows) for table, rows in ROWS.items())


def test_a_lock_is_waited_for_and_ends_with_5(place: Place, database: psycopg.Connection) -> None:
    staged, warehouse = place.stage("run", names=NAMES), place.warehouse
    database.execute(LOCK.format(place.namespace))
    with pytest.raises(ConflictError, match=r"holds locks in .* for.over 2 s") as refusal:
        warehouse.commit(staged, record("run"))
    assert refusal.value.exit_code == 5
    warehouse.session.lock_seconds = 60
    release = threading.Timer(2, database.execute, ["select pg_advisory_unlock_all()"])
    release.start()
    warehouse.commit(staged, record("run"))
    release.join()
    assert warehouse.now("recommendations") == staged.token


def test_a_reader_in_a_transaction_sees_one_run(place: Place, database: psycopg.Connection) -> None:
    staged = place.stage("new", names=NAMES)
    with database.transaction():
        assert set(place.judge(NAMES[0])["run_id"]) == {"old"}
        with pytest.raises(ConflictError, match="a reader holds locks"):
            place.warehouse.commit(staged, record("new"))
        assert set(place.judge(NAMES[1])["run_id"]) == {"old"}
    place.warehouse.commit(staged, record("new"))
    assert look(place) == whole("new")


def test_leftovers_of_the_dead_go_and_of_the_living_stay(
    place: Place, opened: Opened, database: psycopg.Connection
) -> None:
    living, dead = opened("postgresql", place.namespace), opened("postgresql", place.namespace)
    staged = living.stage("living", names=LISTS)
    dead.stage("dead", names=LISTS)
    dead.warehouse.close()  # as the kernel does when a process is killed
    place.publish("next", names=LISTS)
    held = {run_id for (run_id,) in database.execute(f"select run_id from {place.namespace}.dcrec_runs").fetchall()}
    assert held == {"old", "living", "next"}
    with pytest.raises(ConflictError, match="run living was not published"):
        living.warehouse.commit(staged, record("living"))
    living.warehouse.discard(staged)


def test_a_run_that_somebody_reads_stays_until_it_is_read(place: Place, database: psycopg.Connection) -> None:
    held = f"{place.namespace}.recommendations__{place.warehouse.now('recommendations')}"
    place.publish("two", names=NAMES)
    with database.transaction():
        assert database.execute(f"select distinct run_id from {held}").fetchall() == [("old",)]
        for run_id in ("three", "four"):
            place.publish(run_id, names=NAMES)
        assert database.execute(f"select distinct run_id from {held}").fetchall() == [("old",)]
    place.publish("five", names=NAMES)
    assert database.execute("select to_regclass(%s)", [held]).fetchone() == (None,)


def publish_by_hand(warehouse: PostgresqlWarehouse, run_id: str) -> None:
    warehouse.prune("lists")
    staged = StagedTables(run_id, new_token(), {"lists": warehouse.now("lists")})
    rows = f'{warehouse.namespace}."{staged_place("lists", staged.token)}"'
    with warehouse.session.transaction() as connection:
        warehouse.session.hold(connection, staged.token)
        known = f"{warehouse.namespace}.dcrec_runs (token, run_id, run_date, tables)"
        connection.execute(f"insert into {known} values (%s, %s, %s, %s)", [staged.token, run_id, RUN_DATE, ["lists"]])
        connection.execute(f"create table {rows} as select '{run_id}' as run_id from generate_series(1, 3)")
    staged.places["lists"], staged.contents["lists"] = staged.token, Content(3, None)
    try:
        warehouse.commit(staged, record(run_id))
    except ConflictError:
        warehouse.discard(staged)
        raise
    warehouse.verify(staged)


def test_readers_find_whole_runs_while_rollbacks_race_retentions(opened: Opened, database: psycopg.Connection) -> None:
    """One publishes and removes, one goes back to the oldest run that it finds, until the first one has ended."""
    ours, other = opened("postgresql", keep=2, lock_seconds=60), opened("postgresql", keep=2, lock_seconds=60)
    publish_by_hand(ours.warehouse, "run-000")
    ended, back = threading.Event(), Counter[str]()

    def go_back() -> None:
        while not ended.is_set():
            run_id = min(run.run_id for run in other.warehouse.runs())
            try:
                other.warehouse.restore(run_id)
                back["done"] += 1
            except (DataError, ConflictError):
                back["lost"] += 1

    def look_at_lists() -> tuple[int, int]:
        rows = database.execute(f"select run_id from {ours.namespace}.lists").fetchall()
        return len(rows), len(set(rows))

    thread = threading.Thread(target=go_back)
    with watching(look_at_lists) as (seen,):
        thread.start()
        try:
            for number in range(1, 200):
                with suppress(ConflictError):
                    publish_by_hand(ours.warehouse, f"run-{number:03}")
        finally:
            ended.set()
            thread.join()
    assert seen.keys() == {(3, 1)}
    assert seen.total() > 200
    assert back["done"] > 20


def test_a_rank_twice_and_foreign_tables_are_refused(opened: Opened, database: psycopg.Connection) -> None:
    place = opened("postgresql")
    rows = place.tables("twice")["recommendations"]
    with pytest.raises(AuditError, match=r"recommendations: Key \(user_id, rank\)=\(.*\) is duplicated"):
        place.warehouse.stage("twice", {"recommendations": rows.union(rows)}, {})
    assert tables_in(database, place.namespace) == set()
    database.execute(f"create table {place.namespace}.recommendations (mine int)")
    staged = place.stage("run", names=LISTS)
    with pytest.raises(ConfigError, match="recommendations is not a view with the columns of this run"):
        place.warehouse.commit(staged, record("run"))
    place.warehouse.discard(staged)
    assert tables_in(database, place.namespace) == {"recommendations"}


@pytest.mark.parametrize(
    ("step", "after"),
    [("_load", False), ("_load", True), ("_commit", False), ("_show", True), ("_commit", True), ("_differing", False)],
)
def test_a_server_that_restarts_costs_the_step_and_not_the_run(
    step: str, after: bool, place: Place, postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows are loaded, between the steps, inside the commit's transaction, and as its answer is on its way."""

    def fall() -> None:
        postgresql.fall_for(1.0, signal.SIGQUIT)
        if (step, after) == ("_commit", True):  # the transaction is through, and its answer gets lost
            raise psycopg.OperationalError("the connection is lost")

    place.warehouse.session.lock_seconds = 60
    fallen = at_first(monkeypatch, place.warehouse, step, fall, after)
    with watching(lambda: look(place)) as (seen,):
        place.publish("new", names=NAMES)
    assert fallen == [step]
    assert seen.keys() <= {whole("old"), whole("new"), None}
    assert seen[whole("old")] > 2
    assert look(place) == whole("new")
    assert {run.run_id for run in place.warehouse.runs()} == {"new", "old"}
    place.publish("next", names=NAMES)  # which clears up what the lost attempts have left
    query = f"select count(*) from {place.namespace}.dcrec_runs"
    assert place.warehouse.session.connection().execute(query).fetchone() == (3,)


@pytest.mark.parametrize("step", ["_load", "_commit"])
def test_a_server_that_stays_away_is_named_and_has_the_tables_of_before_when_it_is_back(
    step: str, place: Place, postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_first(monkeypatch, place.warehouse, step, lambda: postgresql.stop(signal.SIGQUIT))
    place.warehouse.session.lock_seconds = 1
    try:
        with pytest.raises(DcrecError, match=r"warehouses\.postgresql: the connection to .* broke, and .* after 1 s"):
            place.publish("new", names=NAMES)
    finally:
        postgresql.start()
    assert look(place) == whole("old")


def test_the_new_connection_holds_what_the_broken_one_held(
    place: Place, opened: Opened, postgresql: Postgresql
) -> None:
    session, staged = place.warehouse.session, place.stage("new", names=LISTS)
    postgresql.stop(signal.SIGQUIT)
    postgresql.start()
    session.through_restarts(lambda: session.connection().execute("select 1"))
    other = opened("postgresql", place.namespace).warehouse.session
    assert other.has_holder(other.connection(), staged.token)
    place.warehouse.discard(staged)


def test_what_another_publisher_removed_while_the_server_was_away_is_not_committed(place: Place) -> None:
    staged = place.stage("new", names=NAMES)
    query = f"delete from {place.namespace}.dcrec_runs where token = %s"
    place.warehouse.session.connection().execute(query, [staged.token])
    with pytest.raises(ConflictError, match="another publisher removed what was staged"):
        place.warehouse.commit(staged, record("new"))
    assert look(place) == whole("old")


def test_a_password_of_a_file_is_never_repeated(postgresql: Postgresql, spark: SparkSession, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    server = Server.open(postgresql.url, "publisher", str(secret), "warehouses.postgresql")
    with pytest.raises(ConfigError, match="password authentication failed") as refusal:
        server.connect("warehouses.postgresql.url")
    assert "hunter2" not in f"{refusal.value} {server!r}"
    wrong = PostgresqlWarehouse(spark, server, "any", 2, RUN_DATE, 1)
    message = 'warehouses.postgresql: any.any could not be loaded: FATAL: password .* for user "publisher"$'
    with pytest.raises(DcrecError, match=message):
        wrong._load("any", tables_of(spark, "run", 1)["runs"])
