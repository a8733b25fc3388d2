"""Fixtures of all tests: one small local Spark session, and the folder with the public data sets."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from dcrec_spark.config.secrets import forget_secrets
from dcrec_spark.spark.compat import is_classic
from dcrec_spark.spark.session import build_session
from tests.promises import Recorder
from tests.spark.standalone import QUICK_PLANS, ROOT

# The same examples on every run, and no limit on the first, slow one.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--promises", type=Path, metavar="FILE", help="record results by test there")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--promises")
    if file is not None:
        config.pluginmanager.register(Recorder(file), "promises")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave warehouses out unless -m warehouse asks for them: other runs may lack the packages that they import."""
    is_left_out = collection_path == ROOT / "tests" / "warehouse" and config.getoption("markexpr") != "warehouse"
    return True if is_left_out else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, small shuffles, and a checkpoint directory that goes away with the run.

    With SPARK_REMOTE=local[2] in the environment it is a session of Spark Connect, to a server on loopback.
    """
    scratch = tmp_path_factory.mktemp("spark")
    session = build_session(
        "dcrec-spark tests",
        master="local[2]",
        conf={
            **QUICK_PLANS,
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            # Workers find the tests' own functions, installed or not.
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.python.daemon.module": "tests.worker_daemon",
        },
    )
    if is_classic(session):
        session.sparkContext.setCheckpointDir(str(scratch / "checkpoints"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the plans of a plain one: adaptive, and 200 partitions a shuffle."""
    settings = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.fixture(autouse=True)
def plans_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that no test leaves the session with other settings: the order of tests is random."""
    if "spark" not in request.fixturenames:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    names = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    before = [session.conf.get(name) for name in names]
    yield
    if SparkSession.getActiveSession() is not None:  # the test has not ended it
        assert [session.conf.get(name) for name in names] == before


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The data sets, which are not part of the repository: next to it, or where DCREC_DATA says."""
    folder = Path(os.environ.get("DCREC_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}; DCREC_DATA may name another folder")
    return folder


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    yield
    forget_secrets()
