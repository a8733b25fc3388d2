"""Pictures: what they draw is what the data has."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, MetricSettings, evaluate
from dcrec_spark.errors import ConfigError
from dcrec_spark.plots import (
    plot_confounding,
    plot_forest,
    plot_gamma,
    plot_lists,
    plot_models,
    plot_popularity,
    plot_score,
)
from tests.frames import frame_of


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    """Item 0 is seen by all 40 users, item i by one in i + 1. The more an item is seen, the better it is rated."""
    rows = [(u, i, 5.0 - 0.4 * i) for i in range(10) for u in range(40) if u % (i + 1) == 0]
    return frame_of(spark, rows, "user long, item long, rating double")


@pytest.fixture(scope="module")
def model(ratings: DataFrame) -> DeconfoundedMFModel:
    return DeconfoundedMF(exposureRank=1, rank=2, maxIter=3, regParam=1.0).fit(ratings)


def test_ratings_rise_with_exposure_where_they_do(model: DeconfoundedMFModel, ratings: DataFrame) -> None:
    (axes,) = plot_confounding(model, ratings, bins=4).axes
    exposed, mean = np.asarray(axes.lines[0].get_data(), dtype=float)
    assert len(exposed) == 4
    assert np.all(np.diff(exposed) > 0)
    assert mean[-1] > mean[0] + 1
    classical = DeconfoundedMF(adjustment="none", rank=2, maxIter=1).fit(ratings)
    with pytest.raises(ConfigError, match="adjustment=deconfounded"):
        plot_confounding(classical, ratings)


def test_a_waterfall_ends_at_the_score_and_weights_are_counted(model: DeconfoundedMFModel, ratings: DataFrame) -> None:
    explained = model.explain(ratings.where("user = 6 AND item = 2"), ratings)
    row = explained.first().asDict(recursive=True)
    explained.unpersist()
    (axes,) = plot_score(row, {2: "the second"}).axes
    last = axes.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(row["score"])
    assert "the second" in [label.get_text() for label in axes.get_yticklabels()]
    assert sum(bar.get_height() for bar in plot_gamma(model).axes[0].patches) == 40


def test_shares_of_places_and_of_ratings_are_by_popularity(spark: SparkSession, ratings: DataFrame) -> None:
    """A list of item 9 alone, which has 4 ratings, next to ratings of which 40 in 118 are of item 0."""
    lists = frame_of(spark, [(user, 9) for user in range(5)], "user_id long, item_id long")
    (axes,) = plot_popularity({"rare": lists}, ratings).axes
    rated, rare = ([bar.get_height() for bar in bars] for bars in axes.containers)
    assert rated[-1] == pytest.approx(40 / ratings.count())
    assert rare == [1.0, 0.0, 0.0, 0.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16", "32"]


def test_an_item_of_both_lists_is_connected_and_models_are_labelled(spark: SparkSession) -> None:
    figure = plot_lists({"ours": {"Alien": 4.84, "Brazil": 4.5}, "theirs": ["Brazil", "Casablanca"]})
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "4.8  Alien",
        "4.5  Brazil",
        "1  Brazil",
        "2  Casablanca",
    ]
    (line,) = figure.axes[0].lines
    assert list(np.asarray(line.get_ydata())) == [-1, 0]
    rows = [(user, item, float(item), item + 0.1, 3.0 - item) for user in range(4) for item in range(3)]
    frame = frame_of(spark, rows, "user long, item long, rating double, good double, bad double")
    metrics = evaluate(frame, {"good": "good", "bad": "bad"}, settings=MetricSettings(replications=20))
    axes = plot_models(metrics).axes[0]
    assert [text.get_text() for text in axes.texts] == ["good", "bad"]
    good, bad = (float(line.get_xdata()[0]) for line in axes.lines)  # type: ignore[index,arg-type]
    assert good < bad
    errors = {name: metrics.estimates(name)["mse"] for name in metrics.scores}
    assert [label.get_text() for label in plot_forest(errors, "MSE").axes[0].get_yticklabels()] == ["good", "bad"]
