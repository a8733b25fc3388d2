"""Sessions of Spark Connect say what classic ones do, in one process and over blocks. A server on loopback each.

Their clients need grpcio-status, of the extra warehouse-test. All in one file: two servers can't share a port.
"""

import json
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest

from dcrec_spark.spark.compat import series_of
from tests.spark.fits import MODELS, run_python
from tests.spark.standalone import ROOT, finished, plain_environment
from tests.spark.test_versions import HAS_ICEBERG, publish_on_executors

pytestmark = pytest.mark.skipif(
    series_of(pyspark.__version__) == "3.5", reason="its server is an archive of its own, and has no Arrow tables"
)

CONNECT = {"SPARK_REMOTE": "local[2]"}
# With workers that run another Python; then a fit over two executors; then the same, and one of them dies.
CLUSTER = """
import json, os, signal, sys, time
from contextlib import suppress
from urllib.request import urlopen
from dcrec_spark import DeconfoundedMF, PoissonFactorization, build_session
from dcrec_spark.errors import ConfigError

spark = build_session(master="local-cluster[2,1,1024]", conf={"spark.sql.shuffle.partitions": "2"})
ratings = spark.createDataFrame(
    [(f"user {u}", i, float((u * i) % 5 + 1)) for u in range(60) for i in range(40) if (u + i) % 3],
    "user string, item long, rating double",
)
told = {"killed": [], "stored": []}

def executors():
    pid = "java_method('java.lang.ProcessHandle', 'current') AS pid"
    return {int(row.pid) for row in spark.range(8, numPartitions=8).selectExpr(pid).collect()}

def stored():
    application = spark.conf.get("spark.app.id")
    for port in range(4040, 4060):
        with suppress(OSError):
            with urlopen(f"http://localhost:{port}/api/v1/applications/{application}/storage/rdd") as answer:
                return len(json.load(answer))

def kill(stage, sweep, objective):
    if (stage, sweep) == ("outcome", 3):
        before = executors()
        os.kill(min(before), signal.SIGKILL)
        while len(now := executors()) < 2 or now == before:
            time.sleep(0.2)
        told["killed"] = sorted(before - now)

def count(stage, sweep, objective):
    if stage == "outcome" and sweep in (5, 11):
        before = None
        while before != (now := stored()):  # the server deletes on its way
            before = now
            time.sleep(1)
        told["stored"].append(now)

def fit(listener):
    where = {"exchange": "blocks", "rank": 2, "seed": 1, "numBlocks": 2, "checkpointInterval": 2, "tol": 0.0}
    model = DeconfoundedMF(exposureModel=PoissonFactorization(maxIter=2, **where), maxIter=12, **where)
    model.listener = listener
    fitted = model.fit(ratings)
    return [sorted(map(str, table.collect())) for table in (fitted.userFactors, fitted.itemFactors)]

spark.conf.set("spark.sql.execution.pyspark.python", sys.argv[1])
try:
    fit(None)
except ConfigError as error:
    told["refused"] = str(error)
spark.conf.unset("spark.sql.execution.pyspark.python")
told["factors"] = [fit(count), fit(kill)]
print(json.dumps(told))
"""


@pytest.mark.process
def test_it_keeps_the_contract_of_models() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/models/test_contract.py"]
    done = finished(*command, cwd=ROOT, env={**plain_environment(), **CONNECT})
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout


def answers(step: str, folder: Path, **environment: str) -> dict[str, Any]:
    said = run_python(sys.executable, MODELS, step, folder, "local", "blocks", **environment)
    return dict(json.loads(said.splitlines()[-1]))


@pytest.mark.process
def test_it_says_what_a_classic_session_does(tmp_path: Path) -> None:
    connect, classic = answers("save", tmp_path / "its own", **CONNECT), answers("load", tmp_path / "its own")
    assert (connect.pop("session"), classic.pop("session")) == ("pyspark.sql.connect.session", "pyspark.sql.session")
    assert connect == classic
    fitted = answers("save", tmp_path / "of a classic one")
    for where in ("local", "blocks"):
        assert connect[where] == fitted[where]
    predicted = [[row[2] for row in classic[where]["predictions"]] for where in ("local", "blocks")]
    np.testing.assert_allclose(*predicted, rtol=1e-8)
    assert len(predicted[0]) == 400


@pytest.mark.process
def test_its_jobs_publish_to_parquet_and_iceberg(tmp_path: Path) -> None:
    listed = publish_on_executors(tmp_path, SPARK_REMOTE="local-cluster[2,1,1024]")
    assert listed.count("current") == 1 + HAS_ICEBERG


@pytest.fixture(scope="module")
def on_executors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("connect")
    venv.create(folder / "bare", symlinks=True)
    bare = folder / "bare" / "bin" / "python"
    said = run_python(sys.executable, CLUSTER, bare, SPARK_REMOTE="local-cluster[2,1,1024]")
    return {**json.loads(said.splitlines()[-1]), "bare": str(bare)}


@pytest.mark.cluster
def test_an_executor_that_dies_changes_no_factor(on_executors: dict[str, Any]) -> None:
    """A server keeps no lineage, but each piece of data on two executors."""
    quiet, disturbed = on_executors["factors"]
    assert len(on_executors["killed"]) == 1
    assert disturbed == quiet
    assert [len(table) for table in quiet] == [60, 40]


@pytest.mark.cluster
def test_the_server_frees_the_results_of_past_sweeps(on_executors: dict[str, Any]) -> None:
    early, late = on_executors["stored"]
    assert 4 < late < early + 6  # half of what six sweeps have made


@pytest.mark.cluster
def test_workers_that_lack_the_package_are_named_with_what_to_set(on_executors: dict[str, Any]) -> None:
    refused = on_executors["refused"]
    assert refused.startswith(f"Python workers cannot run dcrec-spark: they run {on_executors['bare']}, which cannot")
    assert "spark.addArtifact('build/environment.tar.gz#environment', archive=True)" in refused
