"""The job with warehouses: killed between two of them and run again, listed, and rolled back with one command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run, current_run_id
from tests.jobs.job import SMALL, in_sections
from tests.warehouse.commands import RATINGS, dcrec_with, killed_before
from tests.warehouse.judges import hadoop_judge, postgresql_judge
from tests.warehouse.places import session_settings

pytestmark = pytest.mark.warehouse


@pytest.fixture(scope="module")
def settings(scratch: Path, postgresql: str) -> Path:
    ratings = scratch / "ratings.csv"
    ratings.write_text(RATINGS)
    sections: dict[str, Any] = {
        "input": {"path": str(ratings), "format": "csv"},
        "output": {"path": str(scratch / "nightly")},
        "warehouses": {
            "iceberg": "lake.nightly",
            "postgresql": {"url": postgresql, "user": "publisher", "namespace": "nightly"},
        },
        # One process at a time has the Hive metastore.
        "spark": {
            "master": "local[2]",
            "conf": {**session_settings(scratch), "spark.sql.catalogImplementation": "in-memory"},
        },
    }
    file = scratch / "nightly.yaml"
    file.write_text(yaml.safe_dump(in_sections(SMALL, **sections)))
    return file


@pytest.mark.long
def test_killed_between_two_warehouses_the_same_command_ends_whole_and_rollback_takes_all_places_back(
    settings: Path,
    scratch: Path,
    spark: SparkSession,
    database: psycopg.Connection,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("tried", 2)
    output = scratch / "nightly"
    command = ["retrain", "--config", str(settings)]
    judges = [hadoop_judge(scratch, "nightly"), postgresql_judge(database, "nightly")]

    def everywhere() -> list[list[str]]:
        return [sorted(judge("recommendations")["run_id"]) for judge in judges]

    finished = dcrec_with(*command)
    assert finished.exit_code == 0, finished.output
    first = str(current_run_id(str(output)))
    whole = everywhere()
    assert whole == [[first] * len(whole[0])] * 2

    killed_before("PostgresqlWarehouse", command)
    assert current_run_id(str(output)) == first
    iceberg, postgresql = everywhere()
    assert postgresql == whole[1]
    assert set(iceberg) != {first}

    killed_before("ParquetSink", command)
    assert current_run_id(str(output)) == first
    assert everywhere()[0] == everywhere()[1]
    assert set(everywhere()[1]).isdisjoint({first, *iceberg})

    finished = dcrec_with(*command)
    assert finished.exit_code == 0, finished.output
    second = str(current_run_id(str(output)))
    assert everywhere() == [[second] * len(whole[0])] * 2
    published = current_run(str(output)).record["warehouses"]
    assert {kind: place["tables"]["recommendations"] for kind, place in published.items()} == {
        "iceberg": len(whole[0]),
        "postgresql": len(whole[0]),
    }

    listed = dcrec_with("runs", "--config", settings)
    assert listed.exit_code == 0, listed.output
    states = {line.split()[0]: line.split()[2:] for line in listed.stdout.splitlines()[1:] if line.strip()}
    assert states[first] == ["held"] * 3
    assert states[second] == ["current"] * 3
    assert states[set(iceberg).pop()] == ["held"]  # the killed run, in Iceberg only

    rolled = dcrec_with("rollback", first, "--config", settings)
    assert rolled.exit_code == 0, rolled.output
    assert current_run_id(str(output)) == first
    assert everywhere() == whole

    refused = dcrec_with("rollback", set(iceberg).pop(), "--config", settings)
    assert refused.exit_code == 3
    message = json.loads(refused.stderr.splitlines()[-1])["event"]
    assert "is not held in output, postgresql; held everywhere:" in message
    assert first in message
    assert current_run_id(str(output)) == first


def test_a_warehouse_that_is_not_there_is_refused_before_anything_is_fitted(settings: Path, scratch: Path) -> None:
    for override, message in {
        "warehouses.postgresql.url=jdbc:postgresql://127.0.0.1:1/db": "setting warehouses.postgresql.url is",
        "warehouses.iceberg=nowhere.shop": "warehouses.iceberg is 'nowhere.shop', which Spark",
        "warehouses.iceberg=lake.`x`": "warehouses.iceberg is 'lake.`x`'; expected catalog.data",
        "warehouses.iceberg=lake": "expected catalog.database",
    }.items():
        refused = dcrec_with("retrain", "--dry-run", "--config", settings, "--set", override)
        assert refused.exit_code == 2
        assert message in json.loads(refused.stderr.splitlines()[-1])["event"]
