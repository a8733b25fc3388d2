"""PoissonFactorization as its users call it: the dense reference's posterior by id, however the work is laid out."""

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark import PoissonFactorizationModel
from dcrec_spark.errors import DataError
from tests.models.data_sets import NAMES, NUMBERS, PRIORS, DataSet, Posterior, by_id, exposure
from tests.problems import assert_same
from tests.reference import poisson as dense


def assert_matches(spark: SparkSession, model: PoissonFactorizationModel, data: DataSet, counted: bool) -> None:
    state, elbo = data.exposure_reference(spark, counted)
    np.testing.assert_allclose(model.elboHistory, elbo, rtol=1e-7)
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    assert (users["id"], items["id"]) == (data.users, data.items)
    assert_same(users["shape"], state.user_shape, 1e-4)  # they converge to a tolerance
    assert_same(users["rate"], state.user_rate, 1e-8)
    assert_same(items["shape"], state.item_shape, 1e-8)
    assert_same(items["rate"], state.item_rate, 1e-8)


def test_fit_matches_the_dense_reference(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    assert_matches(spark, stage_one, NAMES, counted=False)
    assert (np.diff(stage_one.elboHistory) > 0).all()
    for factors in (stage_one.userFactors, stage_one.itemFactors):
        assert dict(factors.dtypes) == {"id": "string", "shape": "array<double>", "rate": "array<double>"}


def test_counts_of_exposures_match_the_dense_reference(spark: SparkSession) -> None:
    model = exposure(countCol="count", exchange="blocks").fit(NUMBERS.frame(spark))
    assert_matches(spark, model, NUMBERS, counted=True)


def test_transform_adds_the_expected_exposure(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    pairs = NAMES.all_pairs(spark).withColumn("note", F.lit(1))
    answer = stage_one.transform(pairs)
    assert answer.columns == ["user", "item", "note", "a_hat"]
    assert_same(NAMES.tables_of(answer)["a_hat"], Posterior.of(stage_one).a_hat, 1e-12)
    with pytest.raises(DataError, match="column 'a_hat' is there already, and exposureCol adds one"):
        stage_one.transform(answer)


def test_new_items_match_the_dense_reference(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    folded, users = stage_one.foldInItems(NAMES.frame(spark).where("item != '10'")), by_id(stage_one.userFactors)
    items = by_id(folded)
    chosen = [item != "10" for item in NAMES.items]
    assert items["id"] == [item for item in NAMES.items if item != "10"]
    nothing = np.ones((int(sum(chosen)), 2))
    mirrored = dense.State.of((nothing, nothing), (users["shape"], users["rate"]))
    priors = dense.Priors(PRIORS.item_shape, PRIORS.item_rate, PRIORS.user_shape, PRIORS.user_rate)
    data = dense.exposures_of(NAMES.observed.astype(float)[:, chosen].T)
    converged = dense.converged_users(mirrored, data, priors, updates=200)
    assert_same(items["shape"], converged.user_shape, 1e-4)  # they converge to a tolerance
    assert_same(items["rate"], converged.user_rate, 1e-8)
    folded.unpersist()
