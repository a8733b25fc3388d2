"""Simple baselines and histograms, compared with pandas and NumPy."""

import numpy as np
import pandas as pd
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from dcrec_spark.evaluation.baselines import BASELINES, GLOBAL_MEAN, ITEM_MEAN, POPULARITY, RANDOM, with_baselines
from dcrec_spark.evaluation.distributions import histogram
from tests.frames import frame_of

TRAINING = [("a", 1, 5.0), ("a", 2, 1.0), ("b", 1, 3.0), ("c", 1, 4.0), ("c", 3, 2.0)]
TEST = [("a", 3, 4.0), ("b", 2, 1.0), ("b", 4, 2.0)]
SCHEMA = "user_id string, item_id long, rating double"


def test_baselines(spark: SparkSession) -> None:
    training, test = frame_of(spark, TRAINING, SCHEMA), frame_of(spark, TEST, SCHEMA)
    scored = with_baselines(test, training, seed=3)
    assert scored.columns == ["user_id", "item_id", "rating", *BASELINES]
    of_training = [(3.0, 2.0, 1.0), (3.0, 1.0, 1.0), (3.0, 3.0, 0.0)]  # the last item has no training rating
    expected = frame_of(
        spark,
        [(*pair, *scores) for pair, scores in zip(TEST, of_training, strict=True)],
        f"{SCHEMA}, `{GLOBAL_MEAN}` double, `{ITEM_MEAN}` double, {POPULARITY} double",
    )
    assert_df_equality(scored.drop(RANDOM), expected, ignore_row_order=True, ignore_nullable=True)
    again = with_baselines(test.repartition(3), training.limit(1), seed=3)
    assert_df_equality(again.select(RANDOM), scored.select(RANDOM), ignore_row_order=True, ignore_nullable=True)
    assert all(0 < row[0] < 1 for row in again.select(RANDOM).collect())


def test_histograms(spark: SparkSession) -> None:
    few = histogram(frame_of(spark, [(v,) for v in (1.0, 3.0, 3.0, 5.0)], "x double"), "x")
    assert few.bars.to_numpy().tolist() == [[1, 1, 1], [3, 3, 2], [5, 5, 1]]
    assert (few.n, few.mean, few.deviation, few.lowest, few.highest) == (4, 3.0, np.sqrt(2), 1.0, 5.0)
    values = np.random.default_rng(0).normal(size=500)
    many = histogram(spark.createDataFrame(pd.DataFrame({"x": values})), "x").bars
    counts, edges = np.histogram(values, 20)
    assert many.n.tolist() == counts.tolist()
    assert many.low.tolist() == pytest.approx(edges[:-1])
    assert many.high.tolist() == pytest.approx(edges[1:])
