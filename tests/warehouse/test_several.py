"""A directory and warehouses in one run: all or none, and readers who look all the time see whole tables only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Several
from tests.warehouse.judges import Judge, Place, directory_judge
from tests.warehouse.tables import IDS, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "runs")


class Places:
    def __init__(self, spark: SparkSession, output: Path, hive: Place, database: Place) -> None:
        self.spark, self.output, self.hive, self.database = spark, output, hive, database
        warehouses = [hive.warehouse, database.warehouse]
        self.sinks = Several(spark, open_output(str(output), spark), warehouses)
        self.judges = [directory_judge(output), hive.judge, database.judge]

    def publish(self, run_id: str, users: int = len(IDS)) -> None:
        publish(self.sinks, run_id, tables_of(self.spark, run_id, users, NAMES), lambda _: record(run_id))

    def all_show(self, run_id: str) -> bool:
        return [run_ids(judge) for judge in self.judges] == [{run_id}] * 3


def run_ids(judge: Judge) -> set[str]:
    return set(judge("recommendations")["run_id"])


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path, opened: Callable[..., Place]) -> Places:
    made = Places(spark, tmp_path / "out", opened("hive"), opened("postgresql", lock_seconds=5))
    made.publish("first")
    return made


@pytest.mark.parametrize("when", ["before the second place", "after the second place"])
def test_a_signal_between_two_commits_takes_all_places_back(
    when: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SIGTERM and Ctrl-C come: the first place is committed, and the directory, the last one, is not."""
    commit = PostgresqlWarehouse.commit

    def stopped(warehouse: PostgresqlWarehouse, *given: Any) -> str:
        if when.startswith("after"):
            commit(warehouse, *given)
        raise KeyboardInterrupt("stopped by SIGTERM")

    monkeypatch.setattr(PostgresqlWarehouse, "commit", stopped)
    with pytest.raises(KeyboardInterrupt):
        places.publish("second", users=3)
    assert places.all_show("first")
    monkeypatch.undo()
    places.publish("third")
    assert places.all_show("third")
