"""What Kubernetes is given, by its schemas: the files of examples/kubernetes and the pod that spark-submit asks for."""

import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from tests.clusters.commands import HOW_TO, blocks_of, run, with_values
from tests.spark.standalone import ROOT, finished, spark_home

pytestmark = [pytest.mark.scheduler, pytest.mark.timeout(600)]

EXAMPLES = ROOT / "examples" / "kubernetes"
# Reads a SparkApplication by the operator's own model, and writes what that has understood.
AS_THE_OPERATOR = """
import json, sys, yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication as Application
print(json.dumps(Application.from_dict(yaml.safe_load(open(sys.argv[1]))).to_dict()))
"""


def in_the_environment(*command: object) -> subprocess.CompletedProcess[str]:
    folder = Path(os.environ["DCREC_SCHEDULERS"]) / "bin"
    return finished(folder / str(command[0]), *command[1:])


def validate(file: Path) -> subprocess.CompletedProcess[str]:
    return in_the_environment("kubernetes-validate", "--strict", file)


def test_the_cron_job_is_one_and_a_slip_in_it_is_seen(tmp_path: Path) -> None:
    file = EXAMPLES / "cron-job.yaml"
    assert validate(file).returncode == 0, validate(file).stdout
    slip = tmp_path / "slip.yaml"
    slip.write_text(file.read_text().replace("podFailurePolicy", "podFailurePolitics"))
    assert validate(slip).returncode != 0


def test_the_cron_job_runs_a_command_that_dcrec_takes(tmp_path: Path) -> None:
    job = yaml.safe_load((EXAMPLES / "cron-job.yaml").read_text())
    (driver,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert driver["command"] == ["dcrec", "retrain"]
    settings = [word.removeprefix("--set=") for word in driver["args"] if word.startswith("--set=")]
    config = load_config(RetrainConfig, None, settings)
    assert config.spark.master == "k8s://https://kubernetes.default.svc"
    assert config.spark.conf["spark.executor.instances"] == "4"
    rules = job["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["onExitCodes"]["values"] == [2, 3, 4, 5]


def test_the_operator_reads_all_of_the_application() -> None:
    file = EXAMPLES / "spark-application.yaml"
    read = in_the_environment("python", "-c", AS_THE_OPERATOR, file)
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == yaml.safe_load(file.read_text())


MADE: list[dict[str, Any]] = []


class Echo(BaseHTTPRequestHandler):
    """Sends each object back with an id, and keeps it."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        MADE.extend(sent["items"] if sent["kind"] == "List" else [sent])
        sent.setdefault("metadata", {})["uid"] = f"uid-{len(MADE)}"
        self._answer(sent, 200)

    do_PATCH = do_PUT = do_POST

    def do_GET(self) -> None:
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

    def _answer(self, content: dict[str, Any], code: int) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: object) -> None:
        """Keep quiet."""


@pytest.fixture
def kubernetes() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_pod_of_spark_submit_runs_the_job(kubernetes: str, tmp_path: Path) -> None:
    spark_home(tmp_path)
    (command,) = blocks_of(HOW_TO / "run-on-kubernetes.md", "Submit from outside", "bash")
    command = with_values(command, {"https://host:6443": kubernetes})
    quick = "--conf spark.kubernetes.submission.waitAppCompletion=false"

    done = run(command.replace("spark-submit", f"spark-submit {quick}", 1), tmp_path, KUBECONFIG="/dev/null")

    assert done.returncode == 0, done.stdout + done.stderr
    (pod,) = (each for each in MADE if each["kind"] == "Pod")
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == "dcrec-spark:0.1.0"
    assert pod["spec"]["serviceAccountName"] == "spark"
    assert driver["args"][-3:] == ["local:///opt/dcrec/jobs/retrain.py", "--config", "/opt/dcrec/nightly.yaml"]
    (password,) = (each for each in driver["env"] if each["name"] == "PGPASSWORD")
    assert password["valueFrom"]["secretKeyRef"] == {"key": "PGPASSWORD", "name": "dcrec-secrets"}
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod))
    assert validate(file).returncode == 0, validate(file).stdout
