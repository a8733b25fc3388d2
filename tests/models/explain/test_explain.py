"""Why an item was scored as it was: sums that add up to the model's own numbers, by the ratings that carry them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel, reasons_text, with_titles
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of
from tests.models.world import NAMES, OUTCOME_PRIORS, by_id, cached, exposure, outcome
from tests.reference import explain as twin
from tests.reference import poisson_outcome as dense_outcome
from tests.reference import ridge as dense
from tests.reference.poisson import Array

MEMBERS: dict[str, dict[str, Any]] = {
    "weighted-deconfounded": {"outcome": "weighted"},
    "probabilistic-global": {"outcome": "probabilistic", "confounderWeight": "global", "exchange": "blocks"},
    "poisson-deconfounded": {"outcome": "poisson"},
    "weighted-ipw": {"outcome": "weighted", "adjustment": "ipw"},
}
ASKED = ["", "zoë", "🦊"]
Parts = tuple[float, dict[int, float]]


@pytest.fixture(scope="module")
def exposures(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    model = exposure().fit(NAMES.frame(spark))
    yield model
    model.release()


def fit(spark: SparkSession, exposures: PoissonFactorizationModel, **settings: Any) -> DeconfoundedMFModel:
    estimator = outcome(exposureModel=exposures, **settings)
    return estimator.fit(NAMES.frame(spark))


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, exposures: PoissonFactorizationModel) -> Iterator[DeconfoundedMFModel]:
    model = fit(spark, exposures)
    yield model
    model.release()


def pairs_of(spark: SparkSession, *pairs: tuple[str, str]) -> DataFrame:
    return frame_of(spark, list(pairs), "user string, item string")


class Twin:
    """The dense twin at the factors that a model has."""

    def __init__(self, model: DeconfoundedMFModel, outcome: str, confounder: str, adjusted: bool) -> None:
        self.outcome, self.observed = outcome, NAMES.counts > 0
        users, items = (by_id(table.drop("idx")) for table in model.tables())
        if outcome == "poisson":
            self.data = dense_outcome.OutcomeData(NAMES.ratings, np.ones(NAMES.ratings.shape), a_hat(users, items))
            self.state = state_of(model, users, items)
            return
        weights = NAMES.inverse_propensity() if adjusted else None
        self.problem = NAMES.problem(
            outcome, None if adjusted else a_hat(users, items), confounder, inverse_propensity=weights
        )
        self.factors = dense.Factors(users["features"], items["features"], users["gamma"], model.intercept)

    def explain(self, user: str, item: str) -> Parts:
        u, i = NAMES.users.index(user), NAMES.items.index(item)
        if self.outcome == "poisson":
            return twin.of_poisson(self.state, self.data, self.observed, u, i, OUTCOME_PRIORS)
        unrated = 1.0, float(self.outcome == "weighted")
        return twin.of_least_squares(self.problem, self.factors, self.observed, unrated, u, i)


def a_hat(users: dict[str, Any], items: dict[str, Any]) -> Array:
    pi, lam = (side["exposure_shape"] / side["exposure_rate"] for side in (users, items))
    return np.asarray(pi @ lam.T)


def state_of(model: DeconfoundedMFModel, users: dict[str, Any], items: dict[str, Any]) -> dense_outcome.OutcomeState:
    shape, rate, intercept = users["outcome_shape"], users["outcome_rate"], model.facts.shared.intercept
    return dense_outcome.OutcomeState(
        shape[:, :3],
        rate[:, :3],
        items["outcome_shape"],
        items["outcome_rate"],
        shape[:, 3],
        rate[:, 3],
        np.array([intercept.shape]),
        np.array([intercept.rate]),
    )


@pytest.mark.parametrize("settings", MEMBERS.values(), ids=MEMBERS.keys())
def test_an_explanation_is_the_twins_and_adds_up_to_the_score(
    spark: SparkSession, exposures: PoissonFactorizationModel, settings: dict[str, Any]
) -> None:
    """Of all items, rated or not, for three users; as many item blocks as there are."""
    model = fit(spark, exposures, **settings)
    pairs = pairs_of(spark, *[(user, item) for user in ASKED for item in NAMES.items])
    explained = model.explain(pairs, NAMES.frame(spark), n=2)
    found = {(row.user_id, row.item_id): row for row in explained.collect()}
    dense_twin = Twin(model, settings["outcome"], settings.get("confounderWeight", "user"), "adjustment" in settings)
    scored = model.predictParts(pairs).collect()
    assert len(found) == len(scored) == 21
    for expected in scored:
        row = found[expected.user, expected.item]
        assert row.preference == pytest.approx(expected.preference, rel=1e-8, abs=1e-9)
        assert row.confounder == pytest.approx(expected.confounder, rel=1e-8, abs=1e-12)
        assert row.score == pytest.approx(expected.prediction, rel=1e-8)
        assert row.score == row.preference + row.confounder + row.intercept
        named = sum(reason.contribution for reason in row.reasons)
        assert row.preference == pytest.approx(row.baseline + named + row.others, rel=1e-12, abs=1e-12)
        assert_reasons(row, dense_twin.explain(expected.user, expected.item))
    explained.unpersist()
    model.release()


def assert_reasons(row: Any, parts: Parts) -> None:
    """The two largest contributions, each with its item's own rating; what is zero is no reason."""
    baseline, contributions = parts
    assert row.baseline == pytest.approx(baseline, rel=1e-7, abs=1e-8)
    ranked = sorted(((j, c) for j, c in contributions.items() if abs(c) > 1e-12), key=lambda entry: -abs(entry[1]))
    assert [reason.item_id for reason in row.reasons] == [NAMES.items[j] for j, _ in ranked[:2]]
    u = NAMES.users.index(row.user_id)
    assert [reason.rating for reason in row.reasons] == [NAMES.ratings[u, j] for j, _ in ranked[:2]]
    values = [c for _, c in ranked[:2]]
    assert [reason.contribution for reason in row.reasons] == pytest.approx(values, rel=1e-6, abs=1e-8)


def test_recommendations_come_with_their_reasons(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    """Those of the ranking, none of them rated; what a validation set holds is no reason."""
    ratings = NAMES.frame(spark).withColumn("held_out", F.lit(False))
    unused = ratings.where("user = 'zoë'").limit(1).withColumns({"item": F.lit("x"), "held_out": F.lit(True)})
    model = fitted.copy({fitted.validationIndicatorCol: "held_out"})
    readers = ratings.where("user in ('zoë', 'ж')")
    found = model.explainRecommendations(2, ratings.unionByName(unused), users=readers, n=1).collect()
    best = fitted.recommendForUserSubset(readers, 2, seen=ratings).collect()
    assert sorted((row.user_id, row.item_id) for row in found) == sorted(
        (row.user, entry.item) for row in best for entry in row.recommendations
    )
    assert all(len(row.reasons) == 1 for row in found)


def test_what_cannot_be_explained_is_named(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
    ratings, before = NAMES.frame(spark), cached(spark)
    zoe, others = ratings.where("user = 'zoë'"), ratings.where("user != 'zoë'")
    one = pairs_of(spark, ("zoë", "10"))
    refused: list[tuple[DataFrame, DataFrame, str]] = [
        (pairs_of(spark, ("who?", "10"), ("zoë", "10")), ratings, r"1 of 2 pairs .* the user, 'who\?', is not in the"),
        (pairs_of(spark, ("zoë", "what?")), ratings, r"the item, 'what\?', is not in the model"),
        (one, others, "the user, 'zoë', has no row in ratings"),
        (one.limit(0), ratings, "no pairs to explain"),
        (one, zoe.withColumn("rating", F.lit(9.0)), r"not those .* user 'zoë' for item '10' .* the model has"),
        (one, ratings.unionByName(zoe.limit(1)), "user 'zoë' has 2 ratings of item"),
        (one, ratings.drop("rating"), "column 'rating' is missing"),
    ]
    for pairs, given, message in refused:
        with pytest.raises(DataError, match=message):
            fitted.explain(pairs, given)
    with pytest.raises(ConfigError, match="user ids are int here and string in the given model"):
        fitted.explain(frame_of(spark, [(1, "10")], "user int, item string"), ratings)
    with pytest.raises(ValueError, match="n: found 0"):
        fitted.explain(one, ratings, n=0)
    assert cached(spark) == before


def test_reasons_in_a_line_of_text(spark: SparkSession) -> None:
    """By title where there is one; an item without reasons has an empty line, not none."""
    schema = "user_id long, item_id long, reasons array<struct<item_id: long, rating: double, contribution: double>>"
    rows = [(1, 7, [(8, 5.0, 0.414), (9, 1.5, -0.3), (7, 4.0, 0.2)]), (1, 9, [])]
    explained = frame_of(spark, rows, schema)
    titles = frame_of(spark, [(8, "Emma"), (9, "Ivanhoe")], "item_id long, title string")
    by_title = with_titles(explained, titles)
    assert by_title.columns == ["user_id", "item_id", "reasons", "title"]
    texts = by_title.select("item_id", "title", reasons_text(), reasons_text(name="title").alias("titles"))
    assert sorted(tuple(row) for row in texts.collect()) == [
        (
            7,
            "7",
            "because of 8 (5.0): +0.41, 7 (4.0): +0.20; despite 9 (1.5): -0.30",
            "because of Emma (5.0): +0.41, 7 (4.0): +0.20; despite Ivanhoe (1.5): -0.30",
        ),
        (9, "Ivanhoe", "", ""),
    ]
    with pytest.raises(DataError, match="titles: found columns item_id; expected item_id and title"):
        with_titles(explained, titles.drop("title"))


def test_titles_in_tables_without_reasons(spark: SparkSession) -> None:
    """Recommendation tables keep their columns and order; the arrays of recommendForAllUsers get theirs inside."""
    titles = frame_of(spark, [(8, "Emma"), (9, "Ivanhoe")], "item_id long, title string")
    table = frame_of(spark, [(1, 1, 9, 4.5), (1, 2, 7, 4.0)], "user_id long, rank long, item_id long, score double")
    assert [tuple(row) for row in with_titles(table, titles).orderBy("rank").collect()] == [
        (1, 1, 9, 4.5, "Ivanhoe"),
        (1, 2, 7, 4.0, "7"),
    ]
    predicted = table.selectExpr("item_id as film", "score as prediction")
    assert with_titles(predicted, titles, item="film").columns == ["film", "prediction", "title"]
    schema = "user long, recommendations array<struct<film: long, rating: float>>"
    arrays = frame_of(spark, [(1, [(9, 4.5), (7, 4.0)]), (2, [])], schema)
    named = with_titles(arrays, titles, item="film").orderBy("user").collect()
    assert [[tuple(entry) for entry in row.recommendations] for row in named] == [
        [(9, 4.5, "Ivanhoe"), (7, 4.0, "7")],
        [],
    ]


def test_titles_that_have_no_place(spark: SparkSession) -> None:
    titles = frame_of(spark, [(8, "Emma")], "item_id long, title string")
    arrays = frame_of(spark, [], "user long, recommendations array<struct<film: long, rating: float>>")
    with pytest.raises(DataError, match="no column 'item_id': found user, recommendations; name the one that holds"):
        with_titles(arrays, titles)
    with pytest.raises(DataError, match="column 'title' is there already"):
        with_titles(titles, titles)
