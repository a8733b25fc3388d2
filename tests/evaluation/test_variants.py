"""What a model is compared with is scored and ranked by vectors, and nothing pretends to be a model."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.evaluation.variants import one_list_for_all, preference_alone
from tests.models.outcome.test_rank import INTERCEPT, ITEMS, USERS, Fitted, make_fitted


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> Iterator[Fitted]:
    made = make_fitted(spark, confounder=True)
    yield made
    made.model.release()


def test_the_preference_alone_has_no_confounder_part(spark: SparkSession, fitted: Fitted) -> None:
    pairs = spark.createDataFrame([(user, item) for user in USERS for item in ITEMS], "user_id string, item_id int")
    scored = preference_alone(fitted.model.scoringVectors()).score(pairs, "alone")
    assert scored.columns == ["user_id", "item_id", "alone"]
    found = {(row.user_id, row.item_id): row.alone for row in scored.collect()}
    expected = fitted.scores.preference + INTERCEPT
    assert found == {(u, i): expected[n, m] for n, u in enumerate(USERS) for m, i in enumerate(ITEMS)}


def test_one_list_for_all_ranks_by_the_given_scores(spark: SparkSession, fitted: Fitted) -> None:
    """An item without a score has 0; equal scores go by the item."""
    scores = spark.createDataFrame([(ITEMS[3], 7.0), (ITEMS[1], 9.0)], "item_id int, score double")
    best = one_list_for_all(fitted.model.scoringVectors(), scores).best(3).collect()
    lists: dict[str, list[tuple[int, int, float]]] = {}
    for row in best:
        lists.setdefault(row.user_id, []).append((row.rank, row.item_id, row.score))
    expected = [(1, ITEMS[1], 9.0 + INTERCEPT), (2, ITEMS[3], 7.0 + INTERCEPT), (3, ITEMS[0], INTERCEPT)]
    assert {user: sorted(entries) for user, entries in lists.items()} == dict.fromkeys(USERS, expected)
