"""Ratings out of warehouses: Hive, Iceberg and Delta as of a snapshot, PostgreSQL; runs that skip a known one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from dcrec_spark.config.sections import InputConfig
from dcrec_spark.data.listed import read_listed
from dcrec_spark.data.read import pin_snapshot, read_ratings
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.publish.current import current_run
from dcrec_spark.spark.jars import Jar, bring_jars
from tests.jobs.job import SMALL, options_of
from tests.warehouse.commands import PAIRS, done
from tests.warehouse.servers import Postgresql

pytestmark = pytest.mark.warehouse

ROWS = [(1, 10, 3.0), (1, 11, 4.0), (2, 10, 5.0)]
LATER = [(3, 12, 1.0)]
OF_AVRO = "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d"
AVRO = Jar("org.apache.spark", "spark-avro_2.13", "4.1.1", sha256=OF_AVRO)
COLUMNS = "user long, item long, rating double"


def create(spark: SparkSession, table: str, provider: str, rows: list[tuple[int, int, float]]) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
    spark.createDataFrame(rows, COLUMNS).writeTo(table).using(provider).create()


def found(spark: SparkSession, given: InputConfig) -> list[tuple[int, int, float]]:
    rows = read_ratings(spark, given).select("user_id", "item_id", "rating").collect()
    return sorted((row[0], row[1], float(row[2])) for row in rows)


@pytest.mark.usefixtures("rest_catalog")
@pytest.mark.parametrize(
    ("table", "provider"),
    [("sea.inputs.ratings", "iceberg"), ("rest.inputs.ratings", "iceberg"), ("inputs_delta.ratings", "delta")],
)
def test_a_table_is_read_as_of_a_snapshot(spark: SparkSession, table: str, provider: str) -> None:
    create(spark, table, provider, ROWS)
    given = InputConfig(format="table", table=table)
    monday = pin_snapshot(spark, given)
    spark.createDataFrame(LATER, COLUMNS).writeTo(table).append()
    assert found(spark, monday) == ROWS
    tuesday = pin_snapshot(spark, given)
    assert tuesday.snapshot != monday.snapshot
    assert found(spark, tuesday) == [*ROWS, *LATER]
    assert pin_snapshot(spark, monday) == monday
    with pytest.raises(DataError, match="input table"):
        found(spark, given.model_copy(update={"snapshot": "123456789"}))


def test_a_hive_table_has_no_snapshots(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS inputs_hive")
    spark.createDataFrame(ROWS, COLUMNS).write.format("parquet").saveAsTable("inputs_hive.ratings")
    given = InputConfig(format="table", table="inputs_hive.ratings")
    assert pin_snapshot(spark, given) == given
    assert found(spark, given) == ROWS
    with pytest.raises(ConfigError, match="is neither an Iceberg nor a Delta table"):
        pin_snapshot(spark, given.model_copy(update={"snapshot": "1"}))
    with pytest.raises(DataError, match="there is no such table"):
        pin_snapshot(spark, InputConfig(format="table", table="inputs_hive.nothing"))


def test_postgresql_is_an_input(spark: SparkSession, postgresql: Postgresql, database: psycopg.Connection) -> None:
    database.execute("create table ratings_in (reader bigint, book bigint, stars real)")
    database.execute("insert into ratings_in values (1, 10, 3), (1, 11, 4), (2, 10, 5)")
    database.execute("create table books_in (book bigint, shelf text)")
    database.execute("insert into books_in values (10, 'a'), (11, null)")
    options = {"url": postgresql.url, "user": "publisher", "password": os.environ["PGPASSWORD"]}
    columns = {"user": "reader", "item": "book", "rating": "stars"}
    known = {"format": "jdbc", "table": "ratings_in", "options": options, "columns": columns}
    given = InputConfig.model_validate(known)
    assert found(spark, given) == ROWS
    query = {**options, "query": "select * from ratings_in where stars > 3"}
    assert found(spark, given.model_copy(update={"options": query})) == ROWS[1:]
    books = read_listed(spark, "recommend.catalogue", "books_in", given, {"item": LongType()}, ("shelf",))
    assert sorted(map(tuple, books.collect())) == [(10, "a"), (11, None)]
    with pytest.raises(DataError, match=r"recommend.catalogue 'books_in' has no column 'price'"):
        read_listed(spark, "recommend.catalogue", "books_in", given, {"item": LongType()}, ("price",))
    with pytest.raises(ConfigError, match=r"input.format=jdbc; expected null"):
        pin_snapshot(spark, given.model_copy(update={"snapshot": "1"}))


def test_avro_is_read_with_the_archive_of_this_spark(spark: SparkSession, scratch: Path, tmp_path: Path) -> None:
    given = InputConfig(format="avro", path=str(tmp_path / "ratings"))
    with pytest.raises(DataError, match=r"set spark\.conf\.spark\.jars\.packages=org\.apache\.spark:spark-avro"):
        found(spark, given)
    (archive,) = bring_jars(scratch, [AVRO])
    spark.sql(f"ADD JAR {archive}")
    spark.createDataFrame(ROWS, COLUMNS).write.format("avro").save(str(tmp_path / "ratings"))
    assert found(spark, given) == ROWS


def runs_of(table: str, output: Path) -> Callable[[], dict[str, Any]]:
    settings = {**SMALL, "input.format": "table", "input.table": table, "input.unchanged": "skip"}

    def run() -> dict[str, Any]:
        done("retrain", *options_of({**settings, "output.path": output}))
        return dict(current_run(str(output)).record)

    return run


def pairs(first_user: int = 0) -> list[tuple[int, int, float]]:
    return [(user + first_user, item, rating) for user, item, rating in PAIRS]


def test_a_snapshot_that_was_fitted_to_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    create(spark, "sea.news.ratings", "iceberg", pairs())
    run = runs_of("sea.news.ratings", tmp_path / "out")
    first = run()
    assert run() == first
    (skipped,) = (tmp_path / "out" / "skipped").iterdir()
    assert '"validate"' not in (skipped / "run.json").read_text()  # not a row was read
    spark.sql("INSERT INTO sea.news.ratings VALUES (0, 0, 4.0)")
    assert run()["run_id"] != first["run_id"]


def test_a_delta_table_that_was_created_again_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its versions begin at 0 again."""
    create(spark, "news_again.ratings", "delta", pairs())
    run = runs_of("news_again.ratings", tmp_path / "out")
    first = run()
    spark.sql("DROP TABLE news_again.ratings")
    create(spark, "news_again.ratings", "delta", pairs(first_user=1))
    second = run()
    assert second["run_id"] != first["run_id"]
    assert second["input_snapshot"] == first["input_snapshot"]
