"""What every test may ask for: one small local Spark, and the folder with the public data sets."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from dcrec_spark.config import forget_secrets
from dcrec_spark.spark.session import build_session
from tests.markers import may_hold
from tests.promises import Noting

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run, and no limit on the first, slow one.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what notes how often each fault was tried."""
    parser.addoption("--promises", type=Path, metavar="FILE", help="note there how often each fault was tried")


def pytest_configure(config: pytest.Config) -> None:
    """Note it, where that is asked for."""
    file = config.getoption("--promises")
    if file is not None:
        config.pluginmanager.register(Noting(file), "promises")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what holds none of the tests that are asked for."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and not may_hold(collection_path, str(config.getoption("markexpr"))) else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, small shuffles, and a checkpoint directory that goes away with the run."""
    scratch = tmp_path_factory.mktemp("spark")
    session = build_session(
        "dcrec-spark tests",
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.ui.enabled": "false",
            "spark.default.parallelism": "2",
            "spark.driver.memory": "2g",
            # Every plan runs once or twice here: to compile it, twice over, takes longer. The tests in processes of
            # their own, and those on clusters, run as users do.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # As in the Makefile; code of the quick compiler takes deeper stacks, and lineages are read by recursion.
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            # Workers find the tests' own functions, installed or not.
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.python.daemon.module": "tests.worker_daemon",
        },
    )
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
    """No test leaves the session planning in another way: which test comes next is chance."""
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
    """The data sets, which are not part of the repository: beside it, or where DCREC_DATA says."""
    folder = Path(os.environ.get("DCREC_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}; DCREC_DATA may name another folder")
    return folder


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """What one test took from the environment is no secret of the next."""
    yield
    forget_secrets()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clusters first: they are few and slow, and would keep one process waiting for the other at the end."""
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)
