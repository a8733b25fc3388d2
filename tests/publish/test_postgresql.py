"""Addresses of PostgreSQL servers, their passwords, and connections that break and are made anew."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, DcrecError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.server import Server, Session

URL = "jdbc:postgresql://[::1]:5432/shop?sslmode=require"


@pytest.mark.parametrize(
    "url",
    ["postgresql://h/db", "jdbc:postgresql://bob:hunter2@h/db", f"{URL}&password=hunter2", "jdbc:mysql://h/hunter2"],
)
def test_an_address_of_another_form_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match=r"warehouses\.postgresql\.url: expected jdbc:postgresql://") as refusal:
        Server.open(url, None, None, "warehouses.postgresql")
    assert "hunter2" not in str(refusal.value)


def test_executors_and_driver_get_the_same_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("first line\nsecond\n")
    monkeypatch.setenv("PGPASSWORD", "from outside")
    server = Server.open(URL, "bob", str(file), "w")
    assert server.jdbc() == {"url": URL, "user": "bob", "password": "first line", "driver": "org.postgresql.Driver"}
    assert "first line" not in repr(server)
    assert server.without_secret("it is first line.") == "it is ***."
    assert Server.open(URL, None, None, "w").jdbc()["password"] == "from outside"
    monkeypatch.delenv("PGPASSWORD")
    assert Server.open(URL, None, None, "w").jdbc().keys() == {"url", "driver"}
    for content, message in (("\nx", "the first line of .* is empty"), (None, "cannot be read")):
        file.write_text(content) if content else file.unlink()
        with pytest.raises(ConfigError, match=rf"setting w\.password_file: .*{message}"):
            Server.open(URL, None, str(file), "w")


class Connection:
    """Notes what it is asked to do; a broken one fails."""

    def __init__(self) -> None:
        self.broken, self.asked = False, list[str]()

    def execute(self, query: str, values: list[str] | None = None) -> None:
        if self.broken:
            raise psycopg.OperationalError("the connection is lost")
        self.asked.append(f"{query.split('(')[0]} {values[-1] if values else ''}".strip())

    def transaction(self) -> Any:
        return nullcontext()

    def close(self) -> None:
        self.broken = True


class Away:
    """A server that is there for so many connections."""

    url = "jdbc:postgresql://nowhere/db"

    def __init__(self, times: int) -> None:
        self.times, self.made = times, list[Connection]()

    def connect(self, setting: str) -> Connection:
        if len(self.made) == self.times:
            raise psycopg.OperationalError("nobody listens")
        self.made.append(Connection())
        return self.made[-1]

    def without_secret(self, text: str) -> str:
        return text


def session(server: Away) -> Session:
    return Session(cast(Server, server), "tables", "warehouses.postgresql", lock_seconds=0.5)


def test_the_new_connection_holds_what_the_broken_one_held() -> None:
    server = Away(times=2)
    one, broken = session(server), list[bool]()

    def step() -> str:
        with one.transaction() as connection:
            one.hold(connection, "mine")
            if not broken:
                broken.append(True)
                connection.broken = True
                connection.execute("select 1")
        return "done"

    assert one.through_restarts(step) == "done"
    lock = "select pg_advisory_lock dcrec-spark tables mine"
    assert [connection.asked for connection in server.made] == [[lock], [lock]]


def test_what_the_executors_driver_says_is_one_line(spark: SparkSession) -> None:
    """Here that it is not there; no stack trace of the JVM's."""
    warehouse = PostgresqlWarehouse(spark, Server("jdbc:postgresql://nowhere/db", None, None), "shop", 2, None, 1)
    with pytest.raises(DcrecError) as caught:
        warehouse._load("lists__1", spark.range(2))
    assert str(caught.value) == "warehouses.postgresql: shop.lists__1 could not be loaded: org.postgresql.Driver"


def test_a_server_that_stays_away_is_named_even_where_nothing_is_held() -> None:
    server = Away(times=1)
    one = session(server)

    def step() -> None:
        with one.transaction() as connection:
            connection.broken = True
            connection.execute("select 1")

    with pytest.raises(DcrecError, match=r"broke, and the server was not back after 0\.5 s"):
        one.through_restarts(step)
