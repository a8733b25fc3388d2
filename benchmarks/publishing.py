"""Rows a second into PostgreSQL and Iceberg: a publication, beside Spark's own writers.

    python -m benchmarks.publishing --rows 1000000

A publication stages the rows where no reader looks, reads them back, compares, and makes them what readers find in one
step. Spark's writers only write. Needs what ``make test-warehouse`` installs. Each figure is the best of three.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from dcrec_spark.publish import schemas
from dcrec_spark.publish.iceberg import IcebergWarehouse
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.warehouse import Warehouse
from dcrec_spark.spark.session import build_session
from tests.warehouse.database import running_postgresql
from tests.warehouse.places import session_settings

TIMES, LENGTH, DAY = 3, 10, date(2026, 11, 20)


def lists(spark: SparkSession, rows: int) -> DataFrame:
    """Make a table of recommendations of so many rows."""
    number = F.col("id")
    made = spark.range(rows).select(
        (number / LENGTH).cast("long").alias("user_id"),
        (number % LENGTH + 1).cast("int").alias("rank"),
        F.pmod(F.xxhash64(number), F.lit(20_000)).alias("item_id"),
        *(F.rand(seed).alias(name) for seed, name in enumerate(("score", "preference", "confounder"))),
        F.lit("model").alias("model_version"),
        F.lit("run").alias("run_id"),
        F.lit(DAY).alias("run_date"),
    )
    return schemas.conform(made, schemas.recommendations(LongType(), LongType()), "recommendations")


def seconds(work: Callable[[], object]) -> float:
    """Return the shortest of some times."""
    taken = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def published(warehouse: Warehouse, table: DataFrame) -> Callable[[], object]:
    """Return what publishes the table as a new run."""
    warehouse.check()
    number = count()
    return lambda: publish(
        warehouse, f"run{next(number)}", {"recommendations": table}, lambda _: {"status": "published"}
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder, running_postgresql(Path(folder)) as (url, password):
        os.environ["PGPASSWORD"] = password
        spark = build_session("publishing", master="local[*]", conf=session_settings(Path(folder)))
        table = lists(spark, rows).persist()
        table.count()
        server = Server.open(url, "publisher", None, "benchmark")
        postgresql = PostgresqlWarehouse(spark, server, "bench", 2, DAY, lock_seconds=60)
        iceberg = IcebergWarehouse(spark, "lake.bench", 2, DAY)
        jdbc = table.write.format("jdbc").options(**server.jdbc()).option("dbtable", "plain")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
        works: dict[str, Callable[[], object]] = {
            "PostgreSQL, Spark's JDBC writer": lambda: jdbc.mode("overwrite").save(),
            "PostgreSQL, a publication": published(postgresql, table),
            "Iceberg, Spark's writer": lambda: table.writeTo("lake.plain.lists").using("iceberg").createOrReplace(),
            "Iceberg, a publication": published(iceberg, table),
        }
        lines = [f"| {name} | {rows / seconds(work):,.0f} |" for name, work in works.items()]
        postgresql.close()
        spark.stop()
    print(f"{rows:,} rows, {len(os.sched_getaffinity(0))} cores, pyspark {version('pyspark')}\n")
    print("\n".join(["| what | rows a second |", "| --- | --- |", *lines]))


if __name__ == "__main__":
    main()
