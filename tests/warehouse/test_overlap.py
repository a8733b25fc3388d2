"""The tables of overlap of one night: every warehouse holds what the directory holds."""

from pathlib import Path

import pandas as pd
import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.jobs.job import read_table, run_directory
from tests.warehouse.commands import RATINGS, dcrec_with, small_run
from tests.warehouse.judges import Judge, delta_judge, jdbc_judge, postgresql_judge

pytestmark = pytest.mark.warehouse

SIDES = ("user", "item")


def test_every_warehouse_holds_the_tables_of_overlap(
    spark: SparkSession,
    scratch: Path,
    tmp_path: Path,
    postgresql: str,
    database: psycopg.Connection,
) -> None:
    settings = {
        **small_run(tmp_path, RATINGS),
        "recommend.extra": "[overlap]",
        "warehouses.hive": "seen_hive",
        "warehouses.iceberg": "sea.seen",
        "warehouses.delta": "seen_delta",
        "warehouses.postgresql.url": postgresql,
        "warehouses.postgresql.user": "publisher",
        "warehouses.postgresql.namespace": "seen",
    }
    result = dcrec_with("retrain", *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")))
    assert result.exit_code == 0, result.output
    judges: dict[str, Judge] = {
        "hive": lambda table: spark.table(f"seen_hive.{table}").toPandas(),
        "iceberg": jdbc_judge(scratch, "seen"),
        "delta": delta_judge(scratch, "seen_delta"),
        "postgresql": postgresql_judge(database, "seen"),
    }
    for side in SIDES:
        table, key = f"{side}_overlap", f"{side}_id"
        expected = read_table(run_directory(tmp_path / "out"), table).sort_values(key, ignore_index=True)
        assert len(expected) == {"user": 12, "item": 10}[side]
        for kind, judge in judges.items():
            found = judge(table)[expected.columns].sort_values(key, ignore_index=True)
            days = {str(pd.Timestamp(day).date()) for day in found.run_date}
            assert days == {str(expected.run_date[0])}, kind
            pd.testing.assert_frame_equal(
                found.drop(columns="run_date"),
                expected.drop(columns="run_date"),
                check_exact=True,
                obj=f"{kind} {table}",
            )
