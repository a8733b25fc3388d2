"""Holding exposures out: every one by itself, by its ids and the seed alone."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import PoissonFactorization, hold_out_exposures
from dcrec_spark.errors import ConfigError, DataError
from tests.models.data_sets import NAMES


def grid(spark: SparkSession, n_users: int, n_items: int, count: int = 1) -> DataFrame:
    pairs = spark.range(n_users * n_items)
    return pairs.selectExpr(
        f"concat('u', id div {n_items}) as user", f"id % {n_items} as item", f"{count} as plays", "id * 0.5 as rating"
    )


def held(frame: DataFrame) -> dict[tuple[object, object], float]:
    return {(row.user, row.item): row.held_out for row in frame.collect()}


def test_each_pair_is_in_training_or_held_out(spark: SparkSession) -> None:
    pairs = grid(spark, 50, 40)
    split = hold_out_exposures(pairs, share=0.3, seed=1)
    assert split.training.columns == pairs.columns
    assert split.exposures.columns == [*pairs.columns, "held_out", "held_out_share"]
    left = {(row.user, row.item): row.rating for row in split.training.collect()}
    rows = split.exposures.collect()
    assert {row.held_out_share for row in rows} == {0.3}
    assert {(row.user, row.item): row.rating for row in rows if row.held_out == 0.0} == left
    assert {row.held_out for row in rows} == {0.0, 1.0}
    assert len(left) == pytest.approx(0.7 * 2000, abs=4 * np.sqrt(2000 * 0.21))


def test_the_units_of_a_count_are_held_out_one_by_one(spark: SparkSession) -> None:
    """Binomially; what is left keeps its column and type, and pairs with nothing left are not in training."""
    split = hold_out_exposures(grid(spark, 40, 25, count=3), count="plays", share=0.4)
    parts = held(split.exposures)
    frequencies = np.bincount(np.array(list(parts.values()), int), minlength=4) / 1000
    np.testing.assert_allclose(frequencies, [0.216, 0.432, 0.288, 0.064], atol=0.06)
    left = {(row.user, row.item): row.plays for row in split.training.collect()}
    assert left == {pair: 3 - part for pair, part in parts.items() if part < 3}
    assert dict(split.training.dtypes)["plays"] == "int"
    nothing = hold_out_exposures(grid(spark, 3, 3, count=0), count="plays")
    assert set(held(nothing.exposures).values()) == {0.0}
    assert nothing.training.count() == 0


def test_order_and_partitions_change_nothing_and_the_seed_does(spark: SparkSession) -> None:
    one = held(hold_out_exposures(NAMES.frame(spark, 2, 0), seed=5).exposures)
    assert held(hold_out_exposures(NAMES.frame(spark, 7, 99), seed=5).exposures) == one
    assert held(hold_out_exposures(NAMES.frame(spark), seed=6).exposures) != one


def test_unusable_input_is_named(spark: SparkSession) -> None:
    pairs = grid(spark, 2, 2)
    for share in (0.0, 1.0, -0.2, float("nan")):
        with pytest.raises(ConfigError, match=r"share: found .* between 0 and 1"):
            hold_out_exposures(pairs, share=share)
    with pytest.raises(DataError, match="'viewer' is missing"):
        hold_out_exposures(pairs, user="viewer")
    with pytest.raises(DataError, match="'held_out' is there already"):
        hold_out_exposures(hold_out_exposures(pairs).exposures)
    with pytest.raises(DataError, match=r"'rating': 2 rows are no whole numbers >= 0, such as 0.5"):
        hold_out_exposures(pairs, count="rating")


def test_held_out_likelihood_prefers_the_rank_of_the_exposures(spark: SparkSession) -> None:
    """Two blocks of users and items. For rank 1 it is the predictive check's likelihood of an exposure."""
    pairs = spark.range(60 * 40).selectExpr("id div 40 as user", "id % 40 as item").where("user % 2 = item % 2").cache()
    estimator = PoissonFactorization(rank=1, maxIter=20)
    likelihood = estimator.heldOutLikelihood(pairs, ranks=[1, 2], seed=3)
    assert likelihood[2] > likelihood[1] + 0.5
    check = estimator.predictiveCheck(pairs, replications=20, seed=3)
    assert likelihood[1] == pytest.approx(check.logLikelihood / check.n, rel=1e-9)
    check.release()
    pairs.unpersist()
