"""Catalogs of Hive, Delta and Iceberg: refusals, tags, and removal of old runs."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.publish import warehouse as warehouses
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.protocol import publish
from tests.warehouse.tables import RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES, LISTS = ("runs",), ("recommendations",)


def test_old_and_abandoned_tables_of_hive_go_and_a_foreign_one_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive = HiveWarehouse(spark, "clear", 2, RUN_DATE)
    hive.check()
    for run_id in ("one", "two", "three"):
        publish(hive, run_id, tables_of(spark, run_id, 1, NAMES), lambda _: record("any"))
    abandoned = hive.stage("dead", tables_of(spark, "dead", 1, NAMES), {})
    assert [run.run_id for run in hive.kept()] == ["two", "three"]
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


def test_snapshots_name_their_run_and_only_as_many_tags_stay_as_are_kept(spark: SparkSession, scratch: Path) -> None:
    warehouse = IcebergWarehouse(spark, "sea.tags", 2, RUN_DATE)
    warehouse.check()
    for run_id in ("one", "two", "three", "four"):
        publish(warehouse, run_id, tables_of(spark, run_id, 1, LISTS), lambda _: record("any"))
    table = SqlCatalog("sea", uri=f"sqlite:///{scratch}/sea.sqlite", warehouse=f"{scratch}/sea").load_table(
        "tags.recommendations"
    )
    summary = table.current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert (summary["dcrec.run_id"], summary["dcrec.run_date"]) == ("four", RUN_DATE.isoformat())
    # The oldest are dropped when the next run is staged.
    assert set(table.refs()) == {"main", "dcrec_two", "dcrec_three", "dcrec_four"}


def test_what_joins_a_branch_after_it_was_read_back_is_not_published(spark: SparkSession) -> None:
    warehouse = IcebergWarehouse(spark, "lake.late", 2, RUN_DATE)
    warehouse.check()
    staged = warehouse.stage("run", tables_of(spark, "run", 1, LISTS), {})
    late = tables_of(spark, "late", 1, LISTS)["recommendations"]
    late.writeTo(f"lake.late.recommendations.branch_dcrec_staged_{staged.token}").append()
    with pytest.raises(ConflictError, match="something else was written to branch"):
        warehouse.commit(staged, record("run"))
    assert spark.table("lake.late.recommendations").count() == 0


def test_a_database_of_its_catalog_s_name_is_published_to_and_rolled_back(spark: SparkSession) -> None:
    """Iceberg's procedures would take the database's name alone for the catalog's."""
    warehouse = IcebergWarehouse(spark, "sea.sea", 2, RUN_DATE)
    warehouse.check()
    for run_id in ("one", "two"):
        publish(warehouse, run_id, tables_of(spark, run_id, 1, LISTS), lambda _: record("any"))
        assert {row["run_id"] for row in spark.table("sea.sea.recommendations").collect()} == {run_id}
    warehouse.restore("one")
    assert {row["run_id"] for row in warehouse.shown("recommendations").collect()} == {"one"}
