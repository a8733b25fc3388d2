"""How sure a score is, on Spark and in process: the dense twin's intervals, and what the ratings show of each user."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.stats import norm

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.families.gaussian import INTERCEPT_REG
from tests.frames import frame_of
from tests.models.outcome.test_extended import ALL, KINDS, Posterior, confounder_of, covariates_of, estimator
from tests.models.world import NAMES, OUTCOME, by_id, cached, exposure, outcome
from tests.problems import assert_same
from tests.reference import biased
from tests.reference import certainty as twin
from tests.reference import exposure as dense_exposure
from tests.reference.poisson import Array

OBSERVED = NAMES.counts > 0
CLASSICAL: dict[str, Any] = {"outcome": "probabilistic", "adjustment": "ipw", "maxIter": 3}


@pytest.fixture(scope="module")
def stage_one(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    model = exposure().fit(NAMES.frame(spark))
    yield model
    model.release()


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, stage_one: PoissonFactorizationModel) -> Iterator[DeconfoundedMFModel]:
    model = outcome(**KINDS["rated"], exposureModel=stage_one).fit(NAMES.frame(spark))
    yield model
    model.release()


def all_pairs(spark: SparkSession) -> DataFrame:
    return frame_of(spark, [(u, i) for u in NAMES.users for i in NAMES.items], "user string, item string")


def tables_of(frame: DataFrame) -> dict[str, Array]:
    """Each column as a table (U, I); users and items are the first two."""
    found = {(row[0], row[1]): row for row in frame.collect()}
    return {c: np.array([[found[u, i][c] for i in NAMES.items] for u in NAMES.users]) for c in frame.columns[2:]}


def scores_of(model: DeconfoundedMFModel, spark: SparkSession) -> Array:
    return tables_of(model.transform(all_pairs(spark)))["prediction"]


def problem_of(settings: dict[str, Any], h: Array, p: Array | None = None, q: Array | None = None) -> biased.Problem:
    """What a fit of NAMES with these settings minimised."""
    everywhere, ratings = settings["outcome"] == "weighted", np.where(OBSERVED, NAMES.ratings, 0.0)
    weights = 1.0 + OUTCOME["alpha"] * ratings if everywhere else np.ones(ratings.shape)
    weights *= NAMES.inverse_propensity() if settings.get("adjustment") == "ipw" else 1.0
    mask = np.where(OBSERVED, 1.0, float(everywhere))
    count = [OBSERVED.sum(axis=a) if settings.get("regByCount") else np.ones(ratings.shape[1 - a]) for a in (1, 0)]
    factor, gamma = ({**OUTCOME, **settings}[name] for name in ("regParam", "confounderReg"))
    regs = factor, factor, gamma, INTERCEPT_REG, ALL["biasReg"], ALL["biasReg"]
    weight_of = settings.get("confounderWeight", "none")
    return biased.Problem(
        ratings, np.where(OBSERVED, weights, float(everywhere)), mask, h, weight_of, *count,
        settings.get("fitBiases", False), *regs, p, q,
    )  # fmt: skip


def unknowns_of(model: DeconfoundedMFModel) -> biased.Unknowns:
    users, items, shared = by_id(model.userFactors), by_id(model.itemFactors), model.facts.shared
    none = np.zeros(len(users["id"])), np.zeros(len(items["id"]))
    has = model.getOrDefault("fitBiases")
    biases = (users["bias"], items["bias"]) if has else none
    slopes = [by_id(table)["slopes"] for table in model.tables()]
    return biased.Unknowns(
        *(users["features"], biases[0], users["gamma"], items["features"], biases[1]),
        *(shared.intercept, shared.gamma, *slopes),
    )


IN_BLOCKS = [pytest.mark.long]
# "log" has what others have: "rated" the logarithm, "everywhere" blocks.
MARKS = {**dict.fromkeys(KINDS, IN_BLOCKS), "rated": [], "classical": [], "factors and features": []}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks) for kind, marks in MARKS.items()])
def test_intervals_are_the_dense_twins(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel, kind: str
) -> None:
    """Of every pair, rated or not, for any coverage; of one pair alone, which most blocks know nothing of, too."""
    settings, nothing = KINDS.get(kind, CLASSICAL), np.zeros(OBSERVED.shape)
    posterior = Posterior.of(stage_one)
    h, predicted = (
        (nothing, nothing)
        if kind == "classical"
        else confounder_of(posterior, settings.get("confounderLink", "identity"))
    )
    if kind == "rated":
        model = fitted
    elif kind == "classical":
        model = outcome(**settings).fit(NAMES.frame(spark))
    else:
        model = estimator(spark, kind, exposureModel=stage_one).fit(NAMES.frame(spark))
    found = model.predictIntervals(all_pairs(spark), NAMES.frame(spark, seed=3), coverage=0.8)
    assert found.columns == ["user_id", "item_id", "prediction", "low", "high", "extrapolates"]
    problem = problem_of(settings, h, *covariates_of(posterior, kind))
    expected = twin.certainty(problem, unknowns_of(model), OBSERVED, predicted)
    width = norm.ppf(0.9) * np.sqrt(expected.variance)
    scores, tables = scores_of(model, spark), tables_of(found)
    assert_same(tables["prediction"], scores, 1e-9)
    assert_same(tables["low"], scores - width, 1e-6)
    assert_same(tables["high"], scores + width, 1e-6)
    if kind == "classical":
        assert (tables["extrapolates"] == np.array(None)).all()
    else:
        rated = np.where(OBSERVED, propensities(posterior), np.inf).min(axis=1, keepdims=True)
        beyond = 1.0 - np.exp(-posterior.a_hat) < rated
        assert 0 < beyond.sum() < beyond.size
        assert (tables["extrapolates"] == beyond).all()
    one = model.predictIntervals(all_pairs(spark).where("user = 'zoë' and item = '10'"), NAMES.frame(spark), 0.8)
    assert one.first().low == pytest.approx(tables["low"][NAMES.users.index("zoë"), NAMES.items.index("10")], rel=1e-9)
    for frame in (found, one):
        frame.unpersist()
    if model is not fitted:
        model.release()


def propensities(posterior: Posterior) -> Array:
    """p of the rated pairs, without their own vote."""
    return np.asarray(1.0 - np.exp(-dense_exposure.leave_one_out(*posterior, OBSERVED.astype(float))))


def test_overlap_says_how_much_of_a_user_was_seen(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel
) -> None:
    unknown = NAMES.frame(spark).limit(2).withColumn("user", F.lit("who?"))
    table = fitted.overlap(NAMES.frame(spark).unionByName(unknown), odds=3.0)
    found = {row.user_id: row for row in table.collect()}
    p = propensities(Posterior.of(stage_one))
    assert set(found) == set(NAMES.users)
    for u, user in enumerate(NAMES.users):
        rated, row = OBSERVED[u], found[user]
        weights, values = 1.0 / np.maximum(p[u, rated], 1e-3), NAMES.ratings[u, rated]
        assert row.ratings == rated.sum()
        assert row.effective_ratings == pytest.approx(weights.sum() ** 2 / np.sum(weights**2), rel=1e-6)
        assert row.smallest_propensity == pytest.approx(p[u, rated].min(), rel=1e-6, abs=1e-12)
        assert row.mean_rating == pytest.approx(weights @ values / weights.sum(), rel=1e-6)
        bounds = twin.sensitivity_bounds(values, 1.0 / weights, 3.0)
        assert (row.mean_low, row.mean_high) == pytest.approx(bounds, rel=1e-6)
    table.unpersist()


def test_overlap_of_items_needs_no_least_squares(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel
) -> None:
    """A Poisson model has the same propensities, and of each item says the same."""
    poisson = fitted.copy({fitted.outcome: "poisson"})
    tables = [model.overlap(NAMES.frame(spark), 3.0, side="item") for model in (fitted, poisson)]
    p, (found, other) = propensities(Posterior.of(stage_one)), [sorted(table.collect()) for table in tables]
    assert found == other
    assert tables[0].columns[0] == "item_id"
    rows = {row.item_id: row for row in found}
    for i, item in enumerate(NAMES.items):
        rated = OBSERVED[:, i]
        assert (item in rows) == rated.any()
        if rated.any():
            weights, values = 1.0 / np.maximum(p[rated, i], 1e-3), NAMES.ratings[rated, i]
            assert rows[item].ratings == rated.sum()
            assert rows[item].effective_ratings == pytest.approx(weights.sum() ** 2 / np.sum(weights**2), rel=1e-6)
            bounds = twin.sensitivity_bounds(values, 1.0 / weights, 3.0)
            assert (rows[item].mean_low, rows[item].mean_high) == pytest.approx(bounds, rel=1e-6)
    for table in tables:
        table.unpersist()
    with pytest.raises(ValueError, match="side: found 'both', expected user or item"):
        fitted.overlap(NAMES.frame(spark), side="both")


def test_lists_say_what_it_takes_to_change_them(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel
) -> None:
    """By the dense twin's noise, all pairs of an item inside and one outside; null where none is outside."""
    ratings, n = NAMES.frame(spark), len(NAMES.items) - 2
    found = fitted.sureRecommendations(n, ratings, seen=ratings, coverage=0.8)
    lists = fitted.recommendationTable(n, seen=ratings)
    assert found.columns == [*lists.columns, "low", "high", "extrapolates", "odds_to_change"]
    assert sorted(found.select(lists.columns).collect()) == sorted(lists.collect())
    h, predicted = confounder_of(Posterior.of(stage_one), KINDS["rated"]["confounderLink"])
    dense = twin.certainty(problem_of(KINDS["rated"], h), unknowns_of(fitted), OBSERVED, predicted)
    width = 2.0 * norm.ppf(0.9) * np.sqrt(dense.variance)
    scores = scores_of(fitted, spark)
    rows = {(row.user_id, row.rank): row for row in found.collect()}
    for u, user in enumerate(NAMES.users):
        ranked = np.sort(scores[u, ~OBSERVED[u]])[::-1]
        for place in range(1, min(n, len(ranked)) + 1):
            inside, outside, row = ranked[:place], ranked[place:], rows[user, place]
            assert row.high - row.low == pytest.approx(width[u, NAMES.items.index(row.item_id)], rel=1e-6)
            assert row.low < row.score < row.high
            if len(outside):
                odds = twin.odds_to_change(inside, outside, float(np.sqrt(dense.noise)))
                assert row.odds_to_change == pytest.approx(odds, rel=1e-3)
            else:
                assert row.odds_to_change is None
    found.unpersist()


@pytest.mark.parametrize("most", [None, 1, 2])
def test_under_a_limit_on_categories_any_other_list_that_keeps_it_may_come(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel, most: int | None
) -> None:
    """Of all sets of items on offer that keep the limit: their scores may rise by as much as those inside fall."""
    ratings, n = NAMES.frame(spark), 4
    category = dict(zip(NAMES.items[1:], itertools.cycle(["a", "a", None, "b", "a"]), strict=False))
    items = frame_of(spark, list(category.items()), "item string, category string")
    found = fitted.sureRecommendations(n, ratings, items=items, maxPerCategory=most)
    lists = fitted.recommendationTable(n, items=items, maxPerCategory=most)
    assert sorted(found.select(lists.columns).collect()) == sorted(lists.collect())
    h, predicted = confounder_of(Posterior.of(stage_one), KINDS["rated"]["confounderLink"])
    dense = twin.certainty(problem_of(KINDS["rated"], h), unknowns_of(fitted), OBSERVED, predicted)
    scores = scores_of(fitted, spark)
    of_users: dict[str, list[Any]] = {user: [] for user in NAMES.users}
    for row in found.orderBy("rank").collect():
        of_users[row.user_id].append(row)

    def keeps_the_limit(chosen: set[str]) -> bool:
        counts = Counter(category[item] for item in chosen if category[item] is not None)
        return most is None or max(counts.values(), default=0) <= most

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
            odds = twin.odds_to_change(np.array([min(gaps)]), np.zeros(1), float(np.sqrt(dense.noise)))
            assert row.odds_to_change == pytest.approx(odds, rel=1e-3)
    found.unpersist()


def test_what_has_no_interval_is_named(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    ratings, before = NAMES.frame(spark), cached(spark)
    one = all_pairs(spark).where("user = 'zoë' and item = '10'")
    zoe = ratings.where("user = 'zoë'")
    refused: list[tuple[DataFrame, DataFrame, str]] = [
        (
            one.withColumn("item", F.lit("what?")),
            ratings,
            r"cannot be assessed: the item, 'what\?', is not in the model",
        ),
        (one, ratings.where("user != 'zoë'"), "the user, 'zoë', has no row in ratings"),
        (one, zoe, r"not those .* \d+ of its users would have other factors"),
        (one, ratings.unionByName(zoe.withColumn("user", F.lit("new"))), "user 'new', who is not in the model"),
        (one.limit(0), ratings, "no pairs to assess"),
    ]
    for pairs, given, message in refused:
        with pytest.raises(DataError, match=message):
            fitted.predictIntervals(pairs, given)
    for coverage in (0.0, 1.0, True):
        with pytest.raises(ValueError, match=f"coverage: found {coverage}"):
            fitted.predictIntervals(one, ratings, coverage)
    with pytest.raises(ValueError, match=r"odds: found 0\.5, expected a finite number >= 1"):
        fitted.overlap(ratings, odds=0.5)
    with pytest.raises(ValueError, match="n: found 0, expected a whole number"):
        fitted.sureRecommendations(0, ratings)
    with pytest.raises(ValueError, match="maxPerCategory: found 0, expected a whole number"):
        fitted.sureRecommendations(2, ratings, maxPerCategory=0)
    with pytest.raises(ValueError, match="maxPerCategory: expected items with a column 'category'"):
        fitted.sureRecommendations(2, ratings, maxPerCategory=1)
    assert cached(spark) == before


def test_models_that_cannot_say_how_sure_they_are_refuse(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    ratings, pairs = NAMES.frame(spark), all_pairs(spark)
    poisson = fitted.copy({fitted.outcome: "poisson"})
    alone = fitted.copy()
    alone.exposureModel = None
    with pytest.raises(ConfigError, match="outcome=poisson has no intervals"):
        poisson.predictIntervals(pairs, ratings)
    with pytest.raises(ConfigError, match="outcome=poisson has no intervals"):
        poisson.sureRecommendations(2, ratings)
    with pytest.raises(
        ConfigError, match="overlap takes propensities from the exposure model, and this model has none"
    ):
        alone.overlap(ratings)


def test_folded_in_users_have_intervals_beside_those_of_the_fit(
    spark: SparkSession, fitted: DeconfoundedMFModel
) -> None:
    """In the extended model; one of the new users alone lacks those who made its items what they are."""
    ratings = NAMES.frame(spark)
    new = ratings.where("user = 'zoë'").withColumn("user", F.lit("new"))
    folded = fitted.foldInUsers(new)
    both, pair = ratings.unionByName(new), frame_of(spark, [("new", "10")], "user string, item string")
    extended, alone = fitted.extended(users=folded), fitted.withUsers(folded)
    found = extended.predictIntervals(pair, both)
    row, score = found.first(), extended.transform(pair).first().prediction
    assert row.prediction == pytest.approx(score, rel=1e-9)
    assert row.low < score < row.high
    with pytest.raises(DataError, match="who is not in the model: an item's interval"):
        alone.predictIntervals(pair, both)
    found.unpersist()
    folded.unpersist()
    for model in (extended, alone):
        model.release()
