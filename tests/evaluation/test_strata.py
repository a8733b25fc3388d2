"""Strata by training ratings: as many as the numbers allow, and the metrics of what lies in each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.metrics import evaluate
from dcrec_spark.evaluation.strata import bounds_of, evaluate_strata
from tests.frames import frame_of


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 30), min_size=1), st.integers(1, 5))
def test_strata_hold_every_number_once_and_are_no_more_than_asked_for(sizes: dict[int, int], most: int) -> None:
    count = np.array(sorted(sizes))
    bounds = bounds_of(count, np.array([sizes[c] for c in count.tolist()]), most)
    assert 1 <= len(bounds) <= min(most, len(count))
    assert [sum(low <= c <= high for low, high, _ in bounds) for c in count.tolist()] == [1] * len(count)
    of_each = [sum(sizes[c] for c in sizes if low <= c <= high) for low, high, _ in bounds]
    assert [members for *_, members in bounds] == of_each
    assert bounds == sorted(bounds)
    assert bounds_of(np.arange(1, 10), np.full(9, 5), 3) == [(1, 3, 15), (4, 6, 15), (7, 9, 15)]


def test_strata_are_evaluations_of_their_users_and_of_their_items(spark: SparkSession) -> None:
    """All users have two training ratings; items have none, one and three."""
    training = frame_of(
        spark, [(u, i) for u, items in enumerate(([1, 2], [2, 3], [2, 3])) for i in items], "user int, item int"
    )
    rows = [(u, i, float(1 + (u + i) % 5), float(u * i % 3)) for u in range(3) for i in range(4)]
    test = frame_of(spark, rows, "user int, item int, rating double, prediction double")
    plain = MetricSettings(replications=0)
    strata = evaluate_strata(test, training, settings=plain)
    assert [stratum[:4] for stratum in strata] == [
        ("user", 2, 2, 3),
        ("item", 0, 0, 1),
        ("item", 1, 2, 2),
        ("item", 3, 3, 1),
    ]
    assert [stratum.numbers for stratum in strata] == ["2", "0", "1 to 2", "3"]
    for stratum, items in zip(strata, ((0, 1, 2, 3), (0,), (1, 3), (2,)), strict=True):
        squares = [(prediction - rating) ** 2 for _, item, rating, prediction in rows if item in items]
        assert stratum.metrics.estimates()["mse"][::3] == (pytest.approx(sum(squares) / len(squares)), len(squares))
    resampled = MetricSettings(replications=20)
    found, of_items = evaluate_strata(test, training, settings=resampled)[2], test.where("item in (1, 3)")
    expected = evaluate(of_items, settings=resampled)
    assert found.metrics.counts == expected.counts
    estimates = [np.array(list(of.estimates().values()), float) for of in (found.metrics, expected)]
    assert np.isfinite(estimates[1]).any(axis=0).all()
    np.testing.assert_allclose(estimates[0], estimates[1], rtol=1e-9)
    with pytest.raises(ConfigError, match="most: found 0"):
        evaluate_strata(test, training, most=0)
