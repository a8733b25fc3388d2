"""The Spark work of an evaluation: the test set, the exposure check, the predictions, the lists, their metrics."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import RunConfig
from dcrec_spark.data.quoting import quoted
from dcrec_spark.evaluation.baselines import BASELINES, POPULARITY, RANK_ONLY, item_statistics, with_baselines
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.settings import Columns
from dcrec_spark.evaluation.variants import one_list_for_all, preference_alone
from dcrec_spark.jobs.common import metric_settings
from dcrec_spark.jobs.model_input import as_trained, id_columns
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish.schemas import metric_table

MODEL, COMPARED, PREFERENCE = "this model", "compared model", "preference alone"
HELD_OUT_SHARE = 0.2
# How far down the lists that are compared go, at least.
DEPTH = 50
_COLUMNS = Columns("user_id", "item_id", "rating")


@dataclass(frozen=True)
class Judged:
    """A model and what it is judged by.

    relatives : what is judged beside it by name: the second saved model, or the model's own preference part; empty
        where the model has no confounder part to leave out.
    training, test : user_id, item_id, rating; each pair of the test is of ids that all models know, and not in
        training. overlap, unknown : the test ratings that were left out for that.
    """

    saved: SavedModel
    other: SavedModel | None
    relatives: Mapping[str, DeconfoundedMFModel]
    training: DataFrame
    test: DataFrame
    n_test: int
    overlap: int
    unknown: int

    @property
    def model(self) -> DeconfoundedMFModel:
        """The one that is judged."""
        return self.saved.model

    @property
    def models(self) -> dict[str, DeconfoundedMFModel]:
        """Those that were fitted, or are part of one that was."""
        return {MODEL: self.model, **self.relatives}

    @cached_property
    def statistics(self) -> DataFrame:
        """item_id, ratings, mean_rating, of the training."""
        return item_statistics(self.training)


@dataclass(frozen=True)
class Verdicts:
    """What the test said.

    predictions : the test with a column for each model and baseline. lists : by model, user_id, rank, item_id, score,
    preference, confounder; ``depth`` deep. found : metrics, of the test items, and of the lists.
    """

    predictions: DataFrame
    lists: Mapping[str, DataFrame]
    depth: int
    of_test: Metrics
    of_lists: Metrics

    @property
    def found(self) -> list[Metrics]:
        """Both families."""
        return [self.of_test, self.of_lists]

    @property
    def differences(self) -> dict[str, list[Metrics]]:
        """The model less each other row of the comparison, paired."""
        others = [name for name in self.of_test.scores if name != MODEL]
        return {
            other: [metrics.difference(MODEL, other) for metrics in self.found if other in metrics.scores]
            for other in others
        }

    def table(self, spark: SparkSession, run_id: str) -> DataFrame:
        """The published table ``metrics``; differences are rows of their own, ``this model - item mean``."""
        parts = [*self.found, *(part for parts in self.differences.values() for part in parts)]
        return metric_table(spark, run_id, [row for metrics in parts for row in metrics.rows("test")])


def judged_by(
    saved: SavedModel, other: SavedModel | None, training: DataFrame, test: DataFrame, kept: ExitStack
) -> Judged:
    """The test without pairs of the training, and without ids that a model does not know."""
    pair = ["user_id", "item_id"]
    marked = test.select(*pair, "rating").join(training.select(*pair, F.lit(True).alias("__seen")), pair, "left")
    for number, model in enumerate(filter(None, (saved, other))):
        for side, table in zip(("user", "item"), model.model.tables(), strict=True):
            ids = table.select(F.col("id").alias(f"{side}_id"), F.lit(True).alias(f"__{side}_{number}"))
            marked = marked.join(ids, f"{side}_id", "left")
    is_known = [F.col(name).isNotNull() for name in marked.columns if name.startswith(("__user", "__item"))]
    seen, known = F.col("__seen").isNotNull(), reduce(Column.__and__, is_known)
    usable = marked.where(~seen & known).select(*pair, "rating").persist()
    kept.callback(usable.unpersist)
    overlap, unknown = marked.agg(F.count_if(seen), F.count_if(~seen & ~known)).collect()[0]
    return Judged(
        saved, other, _relatives(saved.model, other), training, usable, usable.count(), int(overlap), int(unknown)
    )


def _relatives(model: DeconfoundedMFModel, other: SavedModel | None) -> dict[str, DeconfoundedMFModel]:
    if other is not None:
        return {COMPARED: other.model}
    return {} if model.exposureModel is None else {PREFERENCE: preference_alone(model)}


def check_exposures(config: RunConfig, judged: Judged, kept: ExitStack) -> PredictiveCheck | None:
    """The check of an exposure model with the settings of the saved one; None where it is not wanted, or has none."""
    model = judged.model
    if model.exposureModel is None or not config.evaluation.predictive_check:
        return None
    columns = {name: model.getOrDefault(name) for name in ("userCol", "itemCol")}
    estimator: PoissonFactorization = model.exposureModel.estimator(**columns, validationIndicatorCol=None)
    check = estimator.predictiveCheck(as_trained(model, judged.training), HELD_OUT_SHARE, seed=config.run.seed)
    kept.callback(check.release)
    return check


def judge(config: RunConfig, judged: Judged, kept: ExitStack) -> Verdicts:
    """Predict the test, rank the catalogue, and measure both."""
    settings = metric_settings(config, config.evaluation.cuts)
    predictions = with_baselines(judged.test, judged.training, config.run.seed)
    for name, model in judged.models.items():
        predictions = _predicted(model, predictions, name)
    predictions = predictions.persist()
    kept.callback(predictions.unpersist)
    names = [*judged.models, *BASELINES]
    of_test = evaluate(predictions, {name: name for name in names}, _COLUMNS, settings)
    depth = max(DEPTH, config.recommend.top_n, *config.evaluation.cuts)
    lists = _lists(judged, depth, kept)
    sizes = {name: model.numItems for name, model in judged.models.items()} | {POPULARITY: judged.model.numItems}
    each = (evaluate_ranking(lists[name], judged.test, sizes[name], name, _COLUMNS, settings) for name in lists)
    of_lists = reduce(Metrics.joined, each)
    return Verdicts(predictions, lists, depth, _without_errors(of_test, [PREFERENCE, *RANK_ONLY]), of_lists)


def _predicted(model: DeconfoundedMFModel, frame: DataFrame, name: str) -> DataFrame:
    """``frame`` with the model's predictions in a column called ``name``."""
    get = model.getOrDefault
    own = {"user_id": get("userCol"), "item_id": get("itemCol")}
    told = model.transform(frame.withColumnsRenamed(own))
    before = [quoted(own.get(column, column)).alias(column) for column in frame.columns]
    return told.select(*before, quoted(get("predictionCol")).alias(name))


def _lists(judged: Judged, depth: int, kept: ExitStack) -> dict[str, DataFrame]:
    """The best unseen items of every user, by each model and by popularity."""
    popular = one_list_for_all(judged.model, judged.statistics.select("item_id", F.col("ratings").alias("score")))
    lists = {}
    for name, model in {**judged.models, POPULARITY: popular}.items():
        lists[name] = model.recommendationTable(depth, judged.training.select(*id_columns(model))).persist()
        kept.callback(lists[name].unpersist)
    return lists


def _without_errors(metrics: Metrics, models: list[str]) -> Metrics:
    """Scores that are no ratings have no errors."""
    scores = {
        name: {m: score for m, score in found.items() if name not in models or not m.is_error}
        for name, found in metrics.scores.items()
    }
    return replace(metrics, scores=scores)
