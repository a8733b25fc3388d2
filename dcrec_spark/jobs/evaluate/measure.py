"""The Spark work of an evaluation: predictions, lists, metrics, strata, predictive check, certainty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import EvaluateConfig
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.baselines import (
    BASELINES,
    POPULARITY,
    RANK_ONLY,
    item_statistics,
    one_list_for_all,
    with_baselines,
)
from dcrec_spark.evaluation.distributions import histogram
from dcrec_spark.evaluation.measures import Columns, Measure, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.strata import Stratum, evaluate_strata
from dcrec_spark.jobs.evaluate.comparison import MODEL, Comparison
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.jobs.job import Context
from dcrec_spark.models.exposure.estimator import estimator_like
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.publish.schemas import metric_table
from dcrec_spark.report.facts import CertaintyFacts

CUTS = (5, 10)
_HELD_OUT_SHARE = 0.2
_COVERAGE = 0.9
_QUARTILES = [0.25, 0.5, 0.75]
_FEW = 5
_COLUMNS = Columns("user_id", "item_id", "rating")


@dataclass(frozen=True)
class Measurements:
    """Metrics of the models and of the simple baselines."""

    lists: DataFrame  # of the evaluated model: user_id, rank, item_id, score, preference, confounder
    of_test: Metrics  # of the predictions for the test's items
    of_lists: Metrics  # of the lists, over the whole catalogue
    strata: Sequence[Stratum]  # of the model and the one it is compared with

    @property
    def differences(self) -> dict[str, list[Metrics]]:
        """Name of each other model -> paired differences of the evaluated model from it."""
        both = (self.of_test, self.of_lists)
        return {
            other: [metrics.difference(MODEL, other) for metrics in both if other in metrics.scores]
            for other in self.of_test.scores
            if other != MODEL
        }

    def table(self, spark: SparkSession, run_id: str) -> DataFrame:
        """Make the published table ``metrics``. A difference is a row such as ``this model - item mean``."""
        parts = [self.of_test, self.of_lists, *(part for parts in self.differences.values() for part in parts)]
        rows = [row for metrics in parts for row in metrics.rows("test")]
        for stratum in self.strata:
            split = f"test, {stratum.side}s with {stratum.numbers} training ratings"
            rows += [*stratum.metrics.rows(split), *difference_of(stratum).rows(split)]
        return metric_table(spark, run_id, rows)


def metric_settings(config: EvaluateConfig) -> MetricSettings:
    """Variants of the metrics."""
    given = config.evaluation
    return MetricSettings(CUTS, given.relevant_from, replications=given.bootstrap, seed=config.run.seed)


def measure(context: Context[EvaluateConfig], comparison: Comparison) -> Measurements:
    """Predict the test, rank the catalogue, and measure both."""
    config, models, settings = context.config, comparison.vectors, metric_settings(context.config)
    predictions = with_baselines(comparison.test, comparison.training, config.run.seed)
    for name, vectors in models.items():
        predictions = vectors.score(predictions, name)
    predictions = predictions.persist()
    context.resources.callback(predictions.unpersist)
    of_test = evaluate(predictions, {name: name for name in (*models, *BASELINES)}, _COLUMNS, settings)
    of_test = _select(of_test, lambda name, measure: not (name in RANK_ONLY and measure.is_error))
    lists = _rank(context, comparison)
    longest = lists[MODEL].agg(F.max("rank")).collect()[0][0]
    of_lists = replace(settings, ks=tuple(k for k in CUTS if k <= longest) or (longest,))  # in a small catalogue
    sizes = {name: vectors.n_items for name, vectors in models.items()} | {POPULARITY: comparison.model.numItems}
    test, training = comparison.test, comparison.training
    parts = [evaluate_ranking(lists[name], test, sizes[name], name, _COLUMNS, of_lists, training) for name in lists]
    strata: list[Stratum] = []
    if comparison.relatives:
        pair = {name: name for name in (MODEL, next(iter(comparison.relatives)))}
        strata = evaluate_strata(predictions, comparison.training, pair, _COLUMNS, settings)
    return Measurements(lists[MODEL], of_test, reduce(Metrics.join, parts), strata)


def difference_of(stratum: Stratum) -> Metrics:
    """Paired difference of the model from the one it is compared with."""
    model, other = stratum.metrics.scores
    return stratum.metrics.difference(model, other)


def check_exposures(context: Context[EvaluateConfig], comparison: Comparison) -> PredictiveCheck | None:
    """Check an exposure model with the settings of the saved one. None if there is none."""
    model = comparison.model
    if model.exposureModel is None:
        return None
    columns = {name: model.getOrDefault(name) for name in ("userCol", "itemCol")}
    estimator = estimator_like(model.exposureModel, **columns, validationIndicatorCol=None)
    ratings = as_trained(model, comparison.training)
    check = estimator.predictiveCheck(ratings, _HELD_OUT_SHARE, seed=context.config.run.seed)
    context.resources.callback(check.release)
    return check


def measure_certainty(comparison: Comparison) -> CertaintyFacts | str:
    """Summarise the intervals and the overlap of the longest lists.

    Returns a sentence where the model, or these training ratings, give no intervals.
    """
    model, ratings = comparison.model, as_trained(comparison.model, comparison.training)
    try:
        lists = model.sureRecommendations(max(CUTS), ratings, seen=ratings, coverage=_COVERAGE)
    except (ConfigError, DataError) as error:
        return f"Not known: {error}."
    widths = histogram(lists.withColumn("width", F.col("high") - F.col("low")), "width")
    extrapolating, odds = lists.agg(
        F.avg(F.col("extrapolates").cast("int")),
        F.percentile(F.when(F.col("rank") == 1, F.col("odds_to_change")), F.array(*map(F.lit, _QUARTILES))),
    ).collect()[0]
    lists.unpersist()
    quartiles = odds or (float("nan"),) * 3
    if model.exposureModel is None:
        return CertaintyFacts(_COVERAGE, widths, None, quartiles, None)
    overlap = model.overlap(ratings)
    few = overlap.agg(F.avg((F.col("effective_ratings") < _FEW).cast("int"))).collect()[0][0]
    overlap.unpersist()
    return CertaintyFacts(_COVERAGE, widths, extrapolating, quartiles, float(few))


def _rank(context: Context[EvaluateConfig], comparison: Comparison) -> dict[str, DataFrame]:
    """Rank the best unseen items of every user, by each model and by popularity."""
    counts = item_statistics(comparison.training).select("item_id", F.col("ratings").alias("score"))
    popular = one_list_for_all(comparison.model.scoringVectors(), counts)
    depth = max(context.config.recommend.top_n, *CUTS)
    seen, lists = comparison.training.select("user_id", "item_id"), {}
    for name, vectors in {**comparison.vectors, POPULARITY: popular}.items():
        lists[name] = vectors.best(depth, seen).persist()
        context.resources.callback(lists[name].unpersist)
    return lists


def _select(metrics: Metrics, holds: Callable[[str, Measure], bool]) -> Metrics:
    scores = {
        name: {measure: score for measure, score in of.items() if holds(name, measure)}
        for name, of in metrics.scores.items()
    }
    return replace(metrics, scores=scores)
