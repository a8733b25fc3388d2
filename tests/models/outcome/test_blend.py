"""Blends: exact weights, and one model whose lists, explanations and folds are its members', weighted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.optimize import minimize

from dcrec_spark import Blend, BlendModel, PoissonFactorization
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.solvers import least_squares_on_simplex
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.outcome.estimator import share_blocks
from tests.models.data_sets import NAMES, cached, outcome
from tests.problems import assert_same
from tests.reference.poisson import Array

RATED = {"outcome": "probabilistic", "fitBiases": True, "confounderWeight": "pooled", "exposureRank": 2}


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), members=st.integers(1, 6))
def test_weights_are_those_of_a_general_solver(seed: int, members: int) -> None:
    rng = np.random.default_rng(seed)
    predictions, rating = rng.normal(size=(40, members)), rng.normal(size=40)
    predictions[:, : members // 2] += rating[:, None]
    gram, target = predictions.T @ predictions, predictions.T @ rating
    found = least_squares_on_simplex(gram, target)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)

    def loss(w: Array) -> float:
        return float(w @ gram @ w - 2 * w @ target)

    solved = minimize(
        loss,
        np.full(members, 1 / members),
        jac=lambda w: 2 * (gram @ w - target),
        bounds=[(0, 1)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert loss(found) <= loss(solved.x) + 1e-9


def test_of_two_equal_members_one_is_enough() -> None:
    same = np.array([[2.0, 2.0], [2.0, 2.0]])
    assert sorted(least_squares_on_simplex(same, np.array([1.0, 1.0]))) == [0.0, 1.0]


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


def test_it_is_saved_and_folds_in(spark: SparkSession, blend: BlendModel, tmp_path: Path) -> None:
    blend.save(str(tmp_path / "blend"))
    loaded = BlendModel.load(str(tmp_path / "blend"))
    pairs = NAMES.all_pairs(spark).where("user = 'zoë'")
    expected = {row.item: row.prediction for row in blend.transform(pairs).collect()}
    assert {row.item: row.prediction for row in loaded.transform(pairs).collect()} == expected
    folded = loaded.foldInUsers(NAMES.frame(spark).where("user = 'zoë'"))
    served = loaded.withUsers(folded).transform(pairs).collect()
    assert {row.item: row.prediction for row in served} == pytest.approx(expected, rel=1e-6)
    loaded.release()


def test_members_of_other_columns_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="members: found the columns"):
        Blend({"a": outcome(), "b": outcome(userCol="reader")}).fit(NAMES.frame(spark))
    with pytest.raises(ValueError, match="members: found 0, expected 1 to 10"):
        Blend({})


@pytest.mark.parametrize("exchange", ["local", pytest.param("blocks", marks=pytest.mark.long)])
def test_members_share_the_blocks_of_their_ratings(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, exchange: str
) -> None:
    built = []

    def count_layouts(*args: Any, **kwargs: Any) -> Layout:
        built.append(lay_out(*args, **kwargs))
        return built[-1]

    monkeypatch.setattr("dcrec_spark.models.outcome.estimator.lay_out", count_layouts)
    blocks = {"exchange": exchange, "numBlocks": 2 if exchange == "blocks" else None, "maxIter": 2}
    blocks |= {**RATED, "exposureModel": PoissonFactorization(rank=2, **blocks)}
    members = {
        "none": outcome(**blocks, adjustment="none"),
        "log": outcome(**blocks, confounderLink="log"),
        "factors": outcome(**blocks, confounder="factors"),
    }
    ratings, pairs, before = NAMES.frame(spark), NAMES.all_pairs(spark), cached(spark)
    kept: list[bool] = []
    blend = Blend(members)
    blend.listener = lambda *_: kept.append(exchange == "local" or built[0].users.frame.is_cached)
    fitted = blend._fit_members(members, ratings, "blend")
    assert len(built) == 1
    assert all(kept)
    for name, model in fitted.items():
        alone = members[name].fit(ratings)
        assert_same(scores_of(model.transform(pairs)), scores_of(alone.transform(pairs)), 1e-9)
        alone.release()
    for model in reversed(fitted.values()):
        model.release()
    assert cached(spark) == before


def test_members_whose_blocks_hold_other_numbers_share_none(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = NAMES.frame(spark).withColumn("held_out", F.col("item") == "zoë")
    counted = outcome(**RATED, maxIter=1, exposureModel=PoissonFactorization(rank=2, countCol="rating", maxIter=1))
    fitted = counted.fit(ratings)
    ipw = {"adjustment": "ipw"}
    changes = {}, ipw, {**ipw, "weightCap": 2.0}, {"validationIndicatorCol": "held_out"}, {"precision": "float32"}
    members = [*(outcome(**RATED, **each) for each in changes), counted, outcome(outcome="poisson", exposureRank=2)]
    monkeypatch.setattr("dcrec_spark.models.outcome.estimator.lay_out", None)  # to call it fails
    with FitResources() as resources:
        share_blocks(members, ratings, resources)
        warm = outcome(**RATED, initialModel=fitted)  # its stage 1 counts as that of the model
        share_blocks([members[0], warm], ratings, resources)
        with pytest.raises(TypeError, match="not callable"):
            share_blocks([counted, warm], ratings, resources)
    fitted.release()


def test_members_with_other_held_out_pairs_have_a_stage_one_each(spark: SparkSession) -> None:
    ratings = NAMES.frame(spark).withColumn("held_out", F.pmod(F.xxhash64("user", "item"), F.lit(4)) == 0)
    alike = {**RATED, "maxIter": 1}
    members = {"all": outcome(**alike), "fewer": outcome(**alike, validationIndicatorCol="held_out")}
    fitted = Blend(members)._fit_members(members, ratings, "blend")
    assert [bool(model.exposureModel.validationHistory) for model in fitted.values()] == [False, True]
    for model in fitted.values():
        model.release()
