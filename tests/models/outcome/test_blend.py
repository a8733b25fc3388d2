"""Blends: exact weights, and one model whose lists, explanations and folds are its members', weighted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import Blend, BlendModel, PoissonFactorization
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.solvers import least_squares_on_simplex
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from tests.models.data_sets import NAMES, cached, marked, outcome
from tests.problems import assert_same
from tests.reference.poisson import Array

RATED = {"outcome": "probabilistic", "fitBiases": True, "confounderWeight": "pooled", "exposureRank": 2}


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 6))
def test_no_other_weights_of_members_have_a_smaller_error(seed: int, members: int) -> None:
    """The error is convex: at its minimum it falls towards no corner of the simplex."""
    rng = np.random.default_rng(seed)
    predictions, rating = rng.normal(size=(40, members)), rng.normal(size=40)
    predictions[:, : members // 2] += rating[:, None]
    columns = np.column_stack([predictions, rating])
    found = least_squares_on_simplex(columns.T @ columns)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    slope = predictions.T @ (predictions @ found - rating)
    assert (slope - found @ slope).min() >= -1e-8


def test_of_two_equal_members_one_is_enough() -> None:
    same = np.array([[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 3.0]])
    assert sorted(least_squares_on_simplex(same)) == [0.0, 1.0]


def scores_of(frame: DataFrame) -> Array:
    return NAMES.tables_of(frame)["prediction"]


@pytest.fixture(scope="module")
def blend(spark: SparkSession) -> Iterator[BlendModel]:
    estimator = Blend(
        {
            "factors": outcome(**RATED, confounder="factors"),
            "log": outcome(**RATED, confounderLink="log"),
        },
        validationShare=0.3,
    )
    fitted = estimator.fit(NAMES.frame(spark))
    # Whatever validation chose of so few ratings, here both take part.
    members = estimator._fit_members(estimator.members, NAMES.frame(spark), "blend")
    weights = {"factors": 0.4, "log": 0.6}
    model = BlendModel(members, weights, fitted.validationErrors)
    members["log"]._copyValues(model)
    assert set(fitted.members) == {name for name, weight in fitted.weights.items() if weight > 0}
    assert sum(fitted.weights.values()) == pytest.approx(1.0)
    assert fitted.validationErrors["blend"] <= min(fitted.validationErrors.values()) + 1e-12
    assert members["log"].exposureModel is members["factors"].exposureModel
    fitted.release()
    yield model
    model.release()


def test_scores_and_lists_are_the_weighted_ones(spark: SparkSession, blend: BlendModel) -> None:
    pairs = NAMES.all_pairs(spark)
    expected = sum(w * scores_of(blend.members[name].transform(pairs)) for name, w in blend.weights.items())
    assert_same(scores_of(blend.transform(pairs)), expected, 1e-9)
    ranked = blend.recommendationTable(3).orderBy("user_id", "rank").collect()
    best = np.argsort(-expected, axis=1)[:, :3]
    assert [row.item_id for row in ranked] == [NAMES.items[i] for row in best for i in row]
    assert_same(np.array([row.score for row in ranked]), np.take_along_axis(expected, best, 1).ravel(), 1e-9)
    for row in ranked[:3]:
        assert row.score == pytest.approx(row.preference + row.confounder + blend.intercept)


def test_an_explanation_adds_up(spark: SparkSession, blend: BlendModel) -> None:
    ratings, pairs = NAMES.frame(spark), NAMES.all_pairs(spark).where(F.col("user") == "zoë")
    scores = {(row.user, row.item): row.prediction for row in blend.transform(pairs).collect()}
    explained = blend.explain(pairs, ratings, n=2).collect()
    assert len(explained) == len(scores)
    for row in explained:
        named = sum(reason.contribution for reason in row.reasons)
        parts = row.user_bias, row.item_bias, row.features, row.baseline, named, row.others
        assert row.preference == pytest.approx(sum(parts), rel=1e-9, abs=1e-9)
        assert row.score == pytest.approx(scores[row.user_id, row.item_id], rel=1e-6)
        sizes = [abs(reason.contribution) for reason in row.reasons]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) <= 2


def test_members_of_other_columns_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="members: found the columns"):
        Blend({"a": outcome(), "b": outcome(userCol="reader")}).fit(NAMES.frame(spark))
    with pytest.raises(ValueError, match="members: found 0, expected 1 to 10"):
        Blend({})


@pytest.mark.parametrize("exchange", ["local", pytest.param("blocks", marks=pytest.mark.long)])
def test_members_are_their_fits_alone_and_share_blocks_that_hold_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, exchange: str
) -> None:
    built, kept = list[Layout](), list[bool]()

    def count_layouts(*args: Any, **kwargs: Any) -> Layout:
        built.append(lay_out(*args, **kwargs))
        return built[-1]

    ratings, pairs = marked(spark), NAMES.all_pairs(spark)
    engine = {
        "exchange": exchange,
        "numBlocks": 2 if exchange == "blocks" else None,
        "maxIter": 2,
        "precision": "float64",
    }
    stage_one, counting = (PoissonFactorization(rank=2, countCol=column, **engine) for column in (None, "rating"))
    every = {**RATED, **engine, "exposureModel": stage_one}
    members = {
        "none": outcome(**every, adjustment="none"),
        "log": outcome(**every, confounderLink="log"),
        "factors": outcome(**every, confounder="factors"),
    }
    before = cached(spark)
    counted = outcome(**{**every, "exposureModel": counting})
    start = counted.fit(ratings)
    if exchange == "local":
        members |= {
            "counted": counted,
            "warm": outcome(**{**every, "exposureModel": None}, initialModel=start),
            "ipw": outcome(**every, adjustment="ipw"),
            "held out": outcome(**every, validationIndicatorCol="held"),
        }
    monkeypatch.setattr("dcrec_spark.models.outcome.estimator.lay_out", count_layouts)
    blend = Blend(members)
    blend.listener = lambda *_: kept.append(exchange == "local" or built[0].users.frame.is_cached)
    fitted = blend._fit_members(members, ratings, "blend")
    assert len(built) == (4 if exchange == "local" else 1)
    assert all(kept)
    for name, model in fitted.items():
        alone = members[name].fit(ratings)
        assert_same(scores_of(model.transform(pairs)), scores_of(alone.transform(pairs)), 1e-9)
        alone.release()
    for model in (*reversed(fitted.values()), start):
        model.release()
    assert cached(spark) == before
