"""Metrics as a pyspark.ml Evaluator, for CrossValidator and TrainValidationSplit."""

import math

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param.shared import HasPredictionCol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.measures import ERRORS, HITS, Columns, Measure, MeasureKind, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate
from dcrec_spark.kernels.metrics import GAINS
from dcrec_spark.models.params import HasIds, inherited, initialise, keyword_only, optional, param
from dcrec_spark.settings.domains import Choice, Column, Number
from dcrec_spark.settings.tables import OUTCOME, Setting, params

# metricName -> what is measured at the cut k.
_AT_K = {"ndcg_at_k": MeasureKind.NDCG, **{kind.value: kind for kind in HITS}}


class RatingEvaluator(
    Evaluator, HasIds, HasPredictionCol, DefaultParamsReadable["RatingEvaluator"], DefaultParamsWritable
):
    """One metric of predictions against held-out ratings. :func:`dcrec_spark.evaluate` has them all at once.

    In cross-validation, random folds leave users and items without training: give the estimator a coldStartStrategy
    of "drop" or "mean".

    ``evaluate`` raises DataError for predictions that are not finite, for input that cannot be used, and where the
    metric is undefined, which a search would otherwise take for the best or the worst.

    Examples
    --------
    >>> rows = [(1, 7, 4.0, 3.5), (1, 8, 2.0, 2.5)]
    >>> predicted = spark.createDataFrame(rows, "user int, item int, rating double, prediction double")
    >>> RatingEvaluator(metricName="mse").evaluate(predicted)
    0.25
    """

    ratingCol, getRatingCol, setRatingCol = param(
        str, Setting("rating_col", Column(), "rating", "column of held-out ratings")
    )
    predictionCol, getPredictionCol, setPredictionCol = inherited(params(OUTCOME)["predictionCol"])
    weightCol, getWeightCol, setWeightCol = optional(
        str, Setting("weight_col", Column(optional=True), None, "column of how much a rating counts in mse and mae")
    )
    metricName, getMetricName, setMetricName = param(
        str,
        Setting(
            "metric_name",
            Choice(dict.fromkeys(("ndcg", *_AT_K, *(kind.value for kind in ERRORS)), "")),
            "ndcg",
            "ndcg: of each user's test items, the whole list; ndcg_at_k, recall, precision, map: of the first k; mse, "
            "mae: over ratings; item_mse, item_mae: of each item, averaged over items",
        ),
    )
    k, getK, setK = param(
        int, Setting("k", Number(int, 1), 5, "length of the list, for ndcg_at_k, recall, precision and map")
    )
    relevance, getRelevance, setRelevance = param(
        float, Setting("relevance", Number(float, 0), 3.0, "a test rating from here on makes an item relevant")
    )
    gain, getGain, setGain = param(
        str, Setting("gain", Choice(dict.fromkeys(GAINS, "")), GAINS[0], "what a test rating is worth in ndcg")
    )

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        ratingCol: str = "rating",
        predictionCol: str = "prediction",
        weightCol: str | None = None,
        metricName: str = "ndcg",
        k: int = 5,
        relevance: float = 3.0,
        gain: str = "2^rel-1",
    ) -> None:
        super().__init__()
        initialise(self)

    def isLargerBetter(self) -> bool:
        """Return False for errors, True for all else."""
        return not self.measure.is_error

    @property
    def measure(self) -> Measure:
        """What is evaluated, by the name that tables have for it."""
        name = self.getOrDefault("metricName")
        return Measure(_AT_K[name], self.getOrDefault("k")) if name in _AT_K else Measure(MeasureKind(name))

    def _evaluate(self, dataset: DataFrame) -> float:
        get = self.getOrDefault
        settings = MetricSettings(ks=(get("k"),), relevance=get("relevance"), gain=get("gain"), replications=0)
        columns = Columns(get("userCol"), get("itemCol"), get("ratingCol"), get("weightCol"))
        measure = self.measure
        value = evaluate(dataset, get("predictionCol"), columns, settings).as_dict()[measure]
        if math.isnan(value):
            raise DataError(f"{measure} is undefined: no user has a test item that is relevant or worth any gain")
        return value
