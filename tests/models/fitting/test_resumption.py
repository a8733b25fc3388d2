"""An interrupted fit, run again, continues where it was, with Spark's tables. Families are tested in test_blocks.py."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization
from dcrec_spark.models.fitting.resumption import KeptSweep
from tests.frames import frame_of

EXPOSURE: dict[str, Any] = {"rank": 2, "maxIter": 3, "tol": 0.0, "seed": 3}
OUTCOME: dict[str, Any] = {"rank": 2, "maxIter": 3, "tol": 0.0, "seed": 3}


class Memory:
    """Keeps every sweep, and dies after so many."""

    def __init__(self, sweeps: float = float("inf")) -> None:
        self.left, self.made, self.sweeps = sweeps, 0, dict[str, KeptSweep]()

    def is_due(self, stage: str, is_last: bool) -> bool:
        return True

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        rows = {name: table.sparkSession.createDataFrame(table.toArrow()) for name, table in sweep.tables.items()}
        self.sweeps[stage] = replace(sweep, tables=rows)
        self.made += 1
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def kept(self, stage: str) -> KeptSweep | None:
        return self.sweeps.get(stage)


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    pairs = [(u, i) for u, i in itertools.product(range(9), range(7)) if (u * i + u) % 3]
    return frame_of(spark, [(u, i, 1.0 + (u * i) % 5) for u, i in pairs], "user int, item int, rating double")


def fit(ratings: DataFrame, memory: Memory | None, **settings: Any) -> DeconfoundedMFModel:
    exposure = PoissonFactorization(**EXPOSURE, exchange=settings["exchange"])
    estimator = DeconfoundedMF(**OUTCOME, **settings, exposureModel=exposure)
    exposure.checkpoints = estimator.checkpoints = memory
    return estimator.fit(ratings)


def numbers(model: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    tables = [table.orderBy("id").drop("id").toPandas() for table in (model.userFactors, model.itemFactors)]
    return np.concatenate([np.hstack(row) for table in tables for row in table.to_numpy()])


@pytest.mark.parametrize(
    ("exchange", "settings", "sweeps"),
    [
        ("local", {"outcome": "probabilistic"}, [1, 3, 4, 6]),
        pytest.param("blocks", {"outcome": "weighted", "solver": "cg"}, [5], marks=pytest.mark.long),
    ],
)
def test_interrupted_fit_ends_as_one_that_was_not(
    ratings: DataFrame, exchange: str, settings: dict[str, Any], sweeps: list[int]
) -> None:
    """Interrupted in stage 1, between the stages, in stage 2, and after its last sweep."""
    settings = {"exchange": exchange, **settings}
    whole = fit(ratings, None, **settings)
    for made in sweeps:
        memory = Memory(made)
        with pytest.raises(KeyboardInterrupt):
            fit(ratings, memory, **settings)
        memory.left = float("inf")
        resumed = fit(ratings, memory, **settings)
        assert memory.made == EXPOSURE["maxIter"] + OUTCOME["maxIter"]  # no sweep is made twice
        np.testing.assert_allclose(resumed.objectiveHistory, whole.objectiveHistory, rtol=1e-10)
        assert resumed.exposureModel is not None
        assert whole.exposureModel is not None
        np.testing.assert_allclose(resumed.exposureModel.elboHistory, whole.exposureModel.elboHistory, rtol=1e-10)
        np.testing.assert_allclose(numbers(resumed), numbers(whole), rtol=1e-7, atol=1e-9)
        resumed.release()
    whole.release()
