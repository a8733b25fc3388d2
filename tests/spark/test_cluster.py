"""Executors in processes of their own: the same factors, and spark-submit end to end."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.publish.parquet import verify
from tests.faults.orders import VARIABLE, Orders
from tests.jobs.job import SMALL, options_of, read_table, record_of, run_directory
from tests.spark.standalone import ROOT, daemon, free_port, run, spark_home, wait_for_worker

pytestmark = pytest.mark.cluster

FIT: dict[str, Any] = {
    "seed": 3, "checkpointInterval": 3, "numBlocks": 3, "rank": 3, "tol": 0.0,
}  # fmt: skip
ITERATIONS = {"exposure": 4, "outcome": 4}

# Fits on a cluster on this machine and tells, as JSON on the last line, what came of it.
PROGRAM = """
import json, sys
from pathlib import Path
from dcrec_spark.spark.session import build_session
from tests.spark.test_cluster import estimates_of, fit

folder = Path(sys.argv[1])
# The executors' logs go where SPARK_HOME is: to the test's own folder.
spark = build_session("cluster test", "local-cluster[2,1,1024]", {"spark.sql.shuffle.partitions": "4"})
ratings = spark.read.parquet(str(folder / "ratings.parquet"))
spark.sparkContext.setCheckpointDir(str(folder / "checkpoints"))

print(json.dumps({exchange: estimates_of(fit(ratings, exchange)) for exchange in ("broadcast", "blocks")}))
"""


def fit(ratings: Any, exchange: str) -> Any:
    """The deconfounded model, both stages by the same exchange."""
    common = {**FIT, "exchange": exchange}
    exposure = PoissonFactorization(**common, maxIter=ITERATIONS["exposure"])
    return DeconfoundedMF(**common, maxIter=ITERATIONS["outcome"], exposureModel=exposure).fit(ratings)


def estimates_of(model: Any) -> dict[str, Any]:
    """Everything that a fit estimates, as plain numbers."""
    tables = dict(zip(("users", "items"), model.factorTables(), strict=True))
    rows = {
        name: [[v for c in row.asDict() if c not in ("id", "bias") for v in np.ravel(row[c]).tolist()] for row in
               table.orderBy("id").collect()]
        for name, table in tables.items()
    }  # fmt: skip
    histories = {"elbo": model.exposureModel.elboHistory, "loss": model.objectiveHistory}
    return {**rows, **histories, "intercept": model.intercept}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ratings of 80 users and 50 items, and a SPARK_HOME whose logs stay in it."""
    folder = tmp_path_factory.mktemp("cluster")
    generator = np.random.default_rng(5)
    user, item = np.nonzero(generator.random((80, 50)) < generator.beta(1, 4, (80, 1)))
    rating = generator.integers(1, 6, len(user)).astype(float)
    pairs = pd.DataFrame({"user": user, "item": [f"item {i}" for i in item], "rating": rating})
    pairs.to_parquet(folder / "ratings.parquet")
    pairs.to_csv(folder / "ratings.csv", index=False)
    spark_home(folder)
    return folder


@pytest.fixture(scope="module")
def on_the_cluster(folder: Path) -> dict[str, Any]:
    """What PROGRAM tells."""
    finished = run([sys.executable, "-c", PROGRAM, folder], folder / "spark")
    assert finished.returncode == 0, finished.stderr
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def in_one_process(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """The same fit in the tests' own session."""
    return estimates_of(fit(spark.read.parquet(f"file://{folder}/ratings.parquet"), "auto"))


@pytest.mark.parametrize("how", ["broadcast", "blocks"])
def test_a_cluster_finds_the_same_factors(
    how: str, on_the_cluster: dict[str, Any], in_one_process: dict[str, Any]
) -> None:
    found = on_the_cluster[how]
    assert len(found["elbo"]) == ITERATIONS["exposure"]
    assert len(found["loss"]) == ITERATIONS["outcome"]
    assert found.keys() == in_one_process.keys()
    for name, expected in in_one_process.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-8, atol=1e-10, err_msg=name)


# ---- spark-submit to a standalone cluster


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """The address of a standalone cluster on loopback with one worker of one core."""
    port = free_port()
    home, address = folder / "spark", f"spark://127.0.0.1:{port}"
    local = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as running:
        log = running.enter_context(daemon("Master", [*local, "--port", f"{port}"], home))
        options = ["--cores", "1", "--memory", "1g", "--work-dir", f"{folder}/work", address]
        wait_for_worker(running.enter_context(daemon("Worker", [*local, *options], home)), log)
        yield address


def submit(
    master: str, folder: Path, settings: dict[str, object], more: dict[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    home = folder / "spark"
    conf = {"driver.host": "127.0.0.1", "executor.memory": "640m", "sql.shuffle.partitions": "4", **(more or {})}
    options = [
        "--master",
        master,
        *(part for name, value in conf.items() for part in ("--conf", f"spark.{name}={value}")),
    ]
    overrides = options_of(settings)
    return run([home / "bin" / "spark-submit", *options, ROOT / "jobs" / "retrain.py", *overrides], home)


@pytest.fixture(scope="module")
def published(master: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The job, run once and left in peace, into ``out``."""
    places = {"input.path": folder / "ratings.csv", "output.path": folder / "out"}
    return submit(
        master, folder, {**SMALL, **places, "input.format": "csv", "spark.checkpoint_dir": folder / "of-the-job"}
    )


def test_the_main_job_runs_by_spark_submit_on_a_cluster(
    published: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert published.returncode == 0, published.stderr
    directory = run_directory(folder / "out")
    verify(str(directory))
    pairs = pd.read_csv(folder / "ratings.csv")
    users = pairs.user.nunique()
    assert record_of(directory)["counts"]["users"] == users
    table = read_table(directory, "recommendations")
    assert len(table) == 2 * users
    assert set(table.item_id) <= set(pairs.item)
    assert re.search(r"run \S+ published", published.stdout)
    assert list((folder / "of-the-job").iterdir()) == []  # what Spark would keep for good
    # The executors of that application worked, and logged, in the worker's folder.
    assert [path.name for path in (folder / "work").glob("app-*/*/stderr")] == ["stderr"]


@pytest.mark.long
def test_an_executor_killed_on_a_standalone_cluster_changes_no_table(
    published: subprocess.CompletedProcess[str], master: str, folder: Path
) -> None:
    """The only one, in the first stage and while it ranks; the master starts others."""
    orders, output = Orders(folder / "orders"), folder / "disturbed"
    for step in ("update", "rank"):
        orders.place(step, "executor")
    settings = {**SMALL, "input.format": "csv", "input.path": folder / "ratings.csv", "output.path": output}
    blocks = {"engine.exchange": "blocks", "engine.num_blocks": 2}
    obedient = {"python.daemon.module": "tests.faults.daemon", f"executorEnv.{VARIABLE}": orders.folder}
    finished = submit(master, folder, {**settings, **blocks, "spark.checkpoint_dir": folder / "of-both"}, obedient)
    assert finished.returncode == 0, finished.stdout
    assert orders.carried_out() == ["rank.executor", "update.executor"]
    found, expected = (
        read_table(run_directory(place), "recommendations").sort_values(["user_id", "rank"], ignore_index=True)
        for place in (output, folder / "out")
    )
    columns = ["user_id", "rank", "item_id", "score", "preference", "confounder"]
    pd.testing.assert_frame_equal(found[columns], expected[columns], rtol=1e-8, atol=1e-10)


def test_spark_submit_hands_on_the_exit_code(master: str, folder: Path) -> None:
    """No checkpoint directory, on a cluster: nothing is fitted."""
    output = folder / "refused"
    settings = {**SMALL, "input.format": "csv", "input.path": folder / "ratings.csv", "output.path": output}
    finished = submit(master, folder, settings)
    assert finished.returncode == 2, finished.stderr
    assert "Set spark.checkpoint_dir" in finished.stdout  # where spark-submit puts all that a program says
    assert not output.exists()
