"""Why an item was scored as it was: sums that add up to the model's own numbers, by the ratings that carry them."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMFModel, PoissonFactorizationModel, reasons_text, with_titles
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of
from tests.models.data_sets import NAMES, Posterior, cached, unknowns_of
from tests.reference import explain as dense

ASKED = ["", "zoë", "🦊"]


def pairs_of(spark: SparkSession, *pairs: tuple[str, str]) -> DataFrame:
    return frame_of(spark, list(pairs), "user string, item string")


def test_an_explanation_matches_the_dense_reference_and_adds_up(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel
) -> None:
    """Of all items, rated or not, for three users. The kernels' tests explain each kind of model."""
    pairs = pairs_of(spark, *[(user, item) for user in ASKED for item in NAMES.items])
    explained = fitted.explain(pairs, NAMES.frame(spark), n=2)
    found = {(row.user_id, row.item_id): row for row in explained.collect()}
    h = NAMES.confounder(Posterior.of(stage_one), {})[0]
    reference = NAMES.problem({}, h), unknowns_of(fitted), NAMES.observed, (1.0, 1.0)
    scored = fitted.predictParts(pairs).collect()
    assert len(found) == len(scored) == 21
    for expected in scored:
        row = found[expected.user, expected.item]
        assert row.preference == pytest.approx(expected.preference, rel=1e-8, abs=1e-9)
        assert row.confounder == pytest.approx(expected.confounder, rel=1e-8, abs=1e-12)
        assert row.score == pytest.approx(expected.prediction, rel=1e-8)
        assert row.score == row.preference + row.confounder + row.intercept
        named = sum(reason.contribution for reason in row.reasons)
        assert row.preference == pytest.approx(row.baseline + named + row.others, rel=1e-12, abs=1e-12)
        u, i = NAMES.users.index(expected.user), NAMES.items.index(expected.item)
        assert_reasons(row, dense.of_least_squares(*reference, u=u, i=i))
    explained.unpersist()


def assert_reasons(row: Any, parts: dense.Parts) -> None:
    """The two largest contributions, each with its item's own rating; what is zero is no reason."""
    baseline, contributions = parts
    assert row.baseline == pytest.approx(baseline, rel=1e-7, abs=1e-8)
    ranked = sorted(((j, c) for j, c in enumerate(contributions) if abs(c) > 1e-12), key=lambda entry: -abs(entry[1]))
    assert [reason.item_id for reason in row.reasons] == [NAMES.items[j] for j, _ in ranked[:2]]
    u = NAMES.users.index(row.user_id)
    assert [reason.rating for reason in row.reasons] == [NAMES.ratings[u, j] for j, _ in ranked[:2]]
    values = [c for _, c in ranked[:2]]
    assert [reason.contribution for reason in row.reasons] == pytest.approx(values, rel=1e-6, abs=1e-8)


def test_recommendations_come_with_their_reasons(spark: SparkSession, fitted: DeconfoundedMFModel) -> None:
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
    schema = "user_id long, item_id long, reasons array<struct<item_id: long, rating: double, contribution: double>>"
    rows = [(1, 7, [(8, 5.0, 0.414), (9, 1.5, -0.3), (7, 4.0, 0.2)]), (1, 9, [])]
    explained = frame_of(spark, rows, schema)
    titles = frame_of(spark, [(8, "Emma"), (9, "Ivanhoe")], "item_id long, title string")
    by_title = with_titles(explained, titles)
    assert by_title.columns == ["user_id", "item_id", "reasons", "title"]
    texts = by_title.select("item_id", "title", reasons_text(), reasons_text(name="title").alias("titles"))
    line = "because of {} (5.0): +0.41, 7 (4.0): +0.20; despite {} (1.5): -0.30"
    expected = [(7, "7", line.format(8, 9), line.format("Emma", "Ivanhoe")), (9, "Ivanhoe", "", "")]
    assert sorted(tuple(row) for row in texts.collect()) == expected
    with pytest.raises(DataError, match="titles: found columns item_id; expected item_id and title"):
        with_titles(explained, titles.drop("title"))


def test_titles_in_tables_without_reasons(spark: SparkSession) -> None:
    titles = frame_of(spark, [(8, "Emma"), (9, "Ivanhoe")], "item_id long, title string")
    table = frame_of(spark, [(1, 1, 9, 4.5), (1, 2, 7, 4.0)], "user_id long, rank long, item_id long, score double")
    found = [tuple(row) for row in with_titles(table, titles).orderBy("rank").collect()]
    assert found == [(1, 1, 9, 4.5, "Ivanhoe"), (1, 2, 7, 4.0, "7")]
    predicted = table.selectExpr("item_id as film", "score as prediction")
    assert with_titles(predicted, titles, item="film").columns == ["film", "prediction", "title"]
    schema = "user long, recommendations array<struct<film: long, rating: float>>"
    arrays = frame_of(spark, [(1, [(9, 4.5), (7, 4.0)]), (2, [])], schema)
    named = with_titles(arrays, titles, item="film").orderBy("user").collect()
    entries = [[tuple(entry) for entry in row.recommendations] for row in named]
    assert entries == [[(9, 4.5, "Ivanhoe"), (7, 4.0, "7")], []]
    with pytest.raises(DataError, match="no column 'item_id': found user, recommendations; name the one that holds"):
        with_titles(arrays, titles)
    with pytest.raises(DataError, match="column 'title' is there already"):
        with_titles(titles, titles)
