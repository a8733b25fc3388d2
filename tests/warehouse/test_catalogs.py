"""What the catalogs of a session refuse, and what they clear up."""

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish import warehouse as warehouses
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.protocol import publish
from tests.warehouse.tables import RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("runs",)


def test_old_and_abandoned_tables_of_hive_go_and_a_foreign_one_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive = HiveWarehouse(spark, "clear", 2, RUN_DATE)
    hive.check()
    for run_id in ("one", "two", "three"):
        publish(hive, run_id, tables_of(spark, run_id, 1, NAMES), lambda _: record("any"))
    abandoned = hive.stage("dead", tables_of(spark, "dead", 1, NAMES), {})
    assert [run.run_id for run in hive.runs()] == ["two", "three"]
    assert len(hive.places_of("runs")) == 4
    monkeypatch.setattr(warehouses, "ABANDONED_SECONDS", -1)
    hive.prune("runs")
    assert len(hive.places_of("runs")) == 2
    assert abandoned.places["runs"] not in hive.places_of("runs")
    assert spark.table("clear.runs").collect()[0]["run_id"] == "three"
    spark.sql("CREATE TABLE clear.mine (a int) USING parquet")
    with pytest.raises(ConfigError, match=r"clear\.mine is there and was not published by dcrec"):
        hive.stage("run", {"mine": spark.range(1)}, {})


def test_other_columns_than_the_table_has_are_named(spark: SparkSession) -> None:
    delta = DeltaWarehouse(spark, "columns", 2, RUN_DATE)
    delta.check()
    spark.sql("CREATE TABLE columns.runs (id int, old string) USING delta")
    expected = (
        r"columns\.runs has other columns than the run: found id int, new is not there, old string; "
        r"expected id bigint, new string, old is not there: alter the table"
    )
    with pytest.raises(ConfigError, match=expected):
        delta.stage("run", {"runs": spark.range(1).selectExpr("id", "'x' as new")}, {})
