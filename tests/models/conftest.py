"""Models of the small simulated data set that no test changes. Their tables are cached from the start."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from tests.models.data_sets import NAMES, RATED, exposure, outcome


def released_later(model: Any) -> Iterator[Any]:
    for table in model.tables() if hasattr(model, "tables") else (model.userFactors, model.itemFactors):
        table.count()
    yield model
    model.release()


@pytest.fixture(scope="session")
def stage_one(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    """String ids, each pair counted once, everything left to itself."""
    yield from released_later(exposure().fit(NAMES.frame(spark)))


@pytest.fixture(scope="session")
def fitted(spark: SparkSession) -> Iterator[DeconfoundedMFModel]:
    """Weighted, deconfounded, the exposure model fitted on the way."""
    yield from released_later(outcome(exposureModel=exposure()).fit(NAMES.frame(spark)))


@pytest.fixture(scope="session")
def rated(spark: SparkSession, stage_one: PoissonFactorizationModel) -> Iterator[DeconfoundedMFModel]:
    """Biases, a pooled weight of a logarithm of the exposure, without the pair's own."""
    yield from released_later(outcome(**RATED, exposureModel=stage_one).fit(NAMES.frame(spark)))
