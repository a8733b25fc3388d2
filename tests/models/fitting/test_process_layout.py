"""exchange="local" and "auto": few ratings are fitted in the driver's process, and the model is the cluster's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.process import ProcessSide
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import Driver, LayoutSettings
from dcrec_spark.models.fitting.places import places
from dcrec_spark.models.fitting.process_layout import CollectedPairs
from tests.models.data_sets import NAMES, NUMBERS

VALUES = {"rating": "`rating`"}


def laid_out(
    ratings: DataFrame,
    resources: FitResources,
    exchange: str = "auto",
    blocks: int | None = None,
    width: int = 8,
    driver: Driver | None = None,
    **limits: int,
) -> Layout:
    settings = LayoutSettings(blocks, exchange, "float64", width, **limits)
    return lay_out(ratings, "user", "item", VALUES, settings, resources, driver=driver)


@pytest.mark.parametrize(
    ("exchange", "blocks", "side"),
    [("auto", None, ProcessSide), ("local", 3, ProcessSide), ("auto", 2, ClusterSide), ("blocks", None, ClusterSide)],
)
def test_auto_fits_few_ratings_here_made_once(
    spark: SparkSession, exchange: str, blocks: int | None, side: type
) -> None:
    """Unless a number of blocks is set. What makes the ratings may take long, however many they are found to be."""
    ratings, made = NAMES.frame(spark), spark.sparkContext.accumulator(0)

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made.add(batch.num_rows)
            yield batch

    costly = ratings.mapInArrow(noted, ratings.schema)
    with FitResources() as resources:
        assert isinstance(laid_out(costly, resources, exchange, blocks).users, side)
    assert made.value == ratings.count()


UNLIMITED = Driver(np.inf, np.inf, np.inf, False)
AUTO = LayoutSettings(None, "auto", "float64", 100)


def is_local(size: int, rows: int | None = None, settings: LayoutSettings = AUTO, **limits: Any) -> bool:
    """Of ratings of 24 bytes. rows : users and items; None: they are not counted, as it makes no difference."""
    return settings.is_local(size, 24, lambda: rows, UNLIMITED._replace(**limits))


def test_auto_goes_to_a_cluster_that_there_is_with_fewer() -> None:
    assert is_local(2_000_000, has_cluster=True)
    assert not is_local(2_000_001, has_cluster=True)
    assert is_local(200_000_000, 1000)
    assert not is_local(200_000_001)


def test_a_fit_in_the_drivers_process_has_room_there() -> None:
    """Ten million ratings of 24 bytes take 1.1 GB, a million rows at width 100 take 3.2 GB, of the heap as well."""
    assert is_local(10_000_000, 1000, memory=2.3e9, heap=1e8, results=1e7)
    assert not is_local(10_000_000, 1000, memory=2.1e9)
    assert is_local(10_000_000, 1_000_000, memory=8.7e9, heap=6.4e9)
    assert not is_local(10_000_000, 1_000_000, memory=8.6e9)
    assert not is_local(10_000_000, 1_000_000, heap=6.3e9)
    asked = LayoutSettings(None, "local", "float64", 100)
    with pytest.raises(ConfigError, match=r"10,000,000 ratings .* its memory \(7.5 GB, of which half\), its JVM"):
        is_local(10_000_000, 1_000_000, asked, memory=8e9, heap=2e9, has_cluster=True)


def test_ratings_pass_through_the_jvm_in_portions() -> None:
    """An eighth of the heap at once, and half of what Spark collects: 240 MB of ratings."""
    ten_million = 10_000_000, 24
    assert UNLIMITED.portions(*ten_million) == UNLIMITED.portions(0, 24) == 1
    assert [UNLIMITED._replace(heap=heap).portions(*ten_million) for heap in (1.92e9, 1.91e9, 1e9)] == [1, 2, 2]
    assert UNLIMITED._replace(heap=1e9, results=1e8).portions(*ten_million) == 5


def test_portions_are_all_pairs_once(spark: SparkSession) -> None:
    pairs = NAMES.frame(spark).withColumnsRenamed({"user": "user_id", "item": "item_id"})
    whole, portions = CollectedPairs(pairs, {}).table, CollectedPairs(pairs, {}, portions=3)
    order = [("user_id", "ascending"), ("item_id", "ascending")]
    assert portions.table.num_rows == whole.num_rows
    assert portions.table.sort_by(order).to_pydict() == whole.sort_by(order).to_pydict()
    assert portions.take().num_rows == whole.num_rows
    assert "table" not in vars(portions)


def test_too_many_ratings_are_not_collected(spark: SparkSession) -> None:
    many = {"local_rows": 3, "largest_local_rows": 3}
    with FitResources() as resources:
        assert isinstance(laid_out(NAMES.frame(spark), resources, **many).users, ClusterSide)
        with pytest.raises(ConfigError, match=r"exchange=local: \d+ ratings would be collected"):
            laid_out(NAMES.frame(spark), resources, "local", **many)


@pytest.mark.parametrize("exchange", ["local", "blocks"])
def test_what_cannot_be_laid_out_is_named_alike(spark: SparkSession, exchange: str) -> None:
    ratings = NUMBERS.frame(spark)
    with (
        FitResources() as resources,
        pytest.raises(DataError, match=r"user \S+ has more than one rating of item \S+: every"),
    ):
        laid_out(ratings.unionByName(ratings.limit(1)), resources, exchange)
    with FitResources() as resources, pytest.raises(DataError, match="all ratings are of one user"):
        laid_out(ratings.where(F.col("user") == ratings.first()["user"]), resources, exchange)


_FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("ids", "wanted", "found"),
    [
        ([7, 5, 9], [5, 8, 9, 7, 4, 10], [1, -1, 2, 0, -1, -1]),
        ([-3, -1], [-1, -3, -2, 0, _FAR, -_FAR - 1], [1, 0, -1, -1, -1, -1]),
        ([5, _FAR], [_FAR, 5, 6], [1, 0, -1]),
        ([5, 6], [6, None], [1, -1]),
        ([], [1], [-1]),
        (["b", "a"], ["a", "c", "b"], [1, -1, 0]),
    ],
    ids=["near one another", "extremes are outside", "far from one another", "null", "no ids", "strings"],
)
def test_places_of_ids(ids: list[Any], wanted: list[Any], found: list[int]) -> None:
    kind = pa.string() if "a" in ids else pa.int64()
    assert places(pa.chunked_array([wanted[:1], wanted[1:]], kind), pa.array(ids, kind)).tolist() == found
