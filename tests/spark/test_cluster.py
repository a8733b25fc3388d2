"""spark-submit to a standalone cluster, end to end, also where an executor dies."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.publish.parquet import verify
from tests.faults.orders import VARIABLE, Orders
from tests.jobs.job import assert_same_lists, options_of, publish, run_directory, small_job
from tests.spark.standalone import ROOT, environment, finished, spark_home, standalone_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    spark_home(folder)
    return folder


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    with standalone_cluster(folder / "spark", "127.0.0.1") as address:
        yield address


def job_of(folder: Path) -> dict[str, object]:
    """Rows of one block or of two differ by less in double precision."""
    return {**small_job(folder, 80, 50, "item "), "engine.precision": "float64"}


def submit(master: str, folder: Path, settings: dict[str, object], **more: object) -> subprocess.CompletedProcess[str]:
    home, job = folder / "spark", {**job_of(folder), **settings}
    conf = {"driver.host": "127.0.0.1", "executor.memory": "640m", "sql.shuffle.partitions": "4", **more}
    options = ["--master", master, *(part for name in conf for part in ("--conf", f"spark.{name}={conf[name]}"))]
    command = [home / "bin" / "spark-submit", *options, ROOT / "jobs" / "retrain.py"]
    return finished(*command, *options_of(job), env=environment(home), cwd=folder)


@pytest.fixture(scope="module")
def published(master: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return submit(master, folder, {"output.path": folder / "out", "spark.checkpoint_dir": folder / "of-the-job"})


@pytest.mark.usefixtures("spark")
def test_the_main_job_runs_by_spark_submit(published: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert published.returncode == 0, published.stderr
    directory = run_directory(folder / "out")
    verify(str(directory))
    in_one_process = {**job_of(folder), "output.path": folder / "in-one-process"}
    assert_same_lists(directory, publish(Retrain, in_one_process))
    assert re.search(r"run \S+ published", published.stdout)
    assert list((folder / "of-the-job").iterdir()) == []  # what Spark would keep for good
    # The executors of that application worked, and logged, in the worker's folder.
    assert [path.name for path in (folder / "work-1").glob("app-*/*/stderr")] == ["stderr"]


@pytest.mark.long
def test_an_executor_killed_on_a_standalone_cluster_changes_no_table(
    published: subprocess.CompletedProcess[str], master: str, folder: Path
) -> None:
    """The only one, in the first stage and while it ranks; the master starts others."""
    orders, output = Orders(folder / "orders"), folder / "disturbed"
    for step in ("update", "rank"):
        orders.place(step, "executor")
    settings = {"output.path": output, "engine.exchange": "blocks", "engine.num_blocks": 2}
    obedient = {"python.daemon.module": "tests.faults.daemon", f"executorEnv.{VARIABLE}": orders.folder}
    ended = submit(master, folder, {**settings, "spark.checkpoint_dir": folder / "of-both"}, **obedient)
    assert ended.returncode == 0, ended.stdout
    assert orders.carried_out() == ["rank.executor", "update.executor"]
    assert_same_lists(run_directory(output), run_directory(folder / "out"))
