"""Evaluation on Spark against plain loops, whatever the partitions; intervals, differences, and what is refused."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.measures import Columns, Measure, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate, evaluate_arrays, join_predictions
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.kernels.bootstrap import poisson_weights
from tests.frames import frame_of
from tests.reference import metrics as slow
from tests.reference.metrics import Row, Variant
from tests.reference.poisson import Array

USERS = ["", "zoë", "a`tick", "ж", "用户", "🦊", "u7", "u8", "u9"]
ITEMS = [-(2**40), 3, 5, 10, 2**33, 2**62, 7]
KS = (1, 3)
SETTINGS = MetricSettings(ks=KS, replications=5, seed=3)


def draw(seed: int = 0) -> list[Row]:
    """Whole predictions, so that many are equal; the first user likes nothing."""
    rng = np.random.default_rng(seed)
    return [
        Row(user, item, float(rng.integers(0, 3 if user == USERS[0] else 6)), float(rng.integers(0, 7)))
        for user, item in product(USERS, ITEMS)
        if rng.random() < 0.6
    ]


def frame(spark: SparkSession, rows: list[Row], partitions: int = 2, order: int = 0) -> DataFrame:
    shuffled = [tuple(rows[at]) for at in np.random.default_rng(order).permutation(len(rows))]
    schema = "user string, item long, rating double, prediction double"
    return frame_of(spark, shuffled, schema).repartition(partitions)


def here(
    rows: list[Row], settings: MetricSettings = SETTINGS, catalogue_size: int | None = None, **more: Array
) -> Metrics:
    """The same of arrays, in this process: what is not about Spark is measured there."""
    users, items = (sorted({row[side] for row in rows}, key=str) for side in (0, 1))
    item = np.array([items.index(row.item) for row in rows])
    pairs = {
        "user_key": np.array([1000 + users.index(row.user) for row in rows]),
        "item": item,
        "item_key": item,
        "rating": np.array([row.rating for row in rows]),
    }
    prediction = {"prediction": np.array([row.prediction for row in rows])}
    return evaluate_arrays(pairs, {**prediction, **more}, settings, catalogue_size)


def assert_is(found: Metrics, expected: dict[str, tuple[float, int]]) -> None:
    estimates = found.estimates()
    assert estimates.keys() == expected.keys()
    for measure, (value, n) in expected.items():
        assert estimates[measure].value == pytest.approx(value, rel=1e-12), measure
        assert estimates[measure].n == n, measure


def test_every_metric_is_the_loops(spark: SparkSession) -> None:
    rows = draw()
    for found in (evaluate(frame(spark, rows), settings=SETTINGS), here(rows)):
        assert_is(found, slow.evaluate(rows, KS, Variant()))
    settings = MetricSettings(KS, relevance=4.0, gain="2^(rel-1)", clip=(1.0, 5.0))
    assert_is(here(rows, settings), slow.evaluate(rows, KS, Variant("2^(rel-1)", 4.0), settings.clip))


def test_errors_over_ratings_are_weighted_means_and_nothing_else_knows_of_weights(spark: SparkSession) -> None:
    rows = draw(2)
    weight = np.random.default_rng(0).uniform(0, 3, len(rows))
    plain = here(rows).estimates()
    error = np.array([row.prediction - row.rating for row in rows])
    expected = {"mse": np.average(error**2, weights=weight), "mae": np.average(np.abs(error), weights=weight)}
    schema = "user string, item long, rating double, prediction double, how_much double"
    weighed = frame_of(spark, [(*row, w) for row, w in zip(rows, weight.tolist(), strict=True)], schema)
    found = evaluate(weighed.repartition(3), columns=Columns(weight="how_much"), settings=SETTINGS)
    for measure, estimate in found.estimates().items():
        assert estimate.value == pytest.approx(expected.get(measure, plain[measure].value), rel=1e-12), measure
        assert estimate.n == plain[measure].n, measure
    spoilt = weighed.withColumn("how_much", F.when(F.col("rating") > 4, -1.0).otherwise(F.col("how_much")))
    with pytest.raises(DataError, match="rows cannot be evaluated: how_much is null, infinite or negative"):
        evaluate(spoilt, columns=Columns(weight="how_much"), settings=SETTINGS)


def test_coverage_is_the_share_of_the_catalogue_that_somebody_sees() -> None:
    """First places: item 1 for both users; first two: items 1, 2 and 3."""
    rows = [
        Row(user, item, 3.0, -float(place))
        for user, items in (("u", [1, 2]), ("v", [1, 3]))
        for place, item in enumerate(items)
    ]
    found = here(rows, MetricSettings((1, 2)), 10).estimates()
    assert found["coverage@1"] == (1 / 10, None, None, 10)
    assert found["coverage@2"] == (3 / 10, None, None, 10)
    with pytest.raises(ConfigError, match="catalogue_size: found 2, expected at least the 3 items"):
        here(rows, MetricSettings((1, 2)), 2)


def test_a_metric_that_nobody_has_is_not_a_number_and_one_user_has_no_interval() -> None:
    found = here([Row("u", 1, 0.0, 2.0), Row("v", 2, 0.0, 1.0)]).estimates()
    for measure in ("ndcg", "recall@1", "map@3"):
        assert math.isnan(found[measure].value)
        assert found[measure][1:] == (None, None, 0)
    assert found["mse"].value == 2.5
    found = here([Row("u", item, 3.0, float(item)) for item in range(5)], MetricSettings()).estimates()
    assert [found[measure].ci_low for measure in ("ndcg", "recall@5", "mse", "mae")] == [None] * 4
    assert (found["mse"].n, found["ndcg"].n) == (5, 1)
    assert found["item_mse"].ci_low is not None


def drawn(spark: SparkSession, rows: list[Row], side: str, seed: int) -> list[dict[Any, int]]:
    """How often each user, or item, is drawn in each replication, by the hash of the id."""
    ids = sorted({getattr(row, side) for row in rows})
    hashed = frame_of(spark, [(str(i),) for i in ids], "id string").coalesce(1).select(F.xxhash64("id"))
    weights = poisson_weights(seed, np.array(hashed.collect())[:, 0], SETTINGS.replications)
    return [dict(zip(ids, column, strict=True)) for column in weights.T.tolist()]


def resampled(rows: list[Row], measure: str, users: dict[Any, int], items: dict[Any, int]) -> float:
    if measure == "mse":
        weights = [users[row.user] * items[row.item] for row in rows]
        return float(np.average([(row.prediction - row.rating) ** 2 for row in rows], weights=weights))
    units: list[tuple[float, int]] = []  # value, how often it counts
    if measure == "item_mse":
        for item in sorted({row.item for row in rows}):
            errors = {row.user: (row.prediction - row.rating) ** 2 for row in rows if row.item == item}
            mean, n = sum(errors.values()) / len(errors), len(errors)
            others = {u: (mean * n - e) / (n - 1) if n > 1 else mean for u, e in errors.items()}
            units.append((mean + sum((users[u] - 1) * (mean - others[u]) for u in errors), items[item]))
    else:
        name, _, k = measure.partition("@")
        for user in sorted({row.user for row in rows}):
            of = slow.AT_K[name], slow.ranked_ratings(rows, user), [], int(k) if k else math.inf, Variant()
            value, flat = slow.expected(*of), [row for group in slow.own_rows(rows, user) for row in group]
            if value is not None:
                moved = sum((items[row.item] - 1) * move for row, move in zip(flat, slow.moves(*of), strict=True))
                units.append((value + moved, users[user]))
    values, times = zip(*units, strict=True)
    return float(np.average(values, weights=times))


def test_replications_are_evaluations_of_the_resampled_users_and_items(spark: SparkSession) -> None:
    rows = draw(6)
    draws = list(zip(drawn(spark, rows, "user", 3), drawn(spark, rows, "item", 4), strict=True))
    for how in ((1, 1), (7, 2)):
        found = evaluate(frame(spark, rows, *how), settings=SETTINGS).scores["prediction"]
        for measure in ("ndcg", "recall@3", "map@3", "mse", "item_mse"):
            expected = [resampled(rows, measure, users, items) for users, items in draws]
            np.testing.assert_allclose(found[Measure.parse(measure)].resampled[1:], expected, rtol=1e-11)


def test_models_meet_the_same_resamples_together_or_apart(spark: SparkSession) -> None:
    rows = draw(7)
    other = [row._replace(prediction=-row.prediction) for row in rows]
    frames = {"good one": frame(spark, rows), "its.opposite": frame(spark, other, 3, 1)}
    together = evaluate(join_predictions(frames), {name: name for name in frames}, settings=SETTINGS)
    apart = [evaluate(f.withColumnRenamed("prediction", name), name, settings=SETTINGS) for name, f in frames.items()]
    for one in (together, apart[0].join(apart[1])):
        for measure, score in one.difference("good one", "its.opposite").scores["good one - its.opposite"].items():
            mine, theirs = (each.scores[model][measure] for each, model in zip(apart, frames, strict=True))
            np.testing.assert_allclose(score.resampled, mine.resampled - theirs.resampled, atol=1e-12)
            assert score.n == mine.n


def test_missing_predictions_are_counted_and_refused_or_dropped_for_all(spark: SparkSession) -> None:
    rows = draw(10)
    holes = {0: float("nan"), 1: float("inf")}
    spoilt = [row._replace(prediction=holes.get(at, row.prediction)) for at, row in enumerate(rows)]
    other = F.when((F.col("user") != rows[2].user) | (F.col("item") != rows[2].item), 1.0)
    both = frame(spark, spoilt).withColumn("other", other)
    models = {"one": "prediction", "two": "other"}
    with pytest.raises(
        DataError, match=rf"3 of {len(rows)} test ratings .* \(2 in column 'prediction', 1 in column 'other'\)"
    ):
        evaluate(both, models)
    found = evaluate(both, models, settings=MetricSettings(KS, missing="drop"))
    sizes = {"rows": len(rows), "users": len(USERS), "items": len(ITEMS)}
    assert found.counts == {**sizes, "dropped": 3, "items_missing": 0}
    expected = slow.evaluate(rows[3:], KS, Variant())
    assert {m: e[::3] for m, e in found.estimates("one").items()} == {m: pytest.approx(e) for m, e in expected.items()}
    assert found.estimates("two")["mse"].n == len(rows) - 3
    with pytest.raises(DataError, match=f"none of the {len(rows)} test ratings has a finite prediction"):
        evaluate(both.withColumn("prediction", F.lit(None).cast("double")), settings=MetricSettings(missing="drop"))
    of_known = both.withColumn("prediction", F.when(F.col("item") != ITEMS[0], 1.0))
    counts = evaluate(of_known, settings=MetricSettings(missing="drop", replications=0)).counts
    assert (counts["items"], counts["items_missing"]) == (len(ITEMS), 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"rating": math.nan}, "1 of 2 rows cannot be evaluated: rating is null, infinite, or over"),
        ({"rating": 2000.0}, "over 1000 where gain is a power of 2"),
        ({"user": "u", "item": 1}, "1 of 2 rows cannot be evaluated: they repeat a pair of user and item"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(spoil: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        here([Row("u", 1, 3.0, 2.0), Row("v", 2, 4.0, 1.0)._replace(**spoil)])


def test_frames_that_cannot_be_used_are_refused(spark: SparkSession) -> None:
    good = frame(spark, draw())
    disagreeing = join_predictions({"a": good, "b": good.withColumn("rating", F.col("rating") + 1)})
    lacking = join_predictions({"a": good, "b": good.where("item != 3")})
    refused: list[tuple[DataFrame, Any, str]] = [
        (good.limit(0), "prediction", "there is nothing to evaluate"),
        (
            good.withColumn("user", F.lit(None).cast("string")),
            "prediction",
            "cannot be evaluated: user or item is null",
        ),
        (good, "score", "column 'score' is missing"),
        (good.withColumn("prediction", F.lit("1")), "prediction", "'prediction' is of type string, expected numbers"),
        (disagreeing, {"a": "a", "b": "b"}, "rating is null"),
        (lacking, {"a": "a", "b": "b"}, r"\(0 in column 'a', [1-9] in column 'b'\)"),
    ]
    for given, models, message in refused:
        with pytest.raises(DataError, match=message):
            evaluate(given, models)


def test_what_cannot_be_compared_is_refused() -> None:
    rows = draw(9)
    one, other = here(rows), here(rows[1:])
    fewer = replace(other, scores={"fewer": other.scores["prediction"]})
    with pytest.raises(DataError, match="a paired difference needs the same test ratings"):
        one.join(fewer).difference("prediction", "fewer")
    with pytest.raises(ConfigError, match="model 'prediction' is in both"):
        one.join(one)
    with pytest.raises(ConfigError, match="metrics of different settings"):
        one.join(here(rows, MetricSettings(seed=1, replications=0)))
    with pytest.raises(ConfigError, match="model: found 'third', expected one of 'prediction'"):
        one.as_dict("third")
