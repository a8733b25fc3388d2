"""An interrupted fit, run again, continues where it was, with Spark's tables. Families are tested in test_blocks.py."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization
from dcrec_spark.models.fitting.stages import KeptSweep
from dcrec_spark.spark.compat import collect_arrow, frame_of_arrow
from tests.frames import frame_of
from tests.models.fitting.test_blocks import Memory

SETTINGS: dict[str, Any] = {"rank": 2, "maxIter": 3, "tol": 0.0, "seed": 3}


class Tables(Memory):
    """Keeps the rows of Spark's tables."""

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        rows = {name: frame_of_arrow(table.sparkSession, collect_arrow(table)) for name, table in sweep.tables.items()}
        super().keep(stage, replace(sweep, tables=rows))


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    pairs = [(u, i) for u, i in itertools.product(range(9), range(7)) if (u * i + u) % 3]
    return frame_of(spark, [(u, i, 1.0 + (u * i) % 5) for u, i in pairs], "user int, item int, rating double")


def fit(ratings: DataFrame, memory: Memory | None, **settings: Any) -> DeconfoundedMFModel:
    exposure = PoissonFactorization(**SETTINGS, exchange=settings["exchange"])
    estimator = DeconfoundedMF(**SETTINGS, **settings, exposureModel=exposure)
    exposure.checkpoints = estimator.checkpoints = memory
    return estimator.fit(ratings)


def numbers(model: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    tables = [table.orderBy("id").drop("id").toPandas() for table in (model.userFactors, model.itemFactors)]
    return np.concatenate([np.hstack(row) for table in tables for row in table.to_numpy()])


@pytest.mark.parametrize(
    ("exchange", "settings", "sweeps"),
    [
        ("local", {"outcome": "probabilistic"}, [1, 5]),
        pytest.param("blocks", {"outcome": "weighted", "solver": "cg"}, [5], marks=pytest.mark.long),
    ],
)
def test_interrupted_fit_ends_as_one_that_was_not(
    ratings: DataFrame, exchange: str, settings: dict[str, Any], sweeps: list[int]
) -> None:
    """Interrupted in stage 1 and in stage 2."""
    settings = {"exchange": exchange, **settings}
    whole = fit(ratings, None, **settings)
    for made in sweeps:
        memory = Tables(made)
        with pytest.raises(KeyboardInterrupt):
            fit(ratings, memory, **settings)
        memory.left = float("inf")
        resumed = fit(ratings, memory, **settings)
        assert memory.made == 2 * SETTINGS["maxIter"]  # no sweep is made twice
        np.testing.assert_allclose(resumed.objectiveHistory, whole.objectiveHistory, rtol=1e-10)
        elbo, expected = (model.exposureModel.elboHistory for model in (resumed, whole))
        np.testing.assert_allclose(elbo, expected, rtol=1e-10)
        np.testing.assert_allclose(numbers(resumed), numbers(whole), rtol=1e-7, atol=1e-9)
        resumed.release()
    whole.release()
