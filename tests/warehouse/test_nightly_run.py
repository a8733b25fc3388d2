"""One nightly run that publishes to a directory, Iceberg and PostgreSQL."""

from pathlib import Path

import pandas as pd
import psycopg
import pytest
import yaml

from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import SMALL, options_of, read_table
from tests.warehouse.commands import RATINGS, dcrec_with, small_run
from tests.warehouse.judges import hadoop_judge, postgresql_judge

pytestmark = pytest.mark.warehouse


def test_a_nightly_run_publishes_the_same_rows_to_parquet_iceberg_and_postgresql(
    scratch: Path, tmp_path: Path, postgresql: str, database: psycopg.Connection
) -> None:
    warehouses = {
        "iceberg": "lake.gate",
        "postgresql": {"url": postgresql, "user": "publisher", "namespace": "gate"},
    }
    config = tmp_path / "gate.yaml"
    config.write_text(yaml.safe_dump({"warehouses": warehouses}), encoding="utf-8")
    settings = {**small_run(tmp_path, RATINGS), "recommend.extra": "[overlap]"}

    finished = dcrec_with("retrain", "--config", config, *options_of(settings))

    assert finished.exit_code == 0, finished.output
    run = current_run(str(tmp_path / "out"))
    directory = Path(run.directory.removeprefix("file://"))
    verify(str(directory))
    recommendations = ["user_id", "rank", "item_id", "score"]
    figures = ["ratings", "effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high"]
    for table, columns, rows in (
        ("recommendations", recommendations, 12 * SMALL["recommend.top_n"]),
        ("user_overlap", ["user_id", *figures], 12),
        ("item_overlap", ["item_id", *figures], 10),
    ):
        expected = read_table(directory, table)[columns].sort_values(columns[:2], ignore_index=True)
        assert len(expected) == rows
        for judge in (hadoop_judge(scratch, "gate"), postgresql_judge(database, "gate")):
            found = judge(table)
            assert set(found["run_id"]) == {run.run_id}
            found = found[columns].sort_values(columns[:2], ignore_index=True)
            pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False, obj=table)
