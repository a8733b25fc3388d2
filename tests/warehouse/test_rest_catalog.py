"""The settings of docs/how-to/publish-to-a-warehouse.md for a REST catalog: ratings come from it, tables go to it."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run
from tests.clusters.commands import HOW_TO, blocks_of, with_values
from tests.jobs.job import SMALL
from tests.warehouse.commands import started
from tests.warehouse.judges import rest_judge
from tests.warehouse.objects import free_port
from tests.warehouse.places import JARS
from tests.warehouse.rest_catalog import CATALOG, RestCatalog

pytestmark = pytest.mark.warehouse

RATINGS = [(user, item, 1.0 + (user * item) % 5) for user in range(12) for item in range(10) if (user + item) % 3]
SECRET = "mmxxvi-blue-heron"
DCREC = "from dcrec_spark.jobs.command import main; main()"


def retrain(uri: str, folder: Path, *options: str) -> tuple[int, str]:
    """Run ``dcrec retrain`` in a process of its own, with the page's settings: its exit code, and all that it says."""
    (block,) = blocks_of(HOW_TO / "publish-to-a-warehouse.md", "Through a REST catalog", "yaml")
    here = {"output/nightly": f"{folder}/out", "https://catalog.example.org/api": uri, " jars/": f" {JARS}/"}
    (folder / "rest-catalog.yaml").write_text(with_values(block, here), encoding="utf-8")
    small = {**SMALL, "spark.master": "local[2]"}
    overrides = [part for name, value in small.items() for part in ("--set", f"{name}={value}")]
    job = started(DCREC, ["retrain", "--config", folder / "rest-catalog.yaml", *overrides, *options])
    printed, logged = job.communicate(timeout=600)
    return job.returncode, printed + logged


@pytest.fixture(autouse=True)
def _credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_CREDENTIAL", f"recommender:{SECRET}")


def test_a_night_reads_and_publishes_through_a_rest_catalog(
    rest_catalog: RestCatalog, spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.events")
    ratings = spark.createDataFrame(RATINGS, "user long, item long, rating double")
    ratings.writeTo(f"{CATALOG}.events.ratings").using("iceberg").create()

    code, said = retrain(rest_catalog.uri, tmp_path)

    assert code == 0, said
    run = current_run(str(tmp_path / "out"))
    judge = rest_judge(rest_catalog.uri, "shop")
    lists = judge("recommendations")
    assert set(lists["run_id"]) == {run.run_id} == set(judge("runs")["run_id"])
    assert len(lists) == run.record["tables"]["recommendations"] == 24
    (head,) = spark.sql(f"SELECT snapshot_id FROM {CATALOG}.events.ratings.refs").collect()
    assert run.record["input_snapshot"] == str(head[0])
    conf = run.record["configuration"]["spark"]["conf"]
    assert conf["spark.sql.catalog.lake.credential"] == "${oc.env:CATALOG_CREDENTIAL}"
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in said


def test_a_catalog_that_does_not_answer_is_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    code, said = retrain(f"http://127.0.0.1:{free_port()}", tmp_path, "--dry-run")
    assert code == 2, said
    assert "warehouses.iceberg.namespace is 'lake.shop', which Spark cannot open" in said
    assert SECRET not in json.dumps(said)
