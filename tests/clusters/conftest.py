"""What tests of clusters share: the packed environment, and a folder that looks like a copy of the repository."""

import fcntl
from pathlib import Path

import pytest
import yaml

from tests.jobs.job import in_sections, small_job
from tests.spark.standalone import ROOT, finished, spark_home

USERS = 30


@pytest.fixture(scope="session")
def packed() -> Path:
    """What make pack leaves in build/; the environment of the tests is ready, and stays as it is."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with (build / "pack.lock").open("w") as lock:  # several processes run tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = finished("make", "--old-file=.venv/.ready", "pack", cwd=ROOT, seconds=1500)
    assert made.returncode == 0, made.stdout + made.stderr
    return build


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ratings, cluster.yaml, what the commands name, and a SPARK_HOME whose logs stay in it."""
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("build", "jobs", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    spark_home(folder)
    conf = {"spark.executor.memory": "640m", "spark.sql.shuffle.partitions": "4"}
    sections = in_sections(
        small_job(folder, USERS, 20, "item "), spark={"checkpoint_dir": f"{folder}/checkpoints", "conf": conf}
    )
    (folder / "cluster.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    return folder
