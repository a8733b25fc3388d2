"""RatingEvaluator as pyspark.ml uses it: parameters, persistence, and searches that agree with fits by hand."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit, TrainValidationSplitModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF, RatingEvaluator
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.metrics import evaluate
from tests.models.contract import values_of
from tests.models.world import NAMES, cached, exposure, outcome

MEASURE_OF = {
    "ndcg": "ndcg",
    "ndcg_at_k": "ndcg@2",
    "recall": "recall@2",
    "precision": "precision@2",
    "map": "map@2",
    "mse": "mse",
    "mae": "mae",
    "item_mse": "item_mse",
    "item_mae": "item_mae",
}


@pytest.fixture(scope="module")
def predictions(spark: SparkSession) -> DataFrame:
    """One prediction for each rating, by a rule."""
    prediction = (F.abs(F.xxhash64("user", "item")) % 5).cast("double")
    return NAMES.frame(spark).withColumn("prediction", prediction)


def test_each_metric_is_a_measure_and_of_errors_the_smaller_is_better(spark: SparkSession) -> None:
    for name, measure in MEASURE_OF.items():
        evaluator = RatingEvaluator(metricName=name, k=2)
        assert evaluator.measure == measure
        assert evaluator.isLargerBetter() == ("mse" not in name and "mae" not in name)


def test_a_metric_is_the_one_of_evaluate(spark: SparkSession, predictions: DataFrame) -> None:
    settings = MetricSettings((2,), relevance=4.0, gain="2^(rel-1)", replications=0)
    expected = evaluate(predictions, settings=settings).as_dict()
    for name in ("ndcg_at_k", "map"):
        evaluator = RatingEvaluator(metricName=name, k=2, relevance=4.0, gain="2^(rel-1)")
        assert evaluator.evaluate(predictions) == expected[MEASURE_OF[name]]


def test_errors_may_be_weighted(spark: SparkSession, predictions: DataFrame) -> None:
    weighed = predictions.withColumn("weight", F.when(F.col("rating") > 3, 2.0).otherwise(0.5))
    error = F.pow(F.col("rating") - F.col("prediction"), 2)
    (expected,) = weighed.agg(F.sum(error * F.col("weight")) / F.sum("weight")).first() or (None,)
    assert RatingEvaluator(metricName="mse", weightCol="weight").evaluate(weighed) == pytest.approx(expected)


def test_columns_may_have_any_name_and_parameters_may_be_given_late(
    spark: SparkSession, predictions: DataFrame
) -> None:
    renamed = predictions.toDF("who", "what", "stars", "times", "guess")
    evaluator = RatingEvaluator(userCol="who", itemCol="what", ratingCol="stars", predictionCol="guess")
    assert evaluator.evaluate(renamed, {evaluator.metricName: "mae"}) == evaluate(predictions).as_dict()["mae"]


def test_it_comes_back_from_disk_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    evaluator = RatingEvaluator(metricName="recall", k=7, relevance=4.0, userCol="who")
    evaluator.write().overwrite().save(str(tmp_path / "evaluator"))
    loaded = RatingEvaluator.load(str(tmp_path / "evaluator"))
    assert loaded.uid == evaluator.uid
    values = [{p.name: e.getOrDefault(p) for p in e.params} for e in (evaluator, loaded)]
    assert values[0] == values[1]
    assert type(loaded.getOrDefault("k")) is int


def test_every_parameter_is_explained_and_checked(spark: SparkSession) -> None:
    explained = RatingEvaluator().explainParams()
    for name in ("userCol", "itemCol", "ratingCol", "predictionCol", "metricName", "k", "relevance", "gain"):
        assert re.search(rf"^{name}: .*default: ", explained, re.MULTILINE)
    wrong: list[tuple[str, Any]] = [
        ("metricName", "auc"),
        ("k", 0),
        ("relevance", -1.0),
        ("gain", "x"),
        ("ratingCol", ""),
    ]
    for name, value in wrong:
        with pytest.raises(TypeError, match=f"{name}: found"):
            RatingEvaluator(**{name: value})


def test_what_is_undefined_or_not_predicted_is_refused(spark: SparkSession, predictions: DataFrame) -> None:
    """In a search NaN would win."""
    with pytest.raises(DataError, match="recall@5 is undefined"):
        RatingEvaluator(metricName="recall", relevance=6.0).evaluate(predictions)
    with pytest.raises(DataError, match="coldStartStrategy"):
        RatingEvaluator().evaluate(predictions.withColumn("prediction", F.lit(float("nan"))))


# Searches

ALPHAS = [0.5, 8.0]


def quick(**changes: Any) -> DeconfoundedMF:
    """A fit that takes little time; folds leave users and items without training."""
    return outcome(**{"maxIter": 1, "coldStartStrategy": "drop", "exchange": "local", **changes})


def two(estimator: DeconfoundedMF) -> list[Any]:
    return ParamGridBuilder().addGrid(estimator.alpha, ALPHAS).build()


def by_hand(
    estimator: DeconfoundedMF, evaluator: RatingEvaluator, train: DataFrame, test: DataFrame, alpha: float
) -> float:
    model = estimator.copy({estimator.alpha: alpha}).fit(train)
    value: float = evaluator.evaluate(model.transform(test))
    model.release()
    return value


def test_cross_validation_is_fits_by_hand(spark: SparkSession) -> None:
    """Folds by a column. Of all models only the best one's two tables stay cached."""
    fold = F.pmod(F.xxhash64("user", "item"), F.lit(2)).cast("int")
    folded = NAMES.frame(spark).withColumn("fold", fold).persist()
    folded.count()
    before = cached(spark)[1]
    estimator, evaluator = quick(adjustment="none"), RatingEvaluator(metricName="mse")
    only = two(estimator)[1:]
    search = CrossValidator(
        estimator=estimator, estimatorParamMaps=only, evaluator=evaluator, numFolds=2, foldCol="fold"
    ).fit(folded)
    best = search.bestModel
    assert min(best.userFactors.count(), best.itemFactors.count()) > 0  # cached when they are first read
    assert len(cached(spark)[1] - before) == 2
    folds = [(folded.where(F.col("fold") != n), folded.where(F.col("fold") == n)) for n in range(2)]
    mean = sum(by_hand(estimator, evaluator, *fold, alpha=8.0) for fold in folds) / 2
    assert search.avgMetrics == pytest.approx([mean], rel=1e-9)
    assert search.bestModel.getOrDefault("alpha") == 8.0
    folded.unpersist()


def test_train_validation_split_in_two_threads_is_fits_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """Both stages in each fit; the larger NDCG wins, and the session is left as it was. Saved, it comes back."""
    there, adaptive = NAMES.frame(spark).persist(), spark.conf.get("spark.sql.adaptive.enabled")
    estimator, evaluator = quick(exposureModel=exposure(maxIter=1), exchange="broadcast"), RatingEvaluator()
    validator = TrainValidationSplit(
        estimator=estimator,
        estimatorParamMaps=two(estimator),
        evaluator=evaluator,
        trainRatio=0.6,
        seed=4,
        parallelism=2,
    )
    search = validator.fit(there)
    drawn = there.withColumn("drawn", F.rand(4))
    train, test = (drawn.where(condition).drop("drawn") for condition in ("drawn < 0.6", "drawn >= 0.6"))
    here = estimator.copy({estimator.exchange: "local"})  # blocks and their exchange change no ranking
    assert search.validationMetrics[0] == pytest.approx(by_hand(here, evaluator, train, test, 0.5), rel=1e-9)
    best = max((0, 1), key=lambda at: search.validationMetrics[at])
    assert search.bestModel.getOrDefault("alpha") == ALPHAS[best]
    assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive
    validator.write().overwrite().save(f"{tmp_path}/validator")
    search.write().overwrite().save(f"{tmp_path}/search")
    again, found = (
        TrainValidationSplit.load(f"{tmp_path}/validator"),
        TrainValidationSplitModel.load(f"{tmp_path}/search"),
    )
    for loaded in (again, found):
        assert loaded.getEstimatorParamMaps() == two(estimator)
        assert values_of(loaded.getEstimator()) == values_of(estimator)
        assert values_of(loaded.getEvaluator()) == values_of(evaluator)
    assert found.validationMetrics == search.validationMetrics
    assert found.bestModel.facts == search.bestModel.facts
    there.unpersist()
