"""Vectors in PostgreSQL: the index finds what the exact lists hold, and their inner products are the scores."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from dcrec_spark.publish import schemas
from dcrec_spark.publish.content import content_of
from dcrec_spark.publish.current import current_run
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from tests.warehouse.commands import dcrec_with, small_night
from tests.warehouse.test_stores import RATINGS
from tests.warehouse.world import RUN_DATE, record

pytestmark = pytest.mark.warehouse

USERS, ITEMS, FACTORS, LENGTH = 200, 5000, 25, 10
ASK = (
    "select id from {schema}.item_vectors order by vector <#> "
    "(select vector from {schema}.user_vectors where id = %s) limit %s"
)


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    """Users and items as factors are: many small numbers, some items much liked."""
    rng = np.random.default_rng(7)
    items = rng.normal(size=(ITEMS, FACTORS)) * rng.gamma(2.0, 0.5, size=(ITEMS, 1))
    return {"user_vectors": rng.normal(size=(USERS, FACTORS)), "item_vectors": items}


def test_the_index_finds_most_of_what_is_best_and_runs_swap_in_one_step(
    spark: SparkSession,
    postgresql: str,
    database: psycopg.Connection,
    vectors: dict[str, np.ndarray],
    record_property: Callable[[str, object], None],
) -> None:
    server = Server.open(postgresql, "publisher", None, "test")
    warehouse = PostgresqlWarehouse(spark, server, "near", 2, RUN_DATE, lock_seconds=10, index_vectors=True)
    warehouse.check()

    def tables(run_id: str, sign: float) -> dict[str, object]:
        stamp = ("model", run_id, RUN_DATE)
        return {
            name: spark.createDataFrame(
                [(number, (sign * row).tolist(), *stamp) for number, row in enumerate(rows)],
                schemas.vectors(LongType()),
            )
            for name, rows in vectors.items()
        }

    for run_id, sign in (("first", -1.0), ("second", 1.0)):
        publish(warehouse, run_id, tables(run_id, sign), lambda _, run_id=run_id: record(run_id))  # type: ignore[arg-type, misc]
    plan = database.execute(f"explain {ASK.format(schema='near')}", [3, LENGTH]).fetchall()
    assert any("Index Scan using" in line for (line,) in plan)
    exact = np.argsort(-(vectors["user_vectors"] @ vectors["item_vectors"].T), axis=1)[:, :LENGTH]
    query = ASK.format(schema="near")
    hits = [
        len({item for (item,) in database.execute(query, [user, LENGTH]).fetchall()} & set(exact[user]))
        for user in range(USERS)
    ]
    recall = sum(hits) / (USERS * LENGTH)
    record_property("recall", recall)
    assert recall > 0.9
    assert next((run.run_id, run.current) for run in warehouse.kept()) == ("second", ("item_vectors", "user_vectors"))
    (stored,) = database.execute("select vector::text from near.item_vectors where id = 17").fetchone() or ("",)
    assert np.array_equal(np.array(stored.strip("[]").split(","), np.float32), vectors["item_vectors"][17].astype("f4"))
    warehouse.restore("first")
    assert database.execute("select distinct run_id from near.user_vectors").fetchall() == [("first",)]
    warehouse.close()


def test_the_inner_product_of_published_vectors_is_the_published_score(
    spark: SparkSession, postgresql: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    settings = {
        **small_night(tmp_path, RATINGS),
        "outcome.outcome": "probabilistic",
        "outcome.unobserved_weight": 0,
        "outcome.fit_biases": "true",
        "recommend.vectors": "true",
        "recommend.exclude_seen": "false",
        "recommend.top_n": 4,
        "warehouses.postgresql.url": postgresql,
        "warehouses.postgresql.user": "publisher",
        "warehouses.postgresql.namespace": "scored",
        "warehouses.postgresql.index_vectors": "true",
    }
    result = dcrec_with("retrain", *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")))
    assert result.exit_code == 0, result.output
    run = current_run(str(tmp_path / "out"))
    query = """
        select r.user_id, r.item_id, r.score, -(u.vector <#> i.vector) from scored.recommendations r
        join scored.user_vectors u on u.id = r.user_id join scored.item_vectors i on i.id = r.item_id"""
    rows = database.execute(query).fetchall()
    assert len(rows) == 4 * 12
    products = np.array([row[3] for row in rows]) + run.record["intercept"]
    assert np.allclose(products, [row[2] for row in rows], rtol=1e-5, atol=1e-5)
    ask = ASK.format(schema="scored")
    for user in {row[0] for row in rows}:
        found = [item for (item,) in database.execute(ask, [user, 4]).fetchall()]
        assert set(found) == {row[1] for row in rows if row[0] == user}
    lists = spark.read.parquet(f"{run.directory}/user_vectors")
    assert content_of(lists).rows == 12
