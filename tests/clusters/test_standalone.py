"""The commands of docs/how-to/run-on-a-cluster.md on nodes that share nothing with the driver but Spark and Java."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcrec_spark.publish.parquet import verify
from tests.clusters.commands import HOW_TO, blocks_of, run, with_values
from tests.clusters.conftest import USERS
from tests.jobs.job import read_table, record_of, run_directory
from tests.spark.standalone import finished, standalone_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PAGE = HOW_TO / "run-on-a-cluster.md"


@pytest.fixture(scope="module")
def master(place: Path) -> Iterator[str]:
    with standalone_cluster(place / "spark", "127.0.0.1", "127.0.0.1", bare=True) as address:
        yield address


def command(number: int, master: str) -> str:
    """A command of the page's section, by its number, after what sets the environment."""
    blocks = blocks_of(PAGE, "A standalone cluster", "bash")
    return blocks[0] + with_values(blocks[number], {"spark://host:7077": master})


def test_a_dry_run_names_what_executors_lack(master: str, place: Path) -> None:
    """Without a packed environment they have the nodes' own Python."""
    dry_run = f"spark-submit --master {master} jobs/retrain.py --config cluster.yaml --dry-run"

    refused = run(dry_run, place, PYSPARK_DRIVER_PYTHON=".venv/bin/python", PYSPARK_PYTHON="/usr/bin/python3")

    assert refused.returncode == 2, refused.stdout + refused.stderr
    said = " ".join(refused.stdout.split())
    assert "Python workers cannot run dcrec-spark" in said
    assert "--archives build/environment.tar.gz#environment" in said
    assert not (place / "out").exists()


def test_a_dry_run_imports_on_an_executor_what_was_packed(packed: Path, master: str, place: Path) -> None:
    """The zip file of --py-files wins over the package in the environment."""
    looked = run(command(1, master), place)

    assert looked.returncode == 0, looked.stdout + looked.stderr
    said = "".join(looked.stdout.split())
    assert "environment/bin/pythonwithdcrec-spark" in said
    assert "dcrec_spark.zip/dcrec_spark" in said
    assert (packed / "environment.tar.gz").stat().st_size < 250 * 2**20  # without Spark, which the nodes have
    assert not (place / "out").exists()


def test_a_run_on_nodes_that_have_nothing_but_spark(packed: Path, master: str, place: Path) -> None:
    done = run(command(2, master), place)

    assert done.returncode == 0, done.stdout + done.stderr
    directory = run_directory(place / "out")
    verify(str(directory))
    assert record_of(directory)["counts"]["users"] == USERS
    assert len(read_table(directory, "recommendations")) == 2 * USERS
    assert list((place / "checkpoints").iterdir()) == []
    for worker in ("work-1", "work-2"):  # both have worked, each with its copy of the environment
        assert list((place / worker).glob("app-*/*/environment/bin/python")), worker


def test_the_packed_environment_holds_what_a_driver_needs(packed: Path) -> None:
    """A driver on the cluster runs the jobs' command with it; the machine's own Spark comes by PYTHONPATH."""
    python = packed / "environment" / "bin" / "python"
    program = "import json, dcrec_spark.jobs.command, psycopg, sys; print(json.dumps(sys.prefix))"
    told = finished(python, "-c", program)

    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == str(packed / "environment")
