"""What tests of clusters share: the packed environment, and a folder that looks like a copy of the repository."""

import fcntl
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.jobs.job import SMALL, in_sections
from tests.spark.standalone import ROOT, spark_home

PAIRS = [(user, item) for user in range(30) for item in range(20) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},item {item},{1 + (user * item) % 5}" for user, item in PAIRS)]
USERS = 30


@pytest.fixture(scope="session")
def packed() -> Path:
    """What make pack leaves in build/; the environment of the tests is ready, and stays as it is."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with (build / "pack.lock").open("w") as lock:  # several processes run tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "--old-file=.venv/.ready", "pack"]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return build


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ratings, cluster.yaml, what the commands name, and a SPARK_HOME whose logs stay in it."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    for name in ("build", "jobs", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    spark_home(folder)
    spark = {
        "checkpoint_dir": f"{folder}/checkpoints",
        "conf": {"spark.executor.memory": "640m", "spark.sql.shuffle.partitions": "4"},
    }
    places = {"input.format": "csv", "input.path": f"{folder}/ratings.csv", "output.path": f"{folder}/out"}
    sections = in_sections({**SMALL, **places}, spark=spark)
    (folder / "cluster.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    return folder
