"""A connection that breaks is made anew, with the locks that it held, or the server is named that stays away."""

from contextlib import nullcontext
from typing import Any, cast

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import DcrecError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.server import Server, Session


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


def test_a_server_that_stays_away_is_named_even_where_nothing_is_held() -> None:
    server = Away(times=1)
    one = session(server)

    def step() -> None:
        with one.transaction() as connection:
            connection.broken = True
            connection.execute("select 1")

    with pytest.raises(DcrecError, match=r"broke, and the server was not back after 0\.5 s"):
        one.through_restarts(step)


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
