"""How sure a score is, on Spark and in process: the dense reference's intervals, and what the ratings show of users."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.stats import norm

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of
from tests.models.data_sets import (
    FACTORS,
    NAMES,
    RATED,
    Posterior,
    cached,
    covariates_of,
    feature_frames,
    outcome,
    unknowns_of,
)
from tests.problems import assert_same
from tests.reference import certainty as dense
from tests.reference import exposure as dense_exposure
from tests.reference.poisson import Array

OBSERVED = NAMES.observed
KINDS: dict[str, dict[str, Any]] = {
    "rated": RATED,
    "factors and features": FACTORS,
}


def certainty_of(model: DeconfoundedMFModel, settings: dict[str, Any]) -> dense.Certainty:
    posterior = Posterior.of(model.exposureModel)
    h, predicted = NAMES.confounder(posterior, settings)
    covariates = covariates_of(posterior, settings, has_features=True)
    return dense.certainty(NAMES.problem(settings, h, covariates), unknowns_of(model), OBSERVED, predicted)


def scores_of(model: DeconfoundedMFModel, spark: SparkSession) -> Array:
    return NAMES.tables_of(model.transform(NAMES.all_pairs(spark)))["prediction"]


def propensities(model: PoissonFactorizationModel) -> Array:
    alone = dense_exposure.leave_one_out(*Posterior.of(model), OBSERVED.astype(float))
    return np.asarray(1.0 - np.exp(-alone))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_match_the_dense_reference(
    spark: SparkSession, stage_one: PoissonFactorizationModel, rated: DeconfoundedMFModel, kind: str
) -> None:
    settings, pairs = KINDS[kind], NAMES.all_pairs(spark)
    features = feature_frames(spark) if "features" in kind else (None, None)
    own = {"userFeatures": features[0], "itemFeatures": features[1], "exposureModel": stage_one}
    model = rated if kind == "rated" else outcome(**settings, **own).fit(NAMES.frame(spark))
    found = model.predictIntervals(pairs, NAMES.frame(spark, seed=3), coverage=0.8)
    assert found.columns == ["user_id", "item_id", "prediction", "low", "high", "extrapolates"]
    width = norm.ppf(0.9) * np.sqrt(certainty_of(model, settings).variance)
    scores, tables = scores_of(model, spark), NAMES.tables_of(found)
    assert_same(tables["prediction"], scores, 1e-9)
    assert_same(tables["low"], scores - width, 1e-6)
    assert_same(tables["high"], scores + width, 1e-6)
    smallest = np.where(OBSERVED, propensities(stage_one), np.inf).min(axis=1, keepdims=True)
    beyond = 1.0 - np.exp(-Posterior.of(stage_one).a_hat) < smallest
    assert 0 < beyond.sum() < beyond.size
    assert (tables["extrapolates"] == beyond).all()
    one = model.predictIntervals(pairs.where("user = 'zoë' and item = '10'"), NAMES.frame(spark), 0.8)
    assert one.first().low == pytest.approx(tables["low"][NAMES.users.index("zoë"), NAMES.items.index("10")], rel=1e-9)
    for frame in (found, one):
        frame.unpersist()


@pytest.mark.parametrize("side", ["user", "item"])
def test_overlap_says_how_much_was_seen_and_needs_no_least_squares(
    spark: SparkSession, stage_one: PoissonFactorizationModel, rated: DeconfoundedMFModel, side: str
) -> None:
    unknown = NAMES.frame(spark).limit(2).withColumns({"user": F.lit("who?"), "item": F.lit("what?")})
    ratings, poisson = NAMES.frame(spark).unionByName(unknown), rated.copy({rated.outcome: "poisson"})
    found, other = (model.overlap(ratings, odds=3.0, side=side) for model in (rated, poisson))
    assert sorted(found.collect()) == sorted(other.collect())
    rows = {row[f"{side}_id"]: row for row in found.collect()}
    assert len(rows) == len(NAMES.users if side == "user" else NAMES.items)
    tables = propensities(stage_one), OBSERVED, NAMES.ratings
    ids = NAMES.users if side == "user" else NAMES.items
    for own, p, seen, of_own in zip(ids, *(table if side == "user" else table.T for table in tables), strict=True):
        row, values, weights = rows[own], of_own[seen], 1.0 / np.maximum(p[seen], 1e-3)
        assert row.ratings == seen.sum()
        assert row.effective_ratings == pytest.approx(weights.sum() ** 2 / np.sum(weights**2), rel=1e-6)
        assert row.smallest_propensity == pytest.approx(p[seen].min(), rel=1e-6, abs=1e-12)
        assert row.mean_rating == pytest.approx(weights @ values / weights.sum(), rel=1e-6)
        bounds = dense.sensitivity_bounds(values, 1.0 / weights, 3.0)
        assert (row.mean_low, row.mean_high) == pytest.approx(bounds, rel=1e-6)
    for table in (found, other):
        table.unpersist()


def test_lists_say_what_it_takes_to_change_them(spark: SparkSession, rated: DeconfoundedMFModel) -> None:
    """By the reference's noise, all pairs of an item inside and one outside; null where none is outside."""
    ratings, n = NAMES.frame(spark), len(NAMES.items) - 2
    found = rated.sureRecommendations(n, ratings, seen=ratings, coverage=0.8)
    lists = rated.recommendationTable(n, seen=ratings)
    assert found.columns == [*lists.columns, "low", "high", "extrapolates", "odds_to_change"]
    assert sorted(found.select(lists.columns).collect()) == sorted(lists.collect())
    certainty, scores = certainty_of(rated, RATED), scores_of(rated, spark)
    width = 2.0 * norm.ppf(0.9) * np.sqrt(certainty.variance)
    rows = {(row.user_id, row.rank): row for row in found.collect()}
    for u, user in enumerate(NAMES.users):
        ranked = np.sort(scores[u, ~OBSERVED[u]])[::-1]
        for place in range(1, min(n, len(ranked)) + 1):
            inside, outside, row = ranked[:place], ranked[place:], rows[user, place]
            assert row.high - row.low == pytest.approx(width[u, NAMES.items.index(row.item_id)], rel=1e-6)
            assert row.low < row.score < row.high
            if len(outside):
                odds = dense.odds_to_change(inside, outside, float(np.sqrt(certainty.noise)))
                assert row.odds_to_change == pytest.approx(odds, rel=1e-3)
            else:
                assert row.odds_to_change is None
    found.unpersist()


def test_under_a_limit_on_categories_other_lists_that_keep_it_may_come(
    spark: SparkSession, rated: DeconfoundedMFModel
) -> None:
    """Of all sets of items on offer that keep the limit: their scores may rise by as much as those inside fall."""
    ratings, n = NAMES.frame(spark), 4
    category = dict(zip(NAMES.items[1:], itertools.cycle(["a", "a", None, "b", "a"]), strict=False))
    items = frame_of(spark, list(category.items()), "item string, category string")
    found = rated.sureRecommendations(n, ratings, items=items, maxPerCategory=1)
    lists = rated.recommendationTable(n, items=items, maxPerCategory=1)
    assert sorted(found.select(lists.columns).collect()) == sorted(lists.collect())
    noise, scores = certainty_of(rated, RATED).noise, scores_of(rated, spark)
    of_users: dict[str, list[Any]] = {user: [] for user in NAMES.users}
    for row in found.orderBy("rank").collect():
        of_users[row.user_id].append(row)

    def keeps_the_limit(chosen: set[str]) -> bool:
        counts = Counter(category[item] for item in chosen if category[item] is not None)
        return max(counts.values(), default=0) <= 1

    for u, user in enumerate(NAMES.users):
        score = dict(zip(NAMES.items, scores[u], strict=True))
        for row in of_users[user]:
            inside = {other.item_id for other in of_users[user][: row.rank]}
            others = [set(c) for c in itertools.combinations(category, row.rank) if keeps_the_limit(set(c))]
            gaps = [
                (sum(score[i] for i in inside - other) - sum(score[i] for i in other - inside)) / len(other - inside)
                for other in others
                if other != inside
            ]
            odds = dense.odds_to_change(np.array([min(gaps)]), np.zeros(1), float(np.sqrt(noise)))
            assert row.odds_to_change == pytest.approx(odds, rel=1e-3)
    found.unpersist()


def test_what_has_no_interval_is_named(spark: SparkSession, rated: DeconfoundedMFModel) -> None:
    ratings, before = NAMES.frame(spark), cached(spark)
    one = NAMES.all_pairs(spark).where("user = 'zoë' and item = '10'")
    zoe, stranger = ratings.where("user = 'zoë'"), one.withColumn("item", F.lit("what?"))
    refused: list[tuple[DataFrame, DataFrame, str]] = [
        (stranger, ratings, r"cannot be assessed: the item, 'what\?', is not in the model"),
        (one, ratings.where("user != 'zoë'"), "the user, 'zoë', has no row in ratings"),
        (one, zoe, r"not those .* \d+ of its users would have other factors"),
        (one, ratings.unionByName(zoe.withColumn("user", F.lit("new"))), "user 'new', who is not in the model"),
        (one.limit(0), ratings, "no pairs to assess"),
    ]
    for pairs, given, message in refused:
        with pytest.raises(DataError, match=message):
            rated.predictIntervals(pairs, given)
    wrong: dict[str, Callable[[], Any]] = {
        "coverage: found 1.0": lambda: rated.predictIntervals(one, ratings, 1.0),
        r"odds: found 0\.5, expected a finite number >= 1": lambda: rated.overlap(ratings, odds=0.5),
        "side: found 'both', expected user or item": lambda: rated.overlap(ratings, side="both"),
        "n: found 0, expected a whole number": lambda: rated.sureRecommendations(0, ratings),
        "expected items with a column 'category'": lambda: rated.sureRecommendations(2, ratings, maxPerCategory=1),
    }
    for message, ask in wrong.items():
        with pytest.raises(ValueError, match=message):
            ask()
    poisson, alone = rated.copy({rated.outcome: "poisson"}), rated.copy()
    alone.exposureModel = None
    for ask in (lambda: poisson.predictIntervals(one, ratings), lambda: poisson.sureRecommendations(2, ratings)):
        with pytest.raises(ConfigError, match="outcome=poisson has no intervals"):
            ask()
    with pytest.raises(ConfigError, match="overlap takes propensities from the exposure model, and this model has no"):
        alone.overlap(ratings)
    assert cached(spark) == before


def test_folded_in_users_have_intervals_next_to_the_fits(spark: SparkSession, rated: DeconfoundedMFModel) -> None:
    """In the extended model; one of the new users alone lacks those who made its items what they are."""
    ratings = NAMES.frame(spark)
    new = ratings.where("user = 'zoë'").withColumn("user", F.lit("new"))
    folded = rated.foldInUsers(new)
    both, pair = ratings.unionByName(new), frame_of(spark, [("new", "10")], "user string, item string")
    extended, alone = rated.extended(users=folded), rated.withUsers(folded)
    found = extended.predictIntervals(pair, both)
    row, score = found.first(), extended.transform(pair).first().prediction
    assert row.prediction == pytest.approx(score, rel=1e-9)
    assert row.low < score < row.high
    with pytest.raises(DataError, match="who is not in the model: an item's interval"):
        alone.predictIntervals(pair, both)
    found.unpersist()
    folded.unpersist()
