"""Propensities at the corner of their settings: a model that is saved and loaded, and predicts numbers."""

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel
from dcrec_spark.errors import DcrecError
from tests.frames import frame_of

PAIRS = [(user, item, 1.0 + (user * item) % 5) for user in range(6) for item in range(5) if (user + item) % 3]


def test_the_largest_mean_with_the_smallest_decay_is_fitted_and_saved(spark: SparkSession, tmp_path: Path) -> None:
    ratings = frame_of(spark, PAIRS, "user long, item long, rating double")
    corner = {"propensityMean": 1.0, "propensityDecay": 0.001, "propensityPivot": 5.0}
    model = DeconfoundedMF(adjustment="ipw", rank=2, maxIter=3, tol=0.0, **corner).fit(ratings)
    model.write().save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    predicted = {row["prediction"] for row in loaded.transform(ratings).collect()}
    assert len(predicted) > 1
    assert all(map(math.isfinite, predicted))
    assert {row["prediction"] for row in model.transform(ratings).collect()} == predicted
    assert loaded.getPropensityDecay() == corner["propensityDecay"]


def test_a_propensity_of_the_smallest_number_is_named(spark: SparkSession) -> None:
    """Its inverse is beyond every number."""
    rows = [(*pair, 5e-324 if number == 0 else 0.5) for number, pair in enumerate(PAIRS)]
    ratings = frame_of(spark, rows, "user long, item long, rating double, p double")
    with pytest.raises(DcrecError, match="propensity"):
        DeconfoundedMF(adjustment="ipw", rank=2, maxIter=3, propensityCol="p").fit(ratings)
