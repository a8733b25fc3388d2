"""Ratings of the small simulated data set in this process, and its exposure model."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.local.fits import Exposure, Ratings, fit_exposure
from tests.models.data_sets import NAMES, exposure


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> Ratings:
    user, item = np.nonzero(NAMES.counts)
    return Ratings(user, item, NAMES.ratings[user, item], *NAMES.keys(spark))


@pytest.fixture(scope="module")
def stage_one(ratings: Ratings) -> Exposure:
    return fit_exposure(ratings, exposure())
