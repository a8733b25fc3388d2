"""What tables of Iceberg and Delta say is new since the last run, by nights that read them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run
from tests.jobs.job import SMALL
from tests.warehouse.commands import dcrec_with

pytestmark = pytest.mark.warehouse

RATINGS = [(user, item, 1.0 + (user * item) % 5) for user in range(12) for item in range(10) if (user + item) % 3]
COLUMNS = "user long, item long, rating double"
COUNTS = ("new_pairs", "changed_pairs", "gone_pairs")

Night = Callable[[], dict[str, Any]]


def nights_of(table: str, output: Path) -> Night:
    """A night that skips where nothing is new, and counts what is; it gives the record of the run that is served."""
    settings = {
        **SMALL,
        "input.format": "table",
        "input.table": table,
        "input.unchanged": "skip",
        "input.count_news": True,
    }
    overrides = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]

    def night() -> dict[str, Any]:
        finished = dcrec_with("retrain", *overrides, "--set", f"output.path={output}")
        assert finished.exit_code == 0, finished.output
        record: dict[str, Any] = current_run(str(output)).record
        return record

    return night


def made(spark: SparkSession, table: str, provider: str) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
    spark.createDataFrame(RATINGS, COLUMNS).writeTo(table).using(provider).create()


@pytest.mark.parametrize(("table", "provider"), [("sea.news.ratings", "iceberg"), ("news_delta.ratings", "delta")])
def test_a_snapshot_says_what_is_new(spark: SparkSession, tmp_path: Path, table: str, provider: str) -> None:
    made(spark, table, provider)
    night = nights_of(table, tmp_path / "out")
    first = night()
    assert first["since"] is None
    assert "new_pairs" not in first["counts"]

    assert night() == first
    (skipped,) = (tmp_path / "out" / "skipped").iterdir()
    assert '"validate"' not in (skipped / "run.json").read_text()  # not a row was read

    spark.sql(f"INSERT INTO {table} VALUES (0, 0, 4.0), (50, 1, 2.0)")
    spark.sql(f"UPDATE {table} SET rating = 6 - rating WHERE user = 2 AND rating <> 3")
    spark.sql(f"DELETE FROM {table} WHERE user = 3")
    second = night()
    changed = sum(user == 2 and rating != 3 for user, _, rating in RATINGS)
    gone = sum(user == 3 for user, _, _ in RATINGS)
    assert second["since"] == first["run_id"]
    assert [second["counts"][name] for name in COUNTS] == [2, changed, gone]
    assert min(changed, gone) > 0


def test_a_delta_table_that_was_made_anew_is_not_taken_for_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    """Its versions begin at 0 again."""
    table = "news_again.ratings"
    made(spark, table, "delta")
    night = nights_of(table, tmp_path / "out")
    first = night()
    spark.sql(f"DROP TABLE {table}")
    spark.createDataFrame([(user + 1, item, rating) for user, item, rating in RATINGS], COLUMNS).writeTo(table).using(
        "delta"
    ).create()
    second = night()
    assert second["run_id"] != first["run_id"]
    assert second["input_snapshot"] == first["input_snapshot"]
    assert second["since"] is None


def test_a_snapshot_that_is_gone_is_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, "sea.news.short", "iceberg")
    night = nights_of("sea.news.short", tmp_path / "out")
    first = night()
    spark.sql("INSERT OVERWRITE sea.news.short SELECT user + 1, item, rating FROM sea.news.short")
    spark.sql(
        "CALL sea.system.expire_snapshots("
        "table => 'news.short', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    second = night()
    assert second["since"] is None
    (warning,) = (text for text in second["warnings"] if "what is new" in text)
    assert f"snapshot {first['input_snapshot']} of sea.news.short cannot be read any more" in warning
