"""What cannot be fitted is refused in words, and a fit leaves the session as it found it."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine import convergence
from dcrec_spark.errors import ConfigError, DataError, FitError
from dcrec_spark.spark import lineage
from tests.frames import frame_of
from tests.models.data_sets import NUMBERS, cached, exposure, outcome

SCHEMA = "reader string, book string, stars double, views long"
GOOD = [("ann", "emma", 5.0, 1), ("ann", "ivanhoe", 2.0, 3), ("bob", "emma", 4.0, 1)]
NAMED = {"userCol": "reader", "itemCol": "book"}


def rating_model() -> DeconfoundedMF:
    return outcome(**NAMED, ratingCol="stars", adjustment="none", maxIter=1)


def counting_model() -> PoissonFactorization:
    return exposure(**NAMED, countCol="views", maxIter=1)


@pytest.fixture
def untouched(spark: SparkSession) -> Iterator[None]:
    """After the test, the session's settings are what they were before it, and it has left nothing in the caches.

    What others left may go in the meantime, when the JVM collects it.
    """
    before_all = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    no_plan, before = cached(spark)
    yield
    still_no_plan, after = cached(spark)
    assert still_no_plan == no_plan
    assert after <= before
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    spark.conf.set("spark.sql.adaptive.enabled", before_all)


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    good = frame_of(spark, GOOD, SCHEMA)
    for column in ("reader", "book", "stars"):
        with pytest.raises(DataError, match=rf"column '{column}' is missing: the input has .*map the names"):
            rating_model().fit(good.drop(column))
    for estimator in (counting_model(), outcome(**NAMED, ratingCol="stars", exposureModel=counting_model())):
        with pytest.raises(DataError, match="column 'views' is missing"):
            estimator.fit(good.drop("views"))


@pytest.mark.parametrize(
    ("column", "sql_type", "expected"),
    [
        ("stars", "string", r"'stars' is of type string, expected numbers"),
        ("reader", "decimal(9,2)", r"'reader' is of type decimal\(9,2\): ids are strings or whole numbers"),
        ("book", "struct<a:int>", r"'book' is of type struct<a:int>: ids are strings or whole numbers"),
    ],
)
def test_a_column_of_the_wrong_type_is_named(spark: SparkSession, column: str, sql_type: str, expected: str) -> None:
    types = {"reader": "string", "book": "string", "stars": "double", column: sql_type}
    schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
    with pytest.raises(DataError, match=expected):
        rating_model().fit(frame_of(spark, [], schema))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*GOOD, (None, "emma", 3.0, 1)], "1 of 4 rows cannot be used: reader is null"),
        ([*GOOD, ("bob", None, 3.0, 1)], "1 of 4 rows cannot be used: book is null"),
        ([*GOOD, ("bob", "ivanhoe", None, 1)], "1 of 4 rows cannot be used: stars is null"),
        ([*GOOD, ("bob", "ivanhoe", float("nan"), 1)], "1 of 4 rows cannot be used: stars is NaN or infinite"),
        ([*GOOD, ("bob", "ivanhoe", float("-inf"), 1)], "1 of 4 rows cannot be used: stars is NaN or infinite"),
        ([*GOOD, ("bob", "ivanhoe", -1.0, 1)], "1 of 4 rows cannot be used: stars is negative"),
        ([*GOOD, ("ann", "emma", 5.0, 1)], "user 'ann' has more than one rating of item 'emma'"),
        ([], "the input has no rows"),
        (GOOD[:2], "all ratings are of one user"),
        (GOOD[::2], "all ratings are of one item"),
    ],
)
def test_rows_that_cannot_be_fitted_are_described(spark: SparkSession, rows: list[Any], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        rating_model().fit(frame_of(spark, rows, SCHEMA))


def test_a_frame_of_pandas_is_refused_by_the_call_that_makes_one_of_spark() -> None:
    with pytest.raises(TypeError, match=r"found a pandas DataFrame, .*spark\.createDataFrame\(\.\.\.\) makes one"):
        rating_model().fit(pd.DataFrame(GOOD))


def test_a_fraction_is_no_id(spark: SparkSession) -> None:
    rows = [(1.0, 2.0, 3.0), (2.0, 3.0, 4.0), (2.5, 2.0, 3.0)]
    with pytest.raises(DataError, match="1 of 3 rows cannot be used: reader is null, or no whole number"):
        rating_model().fit(frame_of(spark, rows, "reader double, book double, stars double"))


def test_a_count_that_cannot_be_used_is_described(spark: SparkSession) -> None:
    for count, expected in ((None, "views is null"), (-2, "views is negative")):
        with pytest.raises(DataError, match=expected):
            counting_model().fit(frame_of(spark, [*GOOD, ("bob", "ivanhoe", 3.0, count)], SCHEMA))


def test_a_cluster_needs_a_checkpoint_directory(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "is_local", lambda session: False)
    monkeypatch.setattr(SparkContext, "getCheckpointDir", lambda self: None)
    for estimator in (rating_model(), counting_model()):
        with pytest.raises(ConfigError, match=r"no checkpoint directory is set.*spark\.checkpoint_dir"):
            estimator.fit(frame_of(spark, GOOD, SCHEMA))


@pytest.mark.usefixtures("untouched")
def test_a_released_model_leaves_nothing_behind(spark: SparkSession) -> None:
    stage_one = exposure(exchange="broadcast", maxIter=1)
    model = outcome(exchange="blocks", maxIter=1, exposureModel=stage_one).fit(NUMBERS.frame(spark))
    assert not cached(spark)[0]
    model.release()


@pytest.mark.usefixtures("untouched")
def test_a_fit_that_goes_astray_leaves_nothing_behind(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An objective that moves the wrong way, which the right updates cannot do, ends the fit."""
    record = convergence.History.record

    def wrong_way(self: convergence.History, value: float) -> bool:
        return record(self, value + 1e6 * len(self.values) if self.stage == "outcome" else value)

    monkeypatch.setattr(convergence.History, "record", wrong_way)
    estimator = outcome(exchange="blocks", exposureModel=exposure(maxIter=1))
    with pytest.raises(FitError, match="outcome: the objective rose from"):
        estimator.fit(NUMBERS.frame(spark))


def test_a_refused_exposure_model_leaves_nothing_behind(spark: SparkSession) -> None:
    data = NUMBERS.frame(spark)
    stage_one = exposure(maxIter=1).fit(data.where("item <> 3"))
    assert min(stage_one.userFactors.count(), stage_one.itemFactors.count()) > 0  # read once, they are cached
    before = cached(spark)
    with pytest.raises(DataError, match="item ids, such as 3, are not in the fitted exposure model"):
        outcome(exposureModel=stage_one).fit(data)
    assert cached(spark) == before
