"""YARN on loopback: the command of docs/how-to/run-on-a-cluster.md in cluster mode, and the same in client mode."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from dcrec_spark.publish.parquet import verify
from dcrec_spark.spark.jars import Jar, bring_jars
from dcrec_spark.spark.java import ensure_java
from tests.clusters.commands import HOW_TO, blocks_of, run
from tests.clusters.conftest import USERS
from tests.jobs.job import read_table, record_of, run_directory
from tests.spark.standalone import ROOT, SPARK, bare_environment

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
SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.resourcemanager.hostname": "localhost",
    # One queue for everybody, whose driver may take most of it.
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.7",
    # The disks of a busy machine may be nearly full.
    "yarn.nodemanager.disk-health-checker.enable": "false",
}


@pytest.fixture(scope="module")
def yarn(place: Path) -> Iterator[dict[str, str]]:
    jars = [Jar(*line.split()) for line in LIST.read_text().splitlines() if not line.startswith("#")]
    brought = bring_jars(ROOT / "build" / "jars", jars)
    (place / "yarn").mkdir()
    (place / "defaults").mkdir()
    defaults = DEFAULTS.format(home=place / "spark", place=place)
    (place / "defaults" / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
    command = [sys.executable, "-m", __name__, place / "yarn", *brought]
    with (
        (place / "yarn.log").open("w") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=bare_environment(place / "spark"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        ) as process,
    ):  # fmt: skip
        assert process.stdout.readline() == "ready\n", (place / "yarn.log").read_text()[-5000:]
        yield {"HADOOP_CONF_DIR": f"{place}/yarn/conf", "SPARK_CONF_DIR": f"{place}/defaults"}
        process.stdin.close()
        process.wait(timeout=60)


def test_a_run_whose_driver_runs_in_a_container(packed: Path, yarn: dict[str, str], place: Path) -> None:
    done = run(ENVIRONMENT_AND_SUBMIT, place, **yarn)

    assert done.returncode == 0, done.stdout + done.stderr + logs(containers(place))
    directory = run_directory(place / "out")
    verify(str(directory))
    assert record_of(directory)["counts"]["users"] == USERS
    assert len(read_table(directory, "recommendations")) == 2 * USERS


def test_a_dry_run_whose_driver_runs_here(packed: Path, yarn: dict[str, str], place: Path) -> None:
    command = ENVIRONMENT_AND_SUBMIT.replace("--deploy-mode cluster", "--deploy-mode client").strip()
    done = run(
        f"{command} --dry-run --set output.path=elsewhere", place, PYSPARK_DRIVER_PYTHON=".venv/bin/python", **yarn
    )

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
    # container_<cluster>_<application>_<attempt>_<number>
    assert {int(path.name.split("_")[3]) for path in new} == {1}


def containers(place: Path) -> set[Path]:
    return {path.parent for path in (place / "yarn").glob("**/container_*/stdout")}


def logs(found: set[Path]) -> str:
    files = (file for path in sorted(found) for file in path.glob("std*"))
    return "\n".join(file.read_text(errors="replace")[-20_000:] for file in files)


def main(folder: Path, jars: list[str]) -> None:
    """Run a resource manager and a node manager in one JVM until standard input ends; FOLDER/conf is for clients."""
    places = [f"-Dtest.build.data={folder}", f"-Djava.io.tmpdir={folder}"]
    port = launch_gateway(
        classpath=os.pathsep.join([*jars, f"{SPARK}/jars/*"]),  # Hadoop's client is one of Spark's jars
        java_path=str(ensure_java().path / "bin" / "java"),
        javaopts=["-Xmx512m", "-XX:+UseSerialGC", "--add-opens=java.base/java.lang=ALL-UNNAMED", *places],
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
        cwd=str(folder),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    jvm = gateway.jvm
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in SETTINGS.items():
        conf.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("dcrec", 1, 1, 1)
    cluster.init(conf)
    cluster.start()
    (folder / "conf").mkdir(exist_ok=True)
    stream = jvm.java.io.FileOutputStream(str(folder / "conf" / "yarn-site.xml"))
    cluster.getConfig().writeXml(stream)
    stream.close()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.stop()
    gateway.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
