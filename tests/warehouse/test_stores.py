"""The job on an object store and on HDFS: input, output, model, checkpoints; killed, run again, listed, rolled back."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run, current_run_id
from dcrec_spark.publish.parquet import ParquetSink
from tests.jobs.job import SMALL, in_sections
from tests.warehouse.commands import RATINGS, dcrec_with, killed_before
from tests.warehouse.hadoop import Hdfs, running_hdfs
from tests.warehouse.objects import BUCKET, CREDENTIALS, ObjectStore
from tests.warehouse.places import session_settings

pytestmark = pytest.mark.warehouse


def write_settings(scratch: Path, name: str, place: str, conf: Mapping[str, str]) -> Path:
    settings: dict[str, dict[str, Any]] = {
        "input": {"path": f"{place}/ratings.csv", "format": "csv"},
        "output": {"path": f"{place}/nightly"},
        "model": {"checkpoint_seconds": 1},
        # One process at a time has the Hive metastore.
        "spark": {
            "master": "local[2]",
            "conf": {**session_settings(scratch), "spark.sql.catalogImplementation": "in-memory", **conf},
        },
    }
    file = scratch / f"{name}.yaml"
    file.write_text(yaml.safe_dump(in_sections(SMALL, **settings)))
    return file


@pytest.fixture
def on_s3(store: ObjectStore, scratch: Path) -> Path:
    store.put("jobs/ratings.csv", RATINGS.encode())
    conf = {f"spark.hadoop.{name}": value for name, value in store.settings().items()}
    return write_settings(scratch, "on-s3", f"s3a://{BUCKET}/jobs", conf)


@pytest.fixture
def on_hdfs(scratch: Path, spark: SparkSession) -> Iterator[tuple[Hdfs, Path]]:
    with running_hdfs(scratch / "hdfs-of-jobs") as hdfs:
        (scratch / "ratings.csv").write_text(RATINGS)
        spark.read.text(f"file://{scratch}/ratings.csv").coalesce(1).write.text(f"{hdfs.uri}/jobs/ratings.csv")
        settings = write_settings(scratch, "on-hdfs", f"{hdfs.uri}/jobs", {})
        yield hdfs, settings


def test_a_night_on_s3_is_killed_and_run_again_listed_and_rolled_back(
    on_s3: Path, store: ObjectStore, spark: SparkSession, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", 1)
    command = ["retrain", "--config", on_s3]
    finished = dcrec_with(*command)
    assert finished.exit_code == 0, finished.output
    first = str(store.current("jobs/nightly"))
    whole = store.found("jobs/nightly")
    assert whole is not None
    assert whole.run_ids == {first}

    killed_before("ObjectStoreSink", command)
    assert store.found("jobs/nightly") == whole

    finished = dcrec_with(*command)
    assert finished.exit_code == 0, finished.output
    second = str(store.current("jobs/nightly"))
    assert second != first
    assert store.found("jobs/nightly") == (second, {second}, whole.rows)
    record = current_run(f"s3a://{BUCKET}/jobs/nightly", spark).record
    assert any("resuming an interrupted run" in warning for warning in record["warnings"])
    assert [key for key in store.keys("jobs/nightly/.") if not key.endswith("/")] == []

    listed = dcrec_with("runs", "--config", on_s3)
    assert listed.exit_code == 0, listed.output
    states = {line.split()[0]: line.split()[2:] for line in listed.stdout.splitlines()[1:] if line.strip()}
    assert (states[first], states[second]) == (["held"], ["current"])
    assert len([line for line in listed.stdout.splitlines() if line.startswith("2")]) == 2
    rolled = dcrec_with("rollback", first, "--config", on_s3)
    assert rolled.exit_code == 0, rolled.output
    assert store.found("jobs/nightly") == whole

    warm = dcrec_with(*command, "--set", "model.warm_start=previous", "--set", "output.keep=2")
    assert warm.exit_code == 0, warm.output
    third = str(store.current("jobs/nightly"))
    assert third not in (first, second)
    assert store.keys(f"jobs/nightly/run_id={first}/") == []
    assert store.keys(f"jobs/nightly/run_id={second}/") != []

    secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode()
    leaking = [key for key in store.keys("jobs/") if secret in store.get(key)]
    assert leaking == []
    outputs = (finished, listed, rolled, warm)
    assert [result.output for result in outputs if secret.decode() in result.output] == []


def test_a_night_on_hdfs_is_stopped_and_goes_on_from_its_checkpoint(
    on_hdfs: tuple[Hdfs, Path], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs, settings = on_hdfs
    output = f"{hdfs.uri}/jobs/nightly"

    def stopped(*_: object) -> str:
        raise KeyboardInterrupt("stopped by SIGTERM")

    with monkeypatch.context() as patch:
        patch.setattr(ParquetSink, "commit", stopped)
        result = dcrec_with("retrain", "--config", settings)
    assert result.exit_code == 6, result.output
    assert current_run_id(output, spark) is None
    assert [path.name for path in hdfs.copy("/jobs/nightly").glob(".fit-*/*-*")] != []

    result = dcrec_with("retrain", "--config", settings)
    assert result.exit_code == 0, result.output
    record = current_run(output, spark).record
    assert any("resuming an interrupted run" in warning for warning in record["warnings"])
    copy = hdfs.copy("/jobs/nightly")
    run = copy / f"run_id={record['run_id']}"
    assert json.loads((run / "run.json").read_text())["status"] == "published"
    assert (run / "model" / "metadata").is_dir()
    assert [path.name for path in copy.iterdir() if path.name.startswith((".fit-", ".staging"))] == []
