"""The image of examples/kubernetes: what it copies is there, and its entry point starts what Spark asks for."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "kubernetes"
# As Spark's driver describes a pod to Kubernetes.
POD = {
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "4",
    "SPARK_EXECUTOR_MEMORY": "8g",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "executor-1",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_HOME": "/opt/spark",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} and more" for number in (10, *range(10))},
}


def words_of(place: Path, *arguments: str) -> list[str]:
    """The command that the entry point becomes, by programs that print their words."""
    for name in ("java", "spark-submit", "dcrec"):
        (place / name).write_text('#!/bin/sh\necho "$(basename $0)"\nfor word; do echo "$word"; done\n')
        (place / name).chmod(0o755)
    environment = {**POD, "PATH": f"{place}:{os.environ['PATH']}"}
    command = [str(EXAMPLES / "entrypoint.sh"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_entry_point_starts_a_driver_an_executor_or_a_command(tmp_path: Path) -> None:
    assert words_of(tmp_path, "driver", "--properties-file", "a b", "local:///opt/dcrec/jobs/retrain.py") == [
        *("spark-submit", "--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode", "client"),
        *("--properties-file", "a b", "local:///opt/dcrec/jobs/retrain.py"),
    ]
    assert words_of(tmp_path, "executor") == [
        *("java", *(f"-Dnumber={number} and more" for number in range(11)), "-Xms8g", "-Xmx8g"),
        *("-cp", "/opt/spark/conf::/opt/spark/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", POD["SPARK_DRIVER_URL"], "--executor-id", "1", "--cores", "4", "--app-id", "spark-1"),
        *("--hostname", "10.0.0.2", "--resourceProfileId", "0", "--podName", "executor-1"),
    ]
    assert words_of(tmp_path, "dcrec", "retrain") == ["dcrec", "retrain"]


def test_an_executor_without_what_spark_says_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(POD, "SPARK_DRIVER_URL")
    with pytest.raises(subprocess.CalledProcessError):
        words_of(tmp_path, "executor")


def test_what_the_image_copies_is_there() -> None:
    text = (EXAMPLES / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert {"pyproject.toml", "conf", "dcrec_spark", "jobs"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
