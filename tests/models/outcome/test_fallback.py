"""The list for users without ratings: means of everybody's potential ratings."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.outcome.lists import fallback
from dcrec_spark.models.outcome.vectors import Offer, ScoringVectors
from tests.frames import frame_of
from tests.reference.poisson import Array

RNG = np.random.default_rng(3)
THETA, BETA = RNG.standard_normal((7, 3)), RNG.standard_normal((9, 3))
PI, LAMBDA = RNG.random((7, 2)), RNG.random((9, 2))


def vectors(spark: SparkSession, form: Form) -> ScoringVectors:
    columns = "idx long, id string, preference array<double>, confounder array<double>"

    def table(side: str, preference: Array, confounder: Array) -> DataFrame:
        rows = [(n, f"{side}{n}", preference[n].tolist(), confounder[n].tolist()) for n in range(len(preference))]
        return frame_of(spark, rows, columns)

    return ScoringVectors(table("u", THETA, PI), table("i", BETA, LAMBDA), 7, 9, 0.5, form)


def test_items_come_by_the_mean_of_all_potential_ratings(spark: SparkSession) -> None:
    scores = (THETA @ BETA.T + PI @ LAMBDA.T + 0.5).mean(axis=0)
    rows = fallback(vectors(spark, Form()), 4, None).orderBy("rank").collect()
    best = np.argsort(-scores)[:4]
    assert [(row["rank"], row["item_id"]) for row in rows] == [(n + 1, f"i{i}") for n, i in enumerate(best)]
    np.testing.assert_allclose([row["score"] for row in rows], scores[best])
    some = [f"i{i}" for i in best[1:3]]
    offered = fallback(vectors(spark, Form()), 4, Offer(frame_of(spark, [(item,) for item in some], "id string")))
    assert [row["item_id"] for row in offered.orderBy("rank").collect()] == some
    with pytest.raises(ConfigError, match="confounderLink=identity; this model has sqrt"):
        fallback(vectors(spark, Form("sqrt")), 4, None)
