"""Inverse-propensity weights on Spark: from ratings or from a column, capped, normalised to mean 1."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import DataError
from dcrec_spark.models.fitting.propensity import PropensitySettings, fit_propensity, propensity_from_counts
from tests.frames import frame_of
from tests.models.data_sets import NAMES, by_id, outcome

BY_RATING = {1.0: 30, 2.0: 20, 3.0: 25, 4.0: 15, 5.0: 10}


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    rows = [(rating, rating / 10.0) for rating, count in BY_RATING.items() for _ in range(count)]
    return frame_of(spark, rows, "stars double, p double")


def settings(**changes: Any) -> PropensitySettings:
    return PropensitySettings(**{"column": None, "cap": None, **changes})


def weights_of(ratings: DataFrame, chosen: PropensitySettings) -> dict[float, float]:
    fitted = fit_propensity(ratings, "stars", chosen)
    return {row[0]: row[1] for row in ratings.select("stars", fitted.weight("stars")).distinct().collect()}


def normalised(raw: dict[float, float]) -> dict[float, float]:
    mean = sum(raw[rating] * count for rating, count in BY_RATING.items()) / 100
    return {rating: weight / mean for rating, weight in raw.items()}


def test_weights_from_ratings_are_those_of_the_paper(ratings: DataFrame) -> None:
    """4 to the steps below 4; the scale k has the mean asked for, and cancels in the weights."""
    assert weights_of(ratings, settings()) == pytest.approx(normalised({1: 64, 2: 16, 3: 4, 4: 1, 5: 1}))
    k = fit_propensity(ratings, "stars", settings()).scale
    p = {rating: k * min(1.0, 0.25 ** (4 - rating)) for rating in BY_RATING}
    assert sum(p[r] * n for r, n in BY_RATING.items()) / 100 == pytest.approx(0.05)


def test_a_cap_holds_before_the_weights_are_normalised(ratings: DataFrame) -> None:
    k = fit_propensity(ratings, "stars", settings()).scale
    raw = {rating: min(100.0, 1 / (k * min(1.0, 0.25 ** (4 - rating)))) for rating in BY_RATING}
    assert raw[1.0] == raw[2.0] == 100.0 > raw[3.0]
    assert weights_of(ratings, settings(cap=100.0)) == pytest.approx(normalised(raw))


def test_propensities_may_come_from_a_column(ratings: DataFrame) -> None:
    expected = normalised({rating: 10.0 / rating for rating in BY_RATING})
    assert weights_of(ratings, settings(column="p")) == pytest.approx(expected)


def test_what_is_no_propensity_is_refused(ratings: DataFrame) -> None:
    for bad in ("0.0", "1.5", "-0.2", "5e-324D", "cast(null as double)", "double('NaN')"):
        broken = ratings.selectExpr("stars", f"if(stars = 5, {bad}, p) as p")
        with pytest.raises(DataError, match=r"10 rows have a propensity in column 'p' that is null or outside"):
            fit_propensity(broken, "stars", settings(column="p"))
    value, count = np.array([-60.0, 5.0]), np.array([3.0, 2.0])
    with pytest.raises(DataError, match="a rating of -60 has next to no propensity"):
        propensity_from_counts(value, count, settings())


def test_a_fit_takes_the_column_and_a_fold_in_the_scale_of_the_fit(spark: SparkSession) -> None:
    """Equal propensities weigh nothing: that is the classical fit. New users are weighted as the training was."""
    data = NAMES.frame(spark).selectExpr("*", "0.2 as p")
    plain = outcome(adjustment="none", maxIter=1).fit(data)
    equal = outcome(adjustment="ipw", propensityCol="p", maxIter=1).fit(data)
    np.testing.assert_allclose(equal.objectiveHistory, plain.objectiveHistory, rtol=1e-10)
    alone = data.where("user = 'zoë'")
    weighed = outcome(adjustment="ipw", maxIter=1).fit(data)
    mine, theirs = by_id(weighed.foldInUsers(alone)), by_id(weighed.userFactors.where("id = 'zoë'"))
    np.testing.assert_allclose(mine["features"], theirs["features"], rtol=1e-8)
