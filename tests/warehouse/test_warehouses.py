"""What holds for every warehouse: readers find one run's tables, whole, whatever is published or taken back."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.publish import warehouse as warehouses
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Several
from dcrec_spark.publish.warehouse import StagedTables
from tests.spark.standalone import ROOT
from tests.steps import at_first
from tests.warehouse.judges import Opened, Place, directory_judge, sqlite_catalog
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

# The steps of the protocol, once for each sink: catalogs of Iceberg differ in where readers find a table.
SINKS = ("hive", "iceberg behind sqlite", "delta", "postgresql", "redis")
RUNS, LISTS = ("runs",), ("recommendations",)
KINDS = (*SINKS, "iceberg in a folder", "iceberg behind rest")


@pytest.fixture(params=SINKS)
def place(request: pytest.FixtureRequest, opened: Opened) -> Place:
    return opened(request.param)


def names_in_postgresql(place: Place) -> list[str]:
    query = "select tablename from pg_tables where schemaname = %s"
    with place.warehouse.server.connect("test") as reader:
        return [name for (name,) in reader.execute(query, [place.namespace]).fetchall()]


def leftovers(place: Place, spark: SparkSession) -> list[str]:
    warehouse, namespace = place.warehouse, place.warehouse.namespace
    if place.kind == "redis":  # keys of runs that were never shown, and what tells that some are being written
        client = warehouse.server.connect()
        held = set(client.hkeys(f"{namespace}:runs"))
        keys = [key.split(":") for key in client.scan_iter(f"{namespace}:*")]
        return [":".join(key) for key in keys if key[1:] == ["staging"] or (len(key) > 2 and key[1] not in held)]
    if place.kind.startswith("iceberg"):
        refs = spark.sql(f"select name from {namespace}.recommendations.refs where name like 'dcrec_staged%'").collect()
        return [row["name"] for row in refs]
    if place.kind == "postgresql":
        names = names_in_postgresql(place)
    else:
        names = [row["tableName"] for row in spark.sql(f"show tables in {namespace}").collect()]
    shown = {table: warehouse.now(table) for table in place.names}
    return [name for name in names if "__" in name and not name.endswith(str(shown[name.split("__")[0]]))]


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_second_run_replaces_the_first_and_going_back_brings_it_whole(place: Place, spark: SparkSession) -> None:
    place.publish("monday")
    keys = ["user_id", "rank"]
    found = place.judge("recommendations").sort_values(keys, ignore_index=True)
    sent = place.tables("monday")["recommendations"].toPandas().sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(found[sent.columns].astype(sent.dtypes), sent)
    if "item_factors" in place.names:
        factors = place.judge("item_factors").set_index("id")
        assert np.array_equal(factors.loc[7, "features"], [0.1, 2.0**-1074])
        assert factors.loc[7, "exposure_shape"] is None
    if "runs" in place.names:
        assert list(place.judge("runs")["warnings"][0]) == ["it's", 'a "warning"', ""]
    place.publish("tuesday", users=3)
    assert place.shows("tuesday", users=3)
    assert sorted(set(place.judge("recommendations")["user_id"])) == sorted(IDS[:3])
    assert leftovers(place, spark) == [] or place.kind in ("hive", "postgresql")  # they hold monday's tables
    held = {run.run_id: (set(run.tables), set(run.current)) for run in place.warehouse.runs()}
    assert held == {"monday": (set(place.names), set()), "tuesday": (set(place.names), set(place.names))}
    place.warehouse.restore("monday")
    assert place.shows("monday")
    with pytest.raises(DataError, match=r"run sunday is not held in .*monday"):
        place.warehouse.restore("sunday")


def test_committed_twice_counts_once_and_of_two_publishers_the_first_wins(place: Place, spark: SparkSession) -> None:
    warehouse = place.warehouse
    base = warehouse.base()
    first, second = (place.stage(name) for name in ("first", "second"))
    warehouse.commit(first, record("first"))
    warehouse.commit(first, record("first"))
    assert place.shows("first")
    with pytest.raises(ConflictError, match="run second was not published"):
        warehouse.commit(second, record("second"))
    warehouse.discard(second)
    warehouse.verify(first)
    with pytest.raises(ConflictError, match="shows run first, published after this run began"):
        warehouse.stage("stale", place.tables("stale"), {}, base)
    assert place.shows("first")
    assert leftovers(place, spark) == []


def test_a_rollback_before_the_verification_stays_and_the_run_is_held(place: Place) -> None:
    place.publish("old")
    staged = place.stage("new", users=3)
    place.warehouse.commit(staged, record("new"))
    place.warehouse.restore("old")
    place.warehouse.verify(staged)
    assert place.shows("old")
    assert {run.run_id for run in place.warehouse.runs()} == {"old", "new"}


def test_what_is_refused_or_taken_back_leaves_the_old_tables(place: Place, spark: SparkSession) -> None:
    place.publish("good")

    def refuse(staged: StagedTables) -> None:
        assert staged.contents["recommendations"].rows == 6
        assert place.shows("good")
        raise DcrecError("refused")

    with pytest.raises(DcrecError, match="refused"):
        place.publish("bad", users=3, audit=refuse)
    staged = place.stage("undone", users=3)
    place.warehouse.commit(staged, record("undone"))
    place.warehouse.undo(staged)
    place.warehouse.discard(staged)
    assert place.shows("good")
    assert leftovers(place, spark) == []
    assert {run.run_id for run in place.warehouse.runs() if run.current} == {"good"}


# The steps of the documentation, by what they speak of.
FORGETTING = re.findall(
    r"-- (\w+)\n(.*?)(?=\n *(?:--|```))", (ROOT / "docs/how-to/forget-a-user.md").read_text(), re.DOTALL
)


def holds(place: Place, scratch: Path, user: str, database: psycopg.Connection) -> bool:
    if place.kind == "postgresql":
        queries = [f'select t::text from "{place.namespace}"."{name}" t' for name in names_in_postgresql(place)]
        return any(user in text for query in queries for (text,) in database.execute(query))
    home = "sea/{}" if place.kind.startswith("iceberg") else "spark-warehouse/{}.db"
    found = (scratch / home.format(place.namespace)).rglob("*")
    files = [path for path in found if path.is_file() and "_delta_log" not in path.parts]
    parts = [pq.ParquetFile(path).read().to_pylist() for path in files if path.suffix == ".parquet"]
    others = [path.read_bytes() for path in files if path.suffix != ".parquet"]
    return any(user in row.values() for part in parts for row in part) or any(user.encode() in text for text in others)


@pytest.mark.parametrize("place", ["hive", "iceberg behind sqlite", "delta", "postgresql"], indirect=True)
def test_a_user_is_forgotten(place: Place, spark: SparkSession, scratch: Path, database: psycopg.Connection) -> None:
    place.warehouse.keep = 2
    gone = IDS[-4]
    place.publish("with", names=LISTS)
    assert holds(place, scratch, gone, database)
    for run_id in ("without-1", "without-2", "without-3"):
        place.publish(run_id, users=4, names=LISTS)
    for kind, statements in FORGETTING:
        if place.kind.startswith(kind.lower()):
            catalog = place.warehouse.namespace.partition(".")[0]
            own = statements.replace("shop.", f"{place.namespace}.").replace("CALL lake.", f"CALL {catalog}.")
            for statement in filter(None, map(str.strip, own.split(";"))):
                spark.sql(statement)
    assert not holds(place, scratch, gone, database)
    assert set(place.judge("recommendations")["run_id"]) == {"without-3"}
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def test_old_and_abandoned_tables_of_hive_go(
    opened: Opened, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = opened("hive", "clear", keep=2)
    hive = place.warehouse
    for run_id in ("one", "two", "three"):
        place.publish(run_id, 1, RUNS)
    abandoned = place.stage("dead", 1, RUNS)
    assert [run.run_id for run in hive.runs()] == ["two", "three"]
    assert len(hive.places_of("runs")) == 3  # the first one went with the fourth that is staged
    monkeypatch.setattr(warehouses, "ABANDONED_SECONDS", -1)
    hive.prune("runs")
    assert len(hive.places_of("runs")) == 2
    assert abandoned.places["runs"] not in hive.places_of("runs")
    assert spark.table("clear.runs").collect()[0]["run_id"] == "three"
    spark.sql("CREATE TABLE clear.mine (a int) USING parquet")
    with pytest.raises(ConfigError, match=r"clear\.mine is there and was not published by dcrec"):
        hive.stage("run", {"mine": spark.range(1)}, {})


def test_snapshots_name_their_run_and_only_kept_tags_stay(opened: Opened, scratch: Path) -> None:
    """In a database of its catalog's name, which alone Iceberg's procedures would take for the catalog's."""
    place = opened("iceberg behind sqlite", "sea", keep=2)
    for run_id in ("one", "two", "three", "four"):
        place.publish(run_id, 1, LISTS)
    table = sqlite_catalog(scratch).load_table("sea.recommendations")
    summary = table.current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert (summary["dcrec.run_id"], summary["dcrec.run_date"]) == ("four", RUN_DATE.isoformat())
    # The oldest are dropped when the next run is staged.
    assert set(table.refs()) == {"main", "dcrec_two", "dcrec_three", "dcrec_four"}
    place.warehouse.restore("three")
    assert set(place.judge("recommendations")["run_id"]) == {"three"}


def test_what_joins_a_branch_after_reading_it_back_is_refused(opened: Opened, spark: SparkSession) -> None:
    place = opened("iceberg in a folder", "late")
    staged = place.stage("run", 1, LISTS)
    late = place.tables("late", 1, LISTS)["recommendations"]
    late.writeTo(f"lake.late.recommendations.branch_dcrec_staged_{staged.token}").append()
    with pytest.raises(ConflictError, match="something else was written to branch"):
        place.warehouse.commit(staged, record("run"))
    assert spark.table("lake.late.recommendations").count() == 0


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_folders_and_names_that_are_none_are_refused(place: Place) -> None:
    tables = place.tables("monday")
    with pytest.raises(ConfigError, match=r"a warehouse holds tables only; found the folders .*model"):
        place.warehouse.stage("monday", tables, {"model": lambda uri: uri})
    with pytest.raises(ConfigError, match="table is"):
        place.warehouse.stage("monday", {'x"; drop table runs; --': tables["recommendations"]}, {})


def test_other_columns_than_the_table_has_are_named(opened: Opened, spark: SparkSession) -> None:
    delta = opened("delta", "columns").warehouse
    spark.sql("CREATE TABLE columns.runs (id int, old string) USING delta")
    expected = (
        r"columns\.runs has other columns than the run: found id int, new is not there, old string; "
        r"expected id bigint, new string, old is not there: alter the table"
    )
    with pytest.raises(ConfigError, match=expected):
        delta.stage("run", {"runs": spark.range(1).selectExpr("id", "'x' as new")}, {})


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
