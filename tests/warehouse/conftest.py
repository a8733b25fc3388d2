"""One Spark session with every catalog, and one server of each kind, for all tests of warehouses."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from zlib import crc32

import psycopg
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.spark.session import build_session
from tests.warehouse.judges import Opened, Place, open_place
from tests.warehouse.objects import CREDENTIALS, ObjectStore, reached
from tests.warehouse.servers import Hdfs, Postgresql, RunningCatalog, RunningRedis, session_settings

LONGEST = ("test_jobs.py", "test_warehouses.py", "test_object_store.py")


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
    with reached(ObjectStore(scratch / "object-store"), spark) as running:
        yield running


@pytest.fixture(scope="session")
def hdfs(scratch: Path) -> Iterator[Hdfs]:
    with Hdfs(scratch / "hdfs") as running:
        yield running


@pytest.fixture(scope="session")
def rest_catalog(scratch: Path, spark: SparkSession) -> Iterator[RunningCatalog]:
    with RunningCatalog(scratch / "rest") as running:
        settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": running.uri}
        for name, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.rest{name}", value)
        yield running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """A server on loopback; its user's password is in PGPASSWORD."""
    with Postgresql() as server:
        os.environ["PGPASSWORD"] = server.password
        yield server
        del os.environ["PGPASSWORD"]


@pytest.fixture(scope="session")
def redis_server(scratch: Path) -> Iterator[RunningRedis]:
    """A server on loopback; its password is in REDISCLI_AUTH."""
    with RunningRedis(scratch / "redis") as server:
        os.environ["REDISCLI_AUTH"] = server.password
        yield server
        del os.environ["REDISCLI_AUTH"]


@pytest.fixture
def database(postgresql: Postgresql) -> Iterator[psycopg.Connection]:
    """A reader of the database who has nothing to do with the sink."""
    connection = postgresql.reader()
    yield connection
    connection.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest, spark: SparkSession, scratch: Path) -> Iterator[Opened]:
    with ExitStack() as ended:

        def open_one(kind: str, namespace: str = "", **settings: float) -> Place:
            name = namespace or f"shop_{crc32(request.node.nodeid.encode())}"
            place = open_place(kind, name, spark, scratch, request.getfixturevalue, **settings)
            ended.callback(place.warehouse.close)
            place.warehouse.check()
            return place

        yield open_one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes first: one of them at the end would keep one process waiting for the other."""
    first = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path.name, len(first)))
