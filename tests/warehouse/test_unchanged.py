"""Runs that read a table of Iceberg or Delta, and skip if its snapshot is that of the published run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run
from tests.jobs.job import SMALL, options_of
from tests.warehouse.commands import dcrec_with

pytestmark = pytest.mark.warehouse

RATINGS = [(user, item, 1.0 + (user * item) % 5) for user in range(12) for item in range(10) if (user + item) % 3]
COLUMNS = "user long, item long, rating double"


def runs_of(table: str, output: Path) -> Callable[[], dict[str, Any]]:
    settings = {**SMALL, "input.format": "table", "input.table": table, "input.unchanged": "skip"}

    def run() -> dict[str, Any]:
        finished = dcrec_with("retrain", *options_of(settings), "--set", f"output.path={output}")
        assert finished.exit_code == 0, finished.output
        record: dict[str, Any] = current_run(str(output)).record
        return record

    return run


def create(spark: SparkSession, table: str, provider: str, first_user: int = 0) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
    rows = [(user + first_user, item, rating) for user, item, rating in RATINGS]
    spark.createDataFrame(rows, COLUMNS).writeTo(table).using(provider).create()


def test_a_snapshot_that_was_fitted_to_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    create(spark, "sea.news.ratings", "iceberg")
    run = runs_of("sea.news.ratings", tmp_path / "out")
    first = run()
    assert run() == first
    (skipped,) = (tmp_path / "out" / "skipped").iterdir()
    assert '"validate"' not in (skipped / "run.json").read_text()  # not a row was read
    spark.sql("INSERT INTO sea.news.ratings VALUES (0, 0, 4.0)")
    assert run()["run_id"] != first["run_id"]


def test_a_delta_table_that_was_created_again_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its versions begin at 0 again."""
    create(spark, "news_again.ratings", "delta")
    run = runs_of("news_again.ratings", tmp_path / "out")
    first = run()
    spark.sql("DROP TABLE news_again.ratings")
    create(spark, "news_again.ratings", "delta", first_user=1)
    second = run()
    assert second["run_id"] != first["run_id"]
    assert second["input_snapshot"] == first["input_snapshot"]
