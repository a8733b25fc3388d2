"""Weights that make held-out ratings stand for all pairs: on Spark as in this process, and what they are good for."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_arrays
from dcrec_spark.evaluation.weights import weigh_by_exposure, weights_by_exposure
from dcrec_spark.kernels.exposure import SMALLEST
from tests.frames import frame_of
from tests.reference.poisson import Array


def drawn(n: int = 500) -> Array:
    return np.random.default_rng(1).gamma(0.3, 1.0, n)


def test_a_weight_is_the_inverse_propensity_and_the_largest_are_cut(spark: SparkSession) -> None:
    a_hat = drawn()
    plain = 1 / np.maximum(1 - np.exp(-a_hat), SMALLEST)
    for share in (0.5, 0.95, 1.0):
        found = weights_by_exposure(a_hat, share)
        kept = np.isclose(found, plain, rtol=1e-12)
        assert share <= kept.mean()
        np.testing.assert_array_equal(found[~kept], found.max())
        # No further than the width of a bin beyond the quantile.
        assert found.max() <= np.quantile(plain, share, method="inverted_cdf") * np.exp(1 / 400)


def test_spark_has_the_same_weights_however_the_rows_lie(spark: SparkSession) -> None:
    a_hat = drawn()
    frame = frame_of(spark, list(enumerate(a_hat.tolist())), "item int, `expo.sure` double")
    for partitions in (1, 5):
        weighed = weigh_by_exposure(frame.repartition(partitions), "expo.sure", "how_much").orderBy("item")
        found = [row.how_much for row in weighed.collect()]
        np.testing.assert_allclose(found, weights_by_exposure(a_hat), rtol=1e-12)


def test_what_cannot_be_weighed_is_refused(spark: SparkSession) -> None:
    frame = frame_of(spark, [(1, 2.0, 3.0)], "item int, a_hat double, weight double")
    with pytest.raises(DataError, match="weight"):
        weigh_by_exposure(frame)
    with pytest.raises(DataError, match="exposure"):
        weigh_by_exposure(frame, "exposure")
    for share in (0.0, 1.5):
        with pytest.raises(ConfigError, match=f"share: found {share}, expected a share above 0, at most 1"):
            weights_by_exposure(drawn(), share)


def test_weighted_ratings_estimate_the_error_on_random_pairs() -> None:
    """Where exposures are known: the plain mean is off by a third, the weighted one is not."""
    rng = np.random.default_rng(3)
    rate = rng.gamma(0.5, 1.0, (200, 200))
    rating = np.where(rate > np.median(rate), 5.0, 2.0)  # what is come across pleases
    error = (rating - 5.0) ** 2  # of one who has seen nothing but that
    user, item = np.nonzero(rng.random(rate.shape) < 1 - np.exp(-rate))
    pairs = {"user_key": user, "item": item, "item_key": item, "rating": rating[user, item]}
    predicted = {"five": np.full(len(user), 5.0)}
    settings = MetricSettings(replications=0)
    plain = evaluate_arrays(pairs, predicted, settings).as_dict()["mse"]
    weight = weights_by_exposure(rate[user, item], share=1.0)
    weighted = evaluate_arrays({**pairs, "weight": weight}, predicted, settings).as_dict()["mse"]
    assert plain < 0.67 * error.mean()
    assert weighted == pytest.approx(error.mean(), rel=0.1)
