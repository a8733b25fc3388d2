"""Models of the small simulated data set that no test changes. Their tables are cached from the start."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from tests.models.data_sets import NAMES, RATED, exposure, outcome


def with_tables_cached(model: Any) -> Any:
    for table in model.tables() if hasattr(model, "tables") else (model.userFactors, model.itemFactors):
        table.count()
    return model


@pytest.fixture(scope="session")
def stage_one(spark: SparkSession) -> PoissonFactorizationModel:
    """String ids, each pair counted once, everything left to itself."""
    return with_tables_cached(exposure().fit(NAMES.frame(spark)))


@pytest.fixture(scope="session")
def fitted(spark: SparkSession) -> DeconfoundedMFModel:
    """Weighted, deconfounded, the exposure model fitted on the way."""
    return with_tables_cached(outcome(exposureModel=exposure()).fit(NAMES.frame(spark)))


@pytest.fixture(scope="session")
def rated(spark: SparkSession, stage_one: PoissonFactorizationModel) -> DeconfoundedMFModel:
    """Biases, a pooled weight of a logarithm of the exposure, without the pair's own."""
    return with_tables_cached(outcome(**RATED, exposureModel=stage_one).fit(NAMES.frame(spark)))
