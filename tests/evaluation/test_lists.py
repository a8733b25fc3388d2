"""What lists consist of, against a count by hand."""

import pytest
from pyspark.sql import SparkSession

from dcrec_spark import describe_lists
from dcrec_spark.errors import DataError

# Items a, b, c, d have 6, 3, 1 and 0 ratings.
RATINGS = [(item,) for item, count in {"a": 6, "b": 3, "c": 1}.items() for _ in range(count)]
LISTS = [(1, "a"), (1, "b"), (2, "b"), (2, "d"), (3, "b"), (3, "c"), (4, "a"), (4, "c")]


def test_lists_are_described_as_by_hand(spark: SparkSession) -> None:
    lists = spark.createDataFrame(LISTS, "user_id int, item_id string")
    found = describe_lists(lists, spark.createDataFrame(RATINGS, "item_id string"), 3)
    assert (found.lists, found.places, found.items, found.short) == (4, 8, 4, 4)
    assert found.rare_share == pytest.approx(6 / 8)
    assert found.rarest_share == pytest.approx(3 / 8)
    assert found.largest_share == pytest.approx(3 / 4)
    # Places: a twice, b three times, c twice, d once. A rating is of a with 6 in 10, of b with 3, of c with 1.
    assert found.relative_popularity == pytest.approx(((2 * 6 + 3 * 3 + 2 * 1) / 8) / ((36 + 9 + 1) / 10))
    rare, same = found.warnings
    assert "75% of the places" in rare
    assert "outcome.bias_reg" in rare
    assert "one item stands in 75% of all lists" in same


def test_lists_of_well_known_and_varied_items_raise_no_warning(spark: SparkSession) -> None:
    lists = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "user_id int, item_id string")
    ratings = spark.createDataFrame([(item,) for item in "abc" for _ in range(5)], "item_id string")
    found = describe_lists(lists, ratings)
    assert found.warnings == []
    assert found.relative_popularity == pytest.approx(1.0)
    assert "3 lists of 3 items, the most listed item in 33% of them, 0.0% of the places" in found.summary
    without_ratings = describe_lists(lists, None)
    assert (without_ratings.items, without_ratings.warnings) == (3, [])
    assert without_ratings.summary == "3 lists of 3 items, the most listed item in 33% of them"
    with pytest.raises(DataError, match="no row of lists"):
        describe_lists(lists.limit(0), ratings.limit(0))
