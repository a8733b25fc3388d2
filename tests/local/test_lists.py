"""Lists in memory: those of the dense reference, with the metrics that Spark finds for them."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF, MetricSettings
from dcrec_spark.evaluation.lists import ListComposition
from dcrec_spark.evaluation.metrics import evaluate_ranking
from dcrec_spark.local.fits import Exposure, Ratings, fit_outcome
from dcrec_spark.local.lists import judge, rank_popular, rank_unseen
from tests.frames import frame_of
from tests.reference import topn as dense
from tests.reference.poisson import Array

KINDS = {
    "biased": {},
    "composition": {"confounder": "factors"},
    "link": {"confounderLink": "log"},
    "weighted": {"outcome": "weighted", "fitBiases": False},
}
SETTINGS = MetricSettings((1, 3), replications=10)


def seen_in(ratings: Ratings) -> Array:
    seen = np.zeros((len(ratings.user_key), len(ratings.item_key)), bool)
    seen[ratings.user, ratings.item] = True
    return seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_lists_match_the_dense_reference(ratings: Ratings, stage_one: Exposure, kind: str, weight: float) -> None:
    model = fit_outcome(ratings, DeconfoundedMF(rank=2, maxIter=3, **KINDS[kind]), stage_one)
    places = rank_unseen(model, ratings, 3, weight)
    users, items = (np.arange(len(side)) for side in (model.users, model.items))
    score = np.array([model.scores(np.full(len(items), user), items) for user in users])
    baseline = model.intercept + (0.0 if model.user_bias is None else model.user_bias) * np.ones(len(users))
    value = dense.dial(score, baseline, stage_one.users @ stage_one.items.T, weight)
    rows = dense.recommend(dense.Scores(value, value, value), 3, seen_in(ratings))
    expected = [[row.item_idx for row in rows if row.user_idx == user] for user in users]
    assert [places.item[places.user == user].tolist() for user in users] == expected
    np.testing.assert_allclose(places.score, model.scores(places.user, places.item), atol=1e-9)


def test_metrics_are_those_of_spark(spark: SparkSession, ratings: Ratings) -> None:
    places = rank_popular(ratings, 3)
    rng = np.random.default_rng(2)
    user, item = np.nonzero(~seen_in(ratings) & (rng.random((len(ratings.user_key), len(ratings.item_key))) < 0.6))
    test = {"user": user, "item": item, "rating": rng.integers(1, 6, len(user)).astype(float)}
    here = judge(places, test, ratings, SETTINGS)
    columns = zip(places.user.tolist(), places.rank.tolist(), places.item.tolist(), strict=True)
    lists = frame_of(spark, list(columns), "user_id long, rank long, item_id long")
    tested = frame_of(spark, [tuple(c.item() for c in row) for row in zip(*test.values(), strict=True)],
                      "user long, item long, rating double")  # fmt: skip
    training = frame_of(spark, [(i,) for i in ratings.item.tolist()], "item_id long")
    n_items = len(np.unique(ratings.item))
    there = evaluate_ranking(lists, tested, n_items, settings=SETTINGS, training=training)
    assert here.as_dict() == pytest.approx(there.as_dict(), nan_ok=True)
    composition = {"catalogue_rare_share@3", "catalogue_rarest_share@3", "catalogue_largest_share@3"}
    assert composition <= here.as_dict().keys()


def test_lists_without_a_place_have_shares_of_0() -> None:
    described = ListComposition.of_counts(0, np.zeros(3, int), np.array([5, 1, 2]))
    assert described == ListComposition(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
