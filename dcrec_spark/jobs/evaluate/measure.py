"""The Spark work of an evaluation: models, usable test ratings, predictions, lists, metrics, check, certainty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import EvaluateConfig
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.baselines import BASELINES, POPULARITY, RANK_ONLY, rank_by_popularity, with_baselines
from dcrec_spark.evaluation.distributions import histogram
from dcrec_spark.evaluation.measures import Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.strata import Stratum, evaluate_strata
from dcrec_spark.jobs.features import Features
from dcrec_spark.jobs.inputs import ServedInputs, as_trained
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.exposure.estimator import estimator_like
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.vectors import ScoringVectors
from dcrec_spark.publish.schemas import METRICS
from dcrec_spark.report.page import CertaintyFacts

TEST = "evaluation.test_path"
MODEL, COMPARED, BASELINE = "this model", "compared model", "baseline model"
_PAIR = ["user_id", "item_id"]


@dataclass(frozen=True)
class EvaluateInputs(ServedInputs):
    """Inputs of an evaluation, opened but not read. other : a second model to compare with. titles : item_id, title."""

    ratings: DataFrame
    other: SavedModel | None
    test: DataFrame
    titles: DataFrame | None
    features: Features


class Comparison(NamedTuple):
    """A model, the model it is compared with, and the ratings that both are measured by."""

    inputs: EvaluateInputs
    relatives: Mapping[str, ScoringVectors]  # of the second or the baseline model; empty for one without the confounder
    training: DataFrame  # user_id, item_id, rating, ...
    test: DataFrame  # user_id, item_id, rating; all models know the ids, and no pair is in training

    @property
    def model(self) -> AnyModel:
        return self.inputs.saved.model

    @property
    def vectors(self) -> dict[str, ScoringVectors]:
        """Name -> vectors of all models, the evaluated one first."""
        return {MODEL: self.model.scoringVectors(), **self.relatives}


def compare(
    context: Context[EvaluateConfig], inputs: EvaluateInputs, training: Validated, test: Validated
) -> Comparison:
    """Find the usable test ratings, and fit the baseline model where no second model is named.

    The record gets the numbers of test ratings, and what the baseline lacks.

    Raises DataError: no test rating can be used, or the training ratings make no fit.
    """
    model = inputs.saved.model
    relatives: dict[str, AnyModel] = {}
    if inputs.other is not None:
        relatives = {COMPARED: inputs.other.model}
    elif model.exposureModel is not None:
        features = inputs.features.of_model(model, context.run.warnings)
        relatives = {BASELINE: _fit_baseline(context, model, training.ratings, features)}
    marked = _mark(test.ratings, training.ratings, [model, *relatives.values()])
    is_seen, is_known = F.col("__seen"), F.col("__known")
    usable = context.cache(marked.where(~is_seen & is_known).select(*_PAIR, "rating"))
    items = F.count_distinct("item_id") - F.count_distinct(F.when(~is_seen & is_known, F.col("item_id")))
    overlap, unknown, missing = marked.agg(F.count_if(is_seen), F.count_if(~is_seen & ~is_known), items).collect()[0]
    context.run.counts |= {
        "test_ratings": usable.count(),
        "test_rejected": test.counts["rejected"],
        "test_overlap": int(overlap),  # whose pair is in training
        "test_unknown": int(unknown),  # of a user or an item that a model lacks
        "test_items_missing": int(missing),  # left out with all of their ratings
    }
    if not context.run.counts["test_ratings"]:
        raise DataError(
            f"setting {TEST}: none of its {test.counts['ratings']} ratings can be used: {overlap} are of pairs that "
            f"are in the training ratings too, and {unknown} of users or items that a model does not know"
        )
    vectors = {name: model.scoringVectors() for name, model in relatives.items()}
    return Comparison(inputs, vectors, training.ratings, usable)


def _mark(test: DataFrame, training: DataFrame, models: list[AnyModel]) -> DataFrame:
    """user_id, item_id, rating, and whether the pair is in training and all models know its ids."""
    marked = test.select(*_PAIR, "rating").join(
        training.select(*_PAIR, F.lit(True).alias("__in_training")), _PAIR, "left"
    )
    for number, model in enumerate(models):
        for side, table in zip(("user", "item"), model.tables(), strict=True):
            ids = table.select(F.col("id").alias(f"{side}_id"), F.lit(True).alias(f"__{side}_{number}"))
            marked = marked.join(ids, f"{side}_id", "left")
    in_models = [F.col(name).isNotNull() for name in marked.columns if name.startswith(("__user", "__item"))]
    is_known = reduce(Column.__and__, in_models)
    return marked.withColumns({"__seen": F.col("__in_training").isNotNull(), "__known": is_known})


def _fit_baseline(
    context: Context[EvaluateConfig], model: AnyModel, training: DataFrame, features: Features
) -> AnyModel:
    """Fit with the settings of the model, without a confounder."""
    fitted_with = {param.name: value for param, value in model.extractParamMap().items()}
    without = dict.fromkeys(("exposureModel", "initialModel", "validationIndicatorCol"))
    params = {**fitted_with, **without, "adjustment": "none", "exposureWeight": 0.0}
    try:
        baseline = DeconfoundedMF(**params).setParams(**features.params()).fit(as_trained(model, training))
    except DataError as error:
        raise DataError(
            f"the baseline model could not be fitted to the training ratings (input): {error}; are they those of the "
            "model? evaluation.compare_with names another model to compare with"
        ) from error
    context.resources.callback(baseline.release)
    return baseline


CUTS = (5, 10)
_HELD_OUT_SHARE = 0.2
_COVERAGE = 0.9
_QUARTILES = [0.25, 0.5, 0.75]
_FEW = 5
_COLUMNS = Columns("user_id", "item_id", "rating")


class Measurements(NamedTuple):
    """Metrics of the models and of the simple baselines."""

    lists: DataFrame  # of the evaluated model: user_id, rank, item_id, score, preference, confounder
    k: int  # the longest cut of the lists
    metrics: Metrics  # of the predictions for the test's items, and of the lists over the whole catalogue
    strata: Sequence[Stratum]  # of the model and the one it is compared with

    @property
    def differences(self) -> dict[str, Metrics]:
        """Name of each other model -> paired differences of the evaluated model from it."""
        return {other: self.metrics.difference(MODEL, other) for other in self.metrics.scores if other != MODEL}

    def table(self, spark: SparkSession, run_id: str) -> DataFrame:
        """Make the published table ``metrics``. A difference is a row such as ``this model - item mean``."""
        rows = [row for metrics in (self.metrics, *self.differences.values()) for row in metrics.rows("test")]
        for stratum in self.strata:
            split = f"test, {stratum.side}s with {stratum.numbers} training ratings"
            rows += [*stratum.metrics.rows(split), *difference_of(stratum).rows(split)]
        return spark.createDataFrame([(run_id, *row) for row in rows], METRICS)


def measure(context: Context[EvaluateConfig], comparison: Comparison) -> Measurements:
    """Predict the test, rank the catalogue, and measure both."""
    config, models, test, training = context.config, comparison.vectors, comparison.test, comparison.training
    settings = MetricSettings(CUTS, config.evaluation.relevant_from, seed=config.run.seed)
    predictions = with_baselines(test, training, config.run.seed)
    for name, vectors in models.items():
        predictions = vectors.score(predictions, name)
    predictions = context.cache(predictions)
    of_test = evaluate(predictions, {name: name for name in (*models, *BASELINES)}, _COLUMNS, settings)
    # What only ranks has no errors.
    scores = {
        name: {measure: score for measure, score in of.items() if not (name in RANK_ONLY and measure.is_error)}
        for name, of in of_test.scores.items()
    }
    of_test = replace(of_test, scores=scores)
    ranked = {**models, POPULARITY: rank_by_popularity(models[MODEL], training)}
    depth, seen = max(config.recommend.top_n, *CUTS), training.select(*_PAIR)
    lists = {name: context.cache(vectors.best(depth, seen)) for name, vectors in ranked.items()}
    longest = lists[MODEL].agg(F.max("rank")).collect()[0][0]
    of_lists = replace(settings, ks=tuple(k for k in CUTS if k <= longest) or (longest,))  # in a small catalogue
    parts = [
        evaluate_ranking(lists[name], test, vectors.n_items, name, _COLUMNS, of_lists, training)
        for name, vectors in ranked.items()
    ]
    strata: list[Stratum] = []
    if comparison.relatives:
        pair = {name: name for name in (MODEL, next(iter(comparison.relatives)))}
        strata = evaluate_strata(predictions, training, pair, _COLUMNS, settings)
    return Measurements(lists[MODEL], of_lists.ks[-1], reduce(Metrics.join, parts, of_test), strata)


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
    """Summarise intervals and overlap of the longest lists, or return a sentence on why there are none."""
    model, ratings = comparison.model, as_trained(comparison.model, comparison.training)
    if isinstance(model, BlendModel):
        return "Not known: the intervals of a blend's members do not add up."
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
