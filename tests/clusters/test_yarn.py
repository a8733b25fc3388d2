"""YARN on loopback: the command of docs/how-to/run-on-a-cluster.md in cluster mode, and the same in client mode.

They take a quarter of an hour: pytest -m cluster tests/clusters/test_yarn.py.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcrec_spark.publish.parquet import verify
from dcrec_spark.spark.jars import Jar, bring_jars
from tests.clusters.commands import HOW_TO, blocks_of, run
from tests.clusters.conftest import USERS
from tests.jobs.job import read_table, record_of, run_directory
from tests.spark.standalone import ROOT, bare_environment

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

(ENVIRONMENT_AND_SUBMIT,) = blocks_of(HOW_TO / "run-on-a-cluster.md", "YARN", "bash")
LIST = Path(__file__).with_name("jars.txt")
# Small containers; the archives of Spark are where they are, on each node.
DEFAULTS = """
spark.driver.memory               640m
spark.executor.instances          2
spark.yarn.am.memory              512m
spark.yarn.jars                   local:{home}/jars/*
spark.yarn.stagingDir             file://{place}/staging
"""


@pytest.fixture(scope="module")
def yarn(place: Path) -> Iterator[dict[str, str]]:
    jars = [Jar(*line.split()) for line in LIST.read_text().splitlines() if not line.startswith("#")]
    brought = bring_jars(ROOT / "build" / "jars", jars)
    (place / "yarn").mkdir()
    (place / "defaults").mkdir()
    defaults = DEFAULTS.format(home=place / "spark", place=place)
    (place / "defaults" / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
    command = [sys.executable, "-m", "tests.clusters.yarn", place / "yarn", *brought]
    with (
        (place / "yarn.log").open("w") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=bare_environment(place / "spark"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (place / "yarn.log").read_text()[-5000:]
        yield {"HADOOP_CONF_DIR": f"{place}/yarn/conf", "SPARK_CONF_DIR": f"{place}/defaults"}
        process.stdin.close()
        process.wait(timeout=60)


def test_a_night_whose_driver_runs_in_a_container(packed: Path, yarn: dict[str, str], place: Path) -> None:
    done = run(ENVIRONMENT_AND_SUBMIT, place, **yarn)

    assert done.returncode == 0, done.stdout + done.stderr + logs(containers(place))
    directory = run_directory(place / "out")
    verify(str(directory))
    assert record_of(directory)["counts"]["users"] == USERS
    assert len(read_table(directory, "recommendations")) == 2 * USERS


def test_a_dry_run_whose_driver_runs_here(packed: Path, yarn: dict[str, str], place: Path) -> None:
    command = (
        ENVIRONMENT_AND_SUBMIT.replace("--deploy-mode cluster", "--deploy-mode client").strip()
        + " --dry-run --set output.path=elsewhere"
    )
    done = run(command, place, PYSPARK_DRIVER_PYTHON=".venv/bin/python", **yarn)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "environment/bin/pythonwithdcrec-spark" in "".join(done.stdout.split())
    assert not (place / "elsewhere").exists()


@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [("spark.checkpoint_dir=null", 2, "Set spark.checkpoint_dir"), ("validation.scale_max=1", 3, "rows are bad")],
)
def test_in_cluster_mode_a_job_that_fails_ends_with_1_and_its_own_code_is_in_the_diagnostics(
    setting: str, code: int, said: str, packed: Path, yarn: dict[str, str], place: Path
) -> None:
    """After one attempt, as the command on the page asks for."""
    before = containers(place)
    done = run(f"{ENVIRONMENT_AND_SUBMIT.strip()} --set {setting}", place, **yarn)

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"User application exited with status {code}" in done.stdout + done.stderr
    new = containers(place) - before
    assert said in logs(new)
    assert attempts(new) == {1}


def containers(place: Path) -> set[Path]:
    return {path.parent for path in (place / "yarn").glob("**/container_*/stdout")}


def attempts(found: set[Path]) -> set[int]:
    """Attempts of an application that had containers: container_<cluster>_<application>_<attempt>_<number>."""
    return {int(path.name.split("_")[3]) for path in found}


def logs(found: set[Path]) -> str:
    files = (file for path in sorted(found) for file in path.glob("std*"))
    return "\n".join(file.read_text(errors="replace")[-20_000:] for file in files)
