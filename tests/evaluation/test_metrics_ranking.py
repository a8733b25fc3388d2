"""Lists from the whole catalogue against loops: hits, misses, users without a list, and what is refused."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.measures import Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_ranking
from tests.frames import frame_of
from tests.reference import metrics as slow
from tests.reference.metrics import Variant

N_USERS, N_ITEMS = 12, 15
KS = (1, 4)
SETTINGS = MetricSettings(KS, replications=20)


class Answers(NamedTuple):
    lists: dict[str, list[str]]
    ratings: dict[str, dict[str, float]]

    def recommendations(self, spark: SparkSession, partitions: int = 2) -> DataFrame:
        rows = [(user, rank, item) for user, own in self.lists.items() for rank, item in enumerate(own, start=1)]
        return frame_of(spark, rows, "user_id string, rank int, item_id string").repartition(partitions)

    def rated(self, spark: SparkSession, partitions: int = 2) -> DataFrame:
        rows = [(user, item, rating) for user, own in self.ratings.items() for item, rating in own.items()]
        return frame_of(spark, rows, "user string, item string, rating double").repartition(partitions)

    def slowly(self, variant: Variant) -> dict[str, tuple[float, int]]:
        found = {}
        for k in KS:
            for name, metric in slow.AT_K.items():
                values = []
                for user, ratings in self.ratings.items():
                    own = self.lists.get(user, [])
                    missed = [rating for item, rating in ratings.items() if item not in own]
                    values.append(metric([ratings.get(item) for item in own], missed, k, variant))
                found[f"catalogue_{name}@{k}"] = slow.mean(values)
            pairs = [(own, item) for user, own in self.ratings.items() for item in self.lists.get(user, [])[:k]]
            hits = [own[item] for own, item in pairs if item in own]
            found[f"catalogue_hit_rating@{k}"] = float(np.mean(hits)), len(self.ratings)
            shown = {item for own in self.lists.values() for item in own[:k]}
            found[f"catalogue_coverage@{k}"] = len(shown) / N_ITEMS, N_ITEMS
        return found


def draw(seed: int = 0) -> Answers:
    """The first user has no list, the second no test ratings, the third short ones; some like nothing."""
    rng = np.random.default_rng(seed)
    users, items = [f"ü{n}" for n in range(N_USERS)], [f"i{n}" for n in range(N_ITEMS)]
    lists = {user: [str(i) for i in rng.permutation(items)[: 2 if user == users[2] else 5]] for user in users[1:]}
    ratings = {
        user: {str(item): float(rng.integers(0, 6)) for item in rng.permutation(items)[: int(rng.integers(1, 8))]}
        for user in users
        if user != users[1]
    }
    return Answers(lists, ratings)


@pytest.mark.parametrize(
    ("settings", "variant"),
    [(SETTINGS, Variant()), (MetricSettings(KS, 4.0, "2^(rel-1)", replications=0), Variant("2^(rel-1)", 4.0))],
    ids=["usual", "papers-gain"],
)
def test_every_metric_is_the_loops(spark: SparkSession, settings: MetricSettings, variant: Variant) -> None:
    answers = draw()
    found = evaluate_ranking(answers.recommendations(spark), answers.rated(spark), N_ITEMS, settings=settings)
    expected = answers.slowly(variant)
    estimates = found.estimates("model")
    assert estimates.keys() == expected.keys()
    for measure, (value, n) in expected.items():
        assert estimates[measure].value == pytest.approx(value, rel=1e-12), measure
        assert estimates[measure].n == n, measure
    assert found.counts["users_without_list"] == 1


def test_partitions_change_nothing_and_ids_may_differ_in_type(spark: SparkSession) -> None:
    answers = draw(1)
    number = {name: F.regexp_extract(name, r"\d+", 0) for name in ("user_id", "item_id", "user", "item")}
    listed, test = answers.recommendations(spark, 7), answers.rated(spark, 5)
    listed = listed.withColumns({name: number[name].cast("int") for name in ("user_id", "item_id")})
    test = test.select(number["user"].cast("long").alias("u"), number["item"].cast("long").alias("i"), "rating")
    one = evaluate_ranking(listed, test, N_ITEMS, columns=Columns("u", "i"), settings=SETTINGS)
    other = evaluate_ranking(listed.repartition(1), test.repartition(2), N_ITEMS, "it", Columns("u", "i"), SETTINGS)
    for measure, score in one.scores["model"].items():
        np.testing.assert_allclose(score.resampled, other.scores["it"][measure].resampled, rtol=1e-12, atol=1e-14)
    assert one.as_dict().keys() == draw(1).slowly(Variant()).keys()


def test_two_tables_are_compared_on_the_same_users(spark: SparkSession) -> None:
    """The second leaves out half of the lists, which then count as missed, and its catalogue has an item more."""
    answers = draw(2)
    half = Answers({user: own for user, own in answers.lists.items() if user > "ü5"}, answers.ratings)
    frames = {"all": (answers, N_ITEMS), "half": (half, N_ITEMS + 1)}
    found = [
        evaluate_ranking(these.recommendations(spark), answers.rated(spark), n_items, name, settings=SETTINGS)
        for name, (these, n_items) in frames.items()
    ]
    differences = found[0].join(found[1]).difference("all", "half").estimates()
    for measure in ("catalogue_coverage@4", "catalogue_recall@4"):
        one, other = (metrics.as_dict()[measure] for metrics in found)
        assert differences[measure].value == pytest.approx(one - other)
    assert differences["catalogue_recall@4"].value > 0


def test_tables_that_cannot_be_used_are_refused(spark: SparkSession) -> None:
    answers = draw()
    listed, test = answers.recommendations(spark), answers.rated(spark)
    first = (F.col("user_id") == "ü3") & (F.col("rank") == 1)
    twice, nowhere = (listed.withColumn("rank", F.when(first, at).otherwise(F.col("rank"))) for at in (2, 0))
    refused = [
        (twice, test, "1 of .* rows cannot be evaluated: they repeat a rank of their user"),
        (nowhere, test, "1 of .* rows cannot be evaluated: rank is null, or below 1"),
        (listed, test.unionByName(test.limit(1)), "1 of .* rows cannot be evaluated: they repeat a pair of user and"),
        (listed, test.withColumn("user", F.nullif("user", F.lit("ü3"))), "rows cannot be evaluated: user or item is n"),
        (listed, test.withColumn("rating", F.lit(math.nan)), "rows cannot be evaluated: rating is null, infinite, or"),
        (listed.where("rank <= 3"), test, "no user with test ratings has a list of 4 recommendations"),
        (listed.drop("rank"), test, "column 'rank' is missing"),
        (listed.limit(0), test.limit(0), "there is nothing to evaluate"),
    ]
    with pytest.raises(ConfigError, match="catalogue_size: found 3, expected at least"):
        evaluate_ranking(listed, test, 3, settings=SETTINGS)
    for recommendations, ratings, message in refused:
        with pytest.raises(DataError, match=message):
            evaluate_ranking(recommendations, ratings, N_ITEMS, settings=SETTINGS)
