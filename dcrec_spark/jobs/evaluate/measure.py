"""The Spark work of an evaluation: predictions, lists, their metrics, and the check of the exposures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import EvaluateConfig
from dcrec_spark.evaluation.baselines import BASELINES, POPULARITY, RANK_ONLY, with_baselines
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.settings import Columns
from dcrec_spark.evaluation.strata import Stratum
from dcrec_spark.evaluation.variants import one_list_for_all
from dcrec_spark.jobs.evaluate.comparison import MODEL, Comparison
from dcrec_spark.jobs.evaluate.strata import measure_strata, metric_rows
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.metric_settings import metric_settings
from dcrec_spark.models.exposure.estimator import estimator_like
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.publish.schemas import metric_table

HELD_OUT_SHARE = 0.2
# The lists of two models are compared down to this place at least.
DEPTH = 50
_COLUMNS = Columns("user_id", "item_id", "rating")


@dataclass(frozen=True)
class Measurements:
    """What the models and the baselines achieve on the test.

    Attributes
    ----------
    predictions : the test with a column for each model and baseline.
    lists : by model, user_id, rank, item_id, score, preference, confounder; ``depth`` deep.
    of_test : metrics of the predictions for the test's items.
    of_lists : metrics of the lists, over the whole catalogue.
    strata : metrics of the model and its relative, for users and for items by their training ratings.
    """

    predictions: DataFrame
    lists: Mapping[str, DataFrame]
    depth: int
    of_test: Metrics
    of_lists: Metrics
    strata: Sequence[Stratum]

    @property
    def metrics(self) -> list[Metrics]:
        """Metrics of the rankings of test items, and of the lists."""
        return [self.of_test, self.of_lists]

    @property
    def differences(self) -> dict[str, list[Metrics]]:
        """The model less each other row of the comparison, paired."""
        others = [name for name in self.of_test.scores if name != MODEL]
        return {
            other: [metrics.difference(MODEL, other) for metrics in self.metrics if other in metrics.scores]
            for other in others
        }

    def table(self, spark: SparkSession, run_id: str) -> DataFrame:
        """Make the published table ``metrics``, in which a difference is a row such as ``this model - item mean``."""
        parts = [*self.metrics, *(part for parts in self.differences.values() for part in parts)]
        of_all = [row for metrics in parts for row in metrics.rows("test")]
        return metric_table(spark, run_id, [*of_all, *metric_rows(self.strata)])


def measure(context: Context[EvaluateConfig], comparison: Comparison) -> Measurements:
    """Predict the test, rank the catalogue, and measure both."""
    config, models = context.config, comparison.vectors
    settings = metric_settings(config.evaluation, config.run.seed, config.evaluation.cuts)
    predictions = with_baselines(comparison.test, comparison.training, config.run.seed)
    for name, vectors in models.items():
        predictions = vectors.score(predictions, name)
    predictions = predictions.persist()
    context.resources.callback(predictions.unpersist)
    of_test = evaluate(predictions, {name: name for name in (*models, *BASELINES)}, _COLUMNS, settings)
    depth = max(DEPTH, config.recommend.top_n, *config.evaluation.cuts)
    lists = _lists(context, comparison, depth)
    sizes = {name: vectors.n_items for name, vectors in models.items()} | {POPULARITY: comparison.model.numItems}
    of_lists = reduce(
        Metrics.joined,
        (evaluate_ranking(lists[name], comparison.test, sizes[name], name, _COLUMNS, settings) for name in lists),
    )
    strata = measure_strata(predictions, comparison, _COLUMNS, settings, config.evaluation.strata)
    return Measurements(predictions, lists, depth, _without_errors(of_test, RANK_ONLY), of_lists, strata)


def check_exposures(context: Context[EvaluateConfig], comparison: Comparison) -> PredictiveCheck | None:
    """Check an exposure model with the settings of the saved one; None where that is not wanted, or there is none."""
    model, config = comparison.model, context.config
    if model.exposureModel is None or not config.evaluation.predictive_check:
        return None
    columns = {name: model.getOrDefault(name) for name in ("userCol", "itemCol")}
    estimator = estimator_like(model.exposureModel, **columns, validationIndicatorCol=None)
    check = estimator.predictiveCheck(as_trained(model, comparison.training), HELD_OUT_SHARE, seed=config.run.seed)
    context.resources.callback(check.release)
    return check


def _lists(context: Context[EvaluateConfig], comparison: Comparison, depth: int) -> dict[str, DataFrame]:
    """Rank the best unseen items of every user, by each model and by popularity."""
    counts = comparison.statistics.select("item_id", F.col("ratings").alias("score"))
    popular = one_list_for_all(comparison.model.scoringVectors(), counts)
    seen, lists = comparison.training.select("user_id", "item_id"), {}
    for name, vectors in {**comparison.vectors, POPULARITY: popular}.items():
        lists[name] = vectors.best(depth, seen).persist()
        context.resources.callback(lists[name].unpersist)
    return lists


def _without_errors(metrics: Metrics, models: Sequence[str]) -> Metrics:
    """``metrics`` without the errors of models whose scores are no ratings."""
    scores = {
        name: {measure: score for measure, score in of.items() if name not in models or not measure.is_error}
        for name, of in metrics.scores.items()
    }
    return replace(metrics, scores=scores)
