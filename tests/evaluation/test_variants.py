"""What a model is compared with is scored and ranked by vectors, and nothing pretends to be a model."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.evaluation.variants import one_list_for_all
from tests.models.outcome.test_rank import INTERCEPT, ITEMS, USERS, Fitted, make_fitted


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> Iterator[Fitted]:
    made = make_fitted(spark, confounder=True)
    yield made
    made.model.release()


def test_one_list_for_all_ranks_by_the_given_scores(spark: SparkSession, fitted: Fitted) -> None:
    """An item without a score has 0; equal scores go by the item."""
    scores = spark.createDataFrame([(ITEMS[3], 7.0), (ITEMS[1], 9.0)], "item_id int, score double")
    best = one_list_for_all(fitted.model.scoringVectors(), scores).best(3).collect()
    lists: dict[str, list[tuple[int, int, float]]] = {}
    for row in best:
        lists.setdefault(row.user_id, []).append((row.rank, row.item_id, row.score))
    expected = [(1, ITEMS[1], 9.0 + INTERCEPT), (2, ITEMS[3], 7.0 + INTERCEPT), (3, ITEMS[0], INTERCEPT)]
    assert {user: sorted(entries) for user, entries in lists.items()} == dict.fromkeys(USERS, expected)
