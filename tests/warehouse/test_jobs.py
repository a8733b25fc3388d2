"""The job with warehouses, on an object store and on HDFS: killed, run again, listed, rolled back by one command."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run, current_run_id
from dcrec_spark.publish.delta import DeltaWarehouse
from dcrec_spark.publish.hive import HiveWarehouse
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import ParquetSink, verify
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from tests.jobs.job import SMALL, options_of, read_table
from tests.steps import at_first
from tests.warehouse.commands import FULL, RATINGS, dcrec_with, done, ended, error_of, killed, settings_file, states_of
from tests.warehouse.judges import Judge, hadoop_judge, postgresql_judge
from tests.warehouse.objects import BUCKET, CREDENTIALS, ObjectStore
from tests.warehouse.servers import Hdfs, Postgresql

pytestmark = pytest.mark.warehouse


@pytest.fixture(scope="module")
def settings(scratch: Path, postgresql: Postgresql) -> Path:
    (scratch / "ratings.csv").write_text(RATINGS)
    return settings_file(
        scratch,
        "nightly",
        input={"path": str(scratch / "ratings.csv"), "format": "csv"},
        output={"path": str(scratch / "nightly")},
        warehouses={
            "iceberg": "lake.nightly",
            "postgresql": {"url": postgresql.url, "user": "publisher", "namespace": "nightly"},
        },
    )


def places_named(name: str, scratch: Path) -> dict[str, object]:
    return {
        "output.path": scratch / name,
        "warehouses.iceberg": f"lake.{name}",
        "warehouses.postgresql.namespace": name,
    }


def judges_of(scratch: Path, database: psycopg.Connection, namespace: str) -> list[Judge]:
    return [hadoop_judge(scratch, namespace), postgresql_judge(database, namespace)]


def test_a_run_publishes_the_same_rows_everywhere(settings: Path, scratch: Path, database: psycopg.Connection) -> None:
    own = {**places_named("gate", scratch), "recommend.extra": "[overlap]"}
    done("retrain", "--config", settings, *options_of(own))
    run, judges = current_run(str(scratch / "gate")), judges_of(scratch, database, "gate")
    directory = Path(run.directory.removeprefix("file://"))
    verify(str(directory))
    figures = ["ratings", "effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high"]
    for table, columns, rows in (
        ("recommendations", ["user_id", "rank", "item_id", "score"], 12 * SMALL["recommend.top_n"]),
        ("user_overlap", ["user_id", *figures], 12),
        ("item_overlap", ["item_id", *figures], 10),
    ):
        expected = read_table(directory, table)[columns].sort_values(columns[:2], ignore_index=True)
        assert len(expected) == rows
        for judge in judges:
            found = judge(table)
            assert set(found["run_id"]) == {run.run_id}
            found = found[columns].sort_values(columns[:2], ignore_index=True)
            pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False, obj=table)


@pytest.mark.long
def test_killed_between_two_warehouses_the_same_command_ends_whole_and_rollback_takes_all_places_back(
    settings: Path, scratch: Path, database: psycopg.Connection, record_property: Any
) -> None:
    record_property("tried", 3)
    output, command = str(scratch / "nightly"), ["retrain", "--config", str(settings)]
    judges = judges_of(scratch, database, "nightly")

    def everywhere() -> list[list[str]]:
        return [sorted(judge("recommendations")["run_id"]) for judge in judges]

    done(*command)
    first = str(current_run_id(output))
    whole = everywhere()
    assert whole == [[first] * len(whole[0])] * 2

    killed(IcebergWarehouse, command, "show", after=True)  # of several tables
    killed(PostgresqlWarehouse, command, "_show", after=True)  # inside its transaction
    assert current_run_id(output) == first
    (in_iceberg, *_), in_postgresql = everywhere()
    assert in_postgresql == whole[1]
    assert in_iceberg != first

    killed(ParquetSink, command)
    assert current_run_id(output) == first
    assert everywhere()[0] == everywhere()[1]
    assert set(everywhere()[1]).isdisjoint({first, in_iceberg})

    done(*command)
    second = str(current_run_id(output))
    assert everywhere() == [[second] * len(whole[0])] * 2
    published = current_run(output).record["warehouses"].items()
    rows = {kind: place["tables"]["recommendations"] for kind, place in published}
    assert rows == dict.fromkeys(("iceberg", "postgresql"), len(whole[0]))
    states = states_of(done("runs", "--config", settings).stdout)
    assert states[first] == ["held"] * 3
    assert states[second] == ["current"] * 3
    assert states[in_iceberg] == ["held"]  # the killed run, in Iceberg only

    done("rollback", first, "--config", settings)
    assert current_run_id(output) == first
    assert everywhere() == whole

    refused = dcrec_with("rollback", in_iceberg, "--config", settings)
    assert refused.exit_code == 3
    assert "is not held in output, postgresql; held everywhere:" in error_of(refused)
    assert first in error_of(refused)
    assert current_run_id(output) == first


@pytest.mark.long
def test_killed_in_hive_and_delta_the_same_command_ends_whole(
    settings: Path, scratch: Path, record_property: Any
) -> None:
    """In processes of their own, one after the other: the metastore of these tests is one process's at a time."""
    record_property("tried", 2)
    derby = "spark.conf.spark.hadoop.javax.jdo.option.ConnectionURL"
    own = {
        "output.path": scratch / "apart",
        "warehouses.iceberg": "null",
        "warehouses.postgresql.url": "null",
        "warehouses.hive": "apart_hive",
        "warehouses.delta": "apart_delta",
        "spark.conf.spark.sql.catalogImplementation": "hive",
        derby: f"jdbc:derby:;databaseName={scratch}/metastore-apart;create=true",
        "spark.conf.spark.sql.warehouse.dir": scratch / "apart-warehouse",
    }
    given = ["--config", settings, *options_of(own)]
    ended(["retrain", *given], 0)
    first = current_run_id(str(scratch / "apart"))
    for place in (HiveWarehouse, DeltaWarehouse):
        killed(place, ["retrain", *given], "show", after=True)
        assert current_run_id(str(scratch / "apart")) == first
    ended(["retrain", *given], 0)
    second = current_run_id(str(scratch / "apart"))
    states = states_of(ended(["runs", *given], 0)[0])
    assert states[str(second)] == ["current"] * 3
    assert states[str(first)] == ["held"] * 3
    lists = DeltaTable(str(scratch / "apart-warehouse" / "apart_delta.db" / "recommendations")).to_pyarrow_table()
    assert set(lists["run_id"].to_pylist()) == {second}


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "size"),
    [(IcebergWarehouse, "300M"), (IcebergWarehouse, "16M"), (PostgresqlWarehouse, "300M")],
    ids=["staging to Iceberg", "as Spark starts", "staging to PostgreSQL"],
)
def test_a_local_disk_that_is_full_ends_with_7_and_leaves_the_tables_of_before(
    place: type, size: str, settings: Path, scratch: Path, database: psycopg.Connection
) -> None:
    name = f"full_{place.__name__}_{size}".lower()
    disk = scratch / f"{name}-disk"
    disk.mkdir()
    own = {**places_named(name, scratch), "spark.conf.spark.local.dir": disk}
    command = ["retrain", "--config", settings, *options_of(own)]
    done(*command)
    before = current_run_id(str(scratch / name))
    full = FULL.format(place=place, size=size, disk=str(disk))
    _, errors = ended(command, 7, full, ("unshare", "--map-root-user", "--mount"))
    assert "a disk is full" in errors
    assert current_run_id(str(scratch / name)) == before
    assert [set(judge("recommendations")["run_id"]) for judge in judges_of(scratch, database, name)] == [{before}] * 2


def test_a_warehouse_that_is_not_there_is_refused_before_anything_is_fitted(settings: Path) -> None:
    for override, message in {
        "warehouses.postgresql.url=jdbc:postgresql://127.0.0.1:1/db": "setting warehouses.postgresql.url is",
        "warehouses.iceberg=nowhere.shop": "warehouses.iceberg is 'nowhere.shop', which Spark",
        "warehouses.iceberg=lake.`x`": "warehouses.iceberg is 'lake.`x`'; expected catalog.data",
        "warehouses.iceberg=lake": "expected catalog.database",
    }.items():
        refused = dcrec_with("retrain", "--dry-run", "--config", settings, "--set", override)
        assert refused.exit_code == (8 if "127.0.0.1:1/" in override else 2)
        assert message in error_of(refused)


def on_a_store(scratch: Path, name: str, place: str, conf: dict[str, str]) -> Path:
    sections = {"input": {"path": f"{place}/ratings.csv", "format": "csv"}, "output": {"path": f"{place}/nightly"}}
    return settings_file(scratch, name, conf, **sections, model={"checkpoint_seconds": 1})


def test_any_file_system_takes_the_record_of_a_run_in_a_warehouse(scratch: Path, spark: SparkSession) -> None:
    """By viewfs, which here leads to a folder: nothing is known of it. Without a warehouse it is refused."""
    folder, output = scratch / "any", "viewfs://shop/data/nightly"
    folder.mkdir()
    (folder / "ratings.csv").write_text(RATINGS)
    spark.conf.set("fs.viewfs.mounttable.shop.link./data", f"file://{folder}")
    ratings = {"path": str(folder / "ratings.csv"), "format": "csv"}
    settings = settings_file(scratch, "any", input=ratings, output={"path": output})
    refused = dcrec_with("retrain", "--dry-run", "--config", settings)
    assert refused.exit_code == 2, refused.output
    assert f"output.path is '{output}', and this client of viewfs: cannot tell which" in error_of(refused)
    with_iceberg = ["--config", settings, "--set", "warehouses.iceberg=lake.any"]
    runs, judge = [], hadoop_judge(scratch, "any")
    for number in (1, 2):
        done("retrain", *with_iceberg)
        runs.append(current_run(output, spark).run_id)
        assert set(judge("recommendations")["run_id"]) == {runs[-1]}
        assert [path.name for path in (folder / "nightly").glob("CURRENT*")] == [f"CURRENT.000000000{number}"]
    done("rollback", runs[0], *with_iceberg)
    assert set(judge("recommendations")["run_id"]) == {runs[0]}
    assert current_run(output, spark).record["warehouses"].keys() == {"iceberg"}


def test_a_run_on_s3_is_killed_run_again_rolled_back(scratch: Path, store: ObjectStore, spark: SparkSession) -> None:
    store.put("jobs/ratings.csv", RATINGS.encode())
    conf = {f"spark.hadoop.{name}": value for name, value in store.settings().items()}
    settings = on_a_store(scratch, "on-s3", f"s3a://{BUCKET}/jobs", conf)
    command = ["retrain", "--config", settings]
    outputs = [done(*command)]
    first = str(store.current("jobs/nightly"))
    whole = store.found("jobs/nightly")
    assert whole.run_ids == {first}

    killed(ObjectStoreSink, command)
    assert store.found("jobs/nightly") == whole

    outputs.append(done(*command))
    second = str(store.current("jobs/nightly"))
    assert second != first
    assert store.found("jobs/nightly") == (second, {second}, whole.rows)
    record = current_run(f"s3a://{BUCKET}/jobs/nightly", spark).record
    assert any("resuming an interrupted run" in warning for warning in record["warnings"])
    assert [key for key in store.keys("jobs/nightly/.") if not key.endswith("/")] == []

    outputs.append(done("runs", "--config", settings))
    states = states_of(outputs[-1].stdout)
    assert (states[first], states[second]) == (["held"], ["current"])
    outputs.append(done("rollback", first, "--config", settings))
    assert store.found("jobs/nightly") == whole

    outputs.append(done(*command, "--set", "model.warm_start=previous", "--set", "output.keep=2"))
    third = str(store.current("jobs/nightly"))
    assert third not in (first, second)
    assert store.keys(f"jobs/nightly/run_id={first}/") == []
    assert store.keys(f"jobs/nightly/run_id={second}/") != []

    secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    assert [key for key in store.keys("jobs/") if secret.encode() in store.get(key)] == []
    assert [result.output for result in outputs if secret in result.output] == []


def test_a_run_on_hdfs_goes_on(hdfs: Hdfs, scratch: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.createDataFrame([(RATINGS,)], "value string").coalesce(1).write.text(f"{hdfs.uri}/jobs/ratings.csv")
    settings, output = on_a_store(scratch, "on-hdfs", f"{hdfs.uri}/jobs", {}), f"{hdfs.uri}/jobs/nightly"

    def stop() -> None:
        raise KeyboardInterrupt("stopped by SIGTERM")

    at_first(monkeypatch, ParquetSink, "commit", stop)
    result = dcrec_with("retrain", "--config", settings)
    assert result.exit_code == 6, result.output
    assert current_run_id(output, spark) is None
    assert [path.name for path in hdfs.copy("/jobs/nightly").glob(".fit-*/*-*")] != []

    done("retrain", "--config", settings)
    record = current_run(output, spark).record
    assert any("resuming an interrupted run" in warning for warning in record["warnings"])
    copy = hdfs.copy("/jobs/nightly")
    run = copy / f"run_id={record['run_id']}"
    assert json.loads((run / "run.json").read_text())["status"] == "published"
    assert (run / "model" / "metadata").is_dir()
    assert [path.name for path in copy.iterdir() if path.name.startswith((".fit-", ".staging"))] == []
