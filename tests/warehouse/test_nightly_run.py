"""One nightly run that publishes to a directory, Iceberg and PostgreSQL."""

from pathlib import Path

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import SMALL, read_table
from tests.warehouse.commands import dcrec_with
from tests.warehouse.judges import hadoop_judge, postgresql_judge

pytestmark = pytest.mark.warehouse

USERS, ITEMS = 12, 10
PAIRS = [(user, item) for user in range(USERS) for item in range(ITEMS) if (user + item) % 3]
RATINGS = ["user,item,rating", *(f"{user},{item},{1 + (user * item) % 5}" for user, item in PAIRS)]


def test_a_nightly_run_publishes_the_same_rows_to_parquet_iceberg_and_postgresql(
    spark: SparkSession, scratch: Path, postgresql: str, database: psycopg.Connection
) -> None:
    (scratch / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    output = scratch / "out"
    warehouses = {
        "iceberg": "lake.gate",
        "postgresql": {"url": postgresql, "user": "publisher", "namespace": "gate"},
    }
    config = scratch / "gate.yaml"
    config.write_text(yaml.safe_dump({"warehouses": warehouses}), encoding="utf-8")
    places = {"input.path": scratch / "ratings.csv", "input.format": "csv", "output.path": output}
    overrides = [part for name, value in {**SMALL, **places}.items() for part in ("--set", f"{name}={value}")]

    finished = dcrec_with("retrain", "--config", config, *overrides)

    assert finished.exit_code == 0, finished.output
    run = current_run(str(output))
    directory = Path(run.directory.removeprefix("file://"))
    verify(str(directory))
    columns = ["user_id", "rank", "item_id", "score"]
    expected = read_table(directory, "recommendations")[columns].sort_values(["user_id", "rank"], ignore_index=True)
    assert len(expected) == USERS * SMALL["recommend.top_n"]
    for judge in (hadoop_judge(scratch, "gate"), postgresql_judge(database, "gate")):
        found = judge("recommendations")
        assert set(found["run_id"]) == {run.run_id}
        for column in columns:
            in_order = sorted(zip(found["user_id"], found["rank"], found[column], strict=True))
            assert [value for _, _, value in in_order] == expected[column].tolist()
