"""One Spark session with every catalog, and one PostgreSQL server, for all tests of warehouses."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.server import Server
from dcrec_spark.spark.session import build_session
from tests.warehouse.database import running_postgresql
from tests.warehouse.key_values import RunningRedis, running_redis
from tests.warehouse.objects import CREDENTIALS, ObjectStore, running_object_store
from tests.warehouse.places import session_settings
from tests.warehouse.rest_catalog import RestCatalog, running_rest_catalog

LONGEST = ("test_stores.py", "test_jobs.py", "test_warehouses.py", "test_object_store.py")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Collect for -m warehouse alone: other runs may lack the packages that the tests import."""
    return None if config.getoption("markexpr") == "warehouse" else True


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouses")


# Before any test: jobs that run in this process would else start a Java that knows neither archives nor credentials.
@pytest.fixture(scope="session", autouse=True)
def spark(scratch: Path) -> Iterator[SparkSession]:
    os.environ |= CREDENTIALS
    session = build_session("dcrec-spark warehouses", master="local[2]", conf=session_settings(scratch))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def store(scratch: Path, spark: SparkSession) -> Iterator[ObjectStore]:
    with running_object_store(scratch) as running:
        for name, value in running.settings().items():
            spark.conf.set(name, value)
        yield running


@pytest.fixture(scope="session")
def rest_catalog(scratch: Path, spark: SparkSession) -> Iterator[RestCatalog]:
    with running_rest_catalog(scratch / "rest") as running:
        for name, value in running.settings().items():
            spark.conf.set(name, value)
        yield running


@pytest.fixture(scope="session")
def postgresql(scratch: Path) -> Iterator[str]:
    """JDBC address of a PostgreSQL server on loopback; its user's password is in PGPASSWORD."""
    with running_postgresql(scratch) as (url, password):
        os.environ["PGPASSWORD"] = password
        yield url
        del os.environ["PGPASSWORD"]


@pytest.fixture(scope="session")
def redis_server(scratch: Path) -> Iterator[RunningRedis]:
    """A Redis server on loopback; its password is in REDISCLI_AUTH."""
    with running_redis(scratch / "redis") as server:
        os.environ["REDISCLI_AUTH"] = server.password
        yield server
        del os.environ["REDISCLI_AUTH"]


@pytest.fixture
def database(postgresql: str) -> Iterator[psycopg.Connection]:
    """A reader of the database who has nothing to do with the sink."""
    connection = Server.open(postgresql, "publisher", None, "test").connect("test")
    yield connection
    connection.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes first: one of them at the end would keep one process waiting for the other."""
    first = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path.name, len(first)))
