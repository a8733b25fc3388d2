"""Propensities that are next to nothing."""

import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF
from dcrec_spark.errors import DcrecError
from tests.frames import frame_of

PAIRS = [(user, item, 1.0 + (user * item) % 5) for user in range(6) for item in range(5) if (user + item) % 3]


def test_a_propensity_of_the_smallest_number_is_named(spark: SparkSession) -> None:
    """Its inverse is beyond every number."""
    rows = [(*pair, 5e-324 if number == 0 else 0.5) for number, pair in enumerate(PAIRS)]
    ratings = frame_of(spark, rows, "user long, item long, rating double, p double")
    with pytest.raises(DcrecError, match="propensity"):
        DeconfoundedMF(adjustment="ipw", rank=2, maxIter=3, propensityCol="p").fit(ratings)
