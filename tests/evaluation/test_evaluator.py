"""RatingEvaluator as pyspark.ml uses it: parameters, persistence, and searches that agree with fits by hand."""

from pathlib import Path

import pytest
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import RatingEvaluator
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.metrics import evaluate
from tests.models.data_sets import NAMES, cached, outcome
from tests.models.test_contract import values_of

MEASURE_OF = {
    **{name: f"{name}@2" for name in ("recall", "precision", "map")},
    **{name: name for name in ("ndcg", "mse", "mae", "item_mse", "item_mae")},
    "ndcg_at_k": "ndcg@2",
}


@pytest.fixture(scope="module")
def predictions(spark: SparkSession) -> DataFrame:
    prediction = (F.abs(F.xxhash64("user", "item")) % 5).cast("double")
    return NAMES.frame(spark).withColumn("prediction", prediction)


def test_a_metric_is_the_one_of_evaluate(spark: SparkSession, predictions: DataFrame) -> None:
    settings = MetricSettings((2,), relevance=4.0, gain="2^(rel-1)", replications=0)
    expected = evaluate(predictions, settings=settings).as_dict()
    for name, measure in MEASURE_OF.items():
        evaluator = RatingEvaluator(metricName=name, k=2, relevance=4.0, gain="2^(rel-1)")
        assert evaluator.isLargerBetter() == ("mse" not in name and "mae" not in name)
        assert measure in expected
        if name in ("recall", "ndcg_at_k", "item_mae"):
            assert evaluator.evaluate(predictions) == expected[measure]
    weighed = predictions.withColumn("weight", F.when(F.col("rating") > 3, 2.0).otherwise(0.5))
    error = F.pow(F.col("rating") - F.col("prediction"), 2)
    (mean,) = weighed.agg(F.sum(error * F.col("weight")) / F.sum("weight")).first() or (None,)
    assert RatingEvaluator(metricName="mse", weightCol="weight").evaluate(weighed) == pytest.approx(mean)
    renamed = predictions.toDF("who", "what", "stars", "times", "guess")
    evaluator = RatingEvaluator(userCol="who", itemCol="what", ratingCol="stars", predictionCol="guess")
    assert evaluator.evaluate(renamed, {evaluator.metricName: "mae"}) == expected["mae"]


def test_what_is_undefined_or_not_predicted_is_refused(spark: SparkSession, predictions: DataFrame) -> None:
    """In a search NaN would win."""
    with pytest.raises(DataError, match="recall@5 is undefined"):
        RatingEvaluator(metricName="recall", relevance=6.0).evaluate(predictions)
    with pytest.raises(DataError, match="coldStartStrategy"):
        RatingEvaluator().evaluate(predictions.withColumn("prediction", F.lit(float("nan"))))


def test_cross_validation_in_two_threads_is_fits_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """Folds by a column. Of all models only the best one's two tables stay cached. Saved, the search comes back."""
    fold = F.pmod(F.xxhash64("user", "item"), F.lit(2)).cast("int")
    folded = NAMES.frame(spark).withColumn("fold", fold).persist()
    folded.count()
    before, alphas = cached(spark)[1], [0.5, 8.0]
    quick = {"adjustment": "none", "maxIter": 1, "coldStartStrategy": "drop"}
    estimator, evaluator = outcome(**quick, exchange="broadcast"), RatingEvaluator(metricName="mse")
    maps = ParamGridBuilder().addGrid(estimator.alpha, alphas).build()
    given = {"estimator": estimator, "estimatorParamMaps": maps, "evaluator": evaluator}
    validator = CrossValidator(**given, numFolds=2, foldCol="fold", parallelism=2)
    search = validator.fit(folded)
    best = search.bestModel
    assert min(best.userFactors.count(), best.itemFactors.count()) > 0  # cached when they are first read
    assert len(cached(spark)[1] - before) == 2
    means = []
    for alpha in alphas:
        errors = []
        for n in range(2):
            model = outcome(**quick, alpha=alpha, exchange="local").fit(folded.where(F.col("fold") != n))
            errors.append(evaluator.evaluate(model.transform(folded.where(F.col("fold") == n))))
        means.append(sum(errors) / 2)
    assert search.avgMetrics == pytest.approx(means, rel=1e-9)
    assert best.getOrDefault("alpha") == alphas[means.index(min(means))]
    validator.write().save(f"{tmp_path}/validator")
    search.write().save(f"{tmp_path}/search")
    found = CrossValidatorModel.load(f"{tmp_path}/search")
    for loaded in (CrossValidator.load(f"{tmp_path}/validator"), found):
        assert loaded.getEstimatorParamMaps() == maps
        assert values_of(loaded.getEstimator()) == values_of(estimator)
        assert values_of(loaded.getEvaluator()) == values_of(evaluator)
    assert (found.avgMetrics, found.bestModel.facts) == (search.avgMetrics, best.facts)
    found.bestModel.release()
    folded.unpersist()
