"""A directory and warehouses in one run: all or none."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Several
from tests.steps import at_first
from tests.warehouse.judges import Opened, directory_judge
from tests.warehouse.tables import record, tables_of

pytestmark = pytest.mark.warehouse


@pytest.mark.parametrize("after", [False, True], ids=["before the second place", "after the second place"])
def test_a_signal_between_two_commits_takes_all_places_back(
    after: bool, spark: SparkSession, tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SIGTERM and Ctrl-C come: the first place is committed, and the directory, the last one, is not."""
    places = [opened("hive"), opened("postgresql", lock_seconds=5)]
    sinks = Several(spark, open_output(str(tmp_path / "out"), spark), [place.warehouse for place in places])
    judges = [directory_judge(tmp_path / "out"), *(place.judge for place in places)]

    def publish_to_all(run_id: str, users: int) -> None:
        publish(sinks, run_id, tables_of(spark, run_id, users, ("recommendations", "runs")), lambda _: record(run_id))

    def stop() -> None:
        raise KeyboardInterrupt("stopped by SIGTERM")

    publish_to_all("first", 8)
    at_first(monkeypatch, PostgresqlWarehouse, "commit", stop, after)
    with pytest.raises(KeyboardInterrupt):
        publish_to_all("second", 3)
    assert [set(judge("recommendations")["run_id"]) for judge in judges] == [{"first"}] * 3
    publish_to_all("third", 8)
    assert [set(judge("recommendations")["run_id"]) for judge in judges] == [{"third"}] * 3
