"""What is ranked in the driver's process: no more than it may hold. The lists themselves are those of test_rank.py."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel
from dcrec_spark.models.outcome import rank_in_process
from dcrec_spark.models.outcome.rank_in_process import are_few, as_lists
from tests.frames import frame_of


def test_rows_lists_and_columns_together_have_to_be_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten users with lists of four, and fifty items: a hundred rows."""
    monkeypatch.setattr(rank_in_process, "LOCAL_ROWS", 100)
    assert are_few(10, 50, 4)
    assert not are_few(10, 51, 4)


def test_scores_have_to_be_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_in_process, "LOCAL_SCORES", 70)
    assert are_few(10, 7, 4)
    assert not are_few(10, 8, 4)


def test_lists_begin_at_the_first_rank() -> None:
    columns = {"row_id": ["a", "a", "b"], "rank": [1, 2, 1], "col_id": [5, 3, 9], "score": [2.0, 1.5, 0.25]}
    lists = as_lists(pa.table(columns), "who", "what")
    assert lists.to_pylist() == [
        {"who": "a", "recommendations": [{"what": 5, "rating": 2.0}, {"what": 3, "rating": 1.5}]},
        {"who": "b", "recommendations": [{"what": 9, "rating": 0.25}]},
    ]


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    rows = [(u, i, float((u * i) % 5 + 1)) for u in range(6) for i in range(5) if (u + i) % 3]
    return frame_of(spark, rows, "user int, item short, rating double")


@pytest.fixture(scope="module")
def model(ratings: DataFrame) -> Iterator[DeconfoundedMFModel]:
    fitted = DeconfoundedMF(outcome="probabilistic", rank=2, exposureRank=2, maxIter=2).fit(ratings)
    yield fitted
    fitted.release()


def test_pairs_to_leave_out_are_made_once_and_too_many_are_none_of_this_process(
    spark: SparkSession, model: DeconfoundedMFModel
) -> None:
    made = spark.sparkContext.accumulator(0)

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made.add(batch.num_rows)
            yield batch

    pairs = spark.range(43, numPartitions=2).selectExpr("id row_id", "id col_id")
    pairs = pairs.mapInArrow(noted, "row_id long, col_id long")
    vectors = model.scoringVectors()
    sides = rank_in_process.Sides(vectors.users, vectors.items, vectors.intercept, vectors.form, None)
    assert rank_in_process.rank_in_process(sides, 2, pairs, 43) is not None
    assert made.value == 43
    assert rank_in_process.rank_in_process(sides, 2, pairs, 42) is None


@pytest.mark.parametrize("rows", [None, 0], ids=["here", "on the cluster"])
def test_nobody_to_rank_for_and_nothing_to_rank(
    spark: SparkSession,
    model: DeconfoundedMFModel,
    ratings: DataFrame,
    rows: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables without rows, of the same types as others."""
    if rows is not None:
        monkeypatch.setattr(rank_in_process, "LOCAL_ROWS", rows)
    usual = model.recommendationTable(2, ratings)
    strangers = frame_of(spark, [(99,)], "user int")
    nothing = frame_of(spark, [(99,)], "item int")
    for empty in (
        model.recommendationTable(2, ratings, users=strangers),
        model.recommendationTable(2, ratings, items=nothing),
    ):
        assert empty.count() == 0
        assert empty.dtypes == usual.dtypes
    assert dict(usual.dtypes)["item_id"] == "smallint"
    lists = model.recommendForUserSubset(strangers, 2)
    assert lists.count() == 0
    assert lists.dtypes == model.recommendForAllUsers(2).dtypes


def test_ids_of_another_width_are_the_same(spark: SparkSession, model: DeconfoundedMFModel, ratings: DataFrame) -> None:
    wide = ratings.selectExpr("cast(user as long) as user", "cast(item as long) as item")
    found, expected = (
        model.recommendationTable(3, seen).orderBy("user_id", "rank").collect() for seen in (wide, ratings)
    )
    assert found == expected
