"""A user of MLlib's ALS who tries its parameters is told ours, and gets the same model by the settings of the docs."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.models.params import NEAREST
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, params
from tests.frames import frame_of


def test_every_parameter_of_als_is_ours_too_or_has_a_nearest_one_that_is() -> None:
    of_als = {name for name in inspect.signature(ALS.__init__).parameters if name != "self"}
    ours = params(OUTCOME).keys() | params(EXPOSURE).keys()
    assert of_als <= params(OUTCOME).keys() | NEAREST.keys()
    assert all(set(names) <= ours for groups in NEAREST.values() for names in groups)


@pytest.mark.parametrize(
    ("estimator", "name", "words"),
    [
        (PoissonFactorization, "regParam", "which is MLlib's; nearest to it here: ratePrior"),
        (PoissonFactorization, "implicitPrefs", "explainParams() lists those it has"),
        (PoissonFactorization, "ranc", "did you mean rank?"),
        (DeconfoundedMF, "blockSize", "which is MLlib's; nearest to it here: numBlocks"),
        (DeconfoundedMF, "implicitPrefs", "nearest to it here: outcome (weighted is fitted to all pairs"),
        (DeconfoundedMF, "reg_param", "did you mean regParam?"),
        (DeconfoundedMF, "zzz", "explainParams() lists those it has"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(estimator: Any, name: str, words: str) -> None:
    for refuse in (estimator, estimator().setParams):
        with pytest.raises(TypeError, match=rf"^{estimator.__name__} has no parameter {name}.*{re.escape(words)}"):
            refuse(**{name: 3})


@pytest.fixture(scope="module")
def ratings(spark: SparkSession, data_folder: Path) -> DataFrame:
    """A fifth of MovieLens 100K, with ``held``, true for one rating in five."""
    table = np.loadtxt(data_folder / "ml-100k" / "u.data", dtype=np.int64)
    table = table[table[:, 0] % 5 == 0]
    held = np.random.default_rng(0).random(len(table)) < 0.2
    rows = [(int(u), int(i), float(r), bool(h)) for (u, i, r, _), h in zip(table, held, strict=True)]
    return frame_of(spark, rows, "user int, item int, rating double, held boolean")


def lists_of(model: Any, n: int) -> dict[int, set[int]]:
    return {row.user: {entry.item for entry in row.recommendations} for row in model.recommendForAllUsers(n).collect()}


def overlap(one: Any, other: Any, n: int = 20) -> float:
    lists = lists_of(one, n), lists_of(other, n)
    return float(np.mean([len(lists[0][user] & lists[1][user]) / n for user in lists[0]]))


@pytest.mark.long
def test_explicit_als_is_the_classical_model_with_a_prior_by_count(ratings: DataFrame) -> None:
    train, held_out = ratings.where("not held"), ratings.where("held")
    als, other_seed = (
        ALS(rank=4, maxIter=20, regParam=0.1, seed=seed, userCol="user", coldStartStrategy="drop").fit(train)
        for seed in (1, 2)
    )
    same = {"fitBiases": False, "fitIntercept": False, "regByCount": True, "regParam": 0.1}
    ours = DeconfoundedMF(adjustment="none", rank=4, maxIter=40, seed=1, coldStartStrategy="drop", **same).fit(train)
    square = F.avg((F.col("rating") - F.col("prediction")) ** 2)
    theirs_error, error = (model.transform(held_out).agg(square).first()[0] for model in (als, ours))
    assert error == pytest.approx(theirs_error, rel=0.02)
    # The optimum depends on the start: two seeds of ALS differ as much.
    assert overlap(als, ours) > 0.8 * overlap(als, other_seed)


@pytest.mark.long
def test_implicit_als_of_ones_is_the_weighted_model(ratings: DataFrame) -> None:
    """A count of 1 has weight 1 + alpha in both, and is the 1 that both are fitted to."""
    train = ratings.where("not held").withColumn("rating", F.lit(1.0))
    als = ALS(rank=4, maxIter=20, regParam=0.05, alpha=3.0, implicitPrefs=True, seed=1, userCol="user").fit(train)
    counts = DeconfoundedMF.forCounts(rank=4, alpha=3.0, regParam=0.05, maxIter=40, seed=1)
    ours = counts.setParams(adjustment="none", fitIntercept=False, regByCount=True).fit(train)
    assert overlap(als, ours) > 0.8
