"""How sure the lists of the judged model are, for the report."""

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import EvaluateConfig
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.distributions import counts_in_powers, histogram
from dcrec_spark.jobs.evaluate.comparison import Comparison
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.report.facts import CertaintyFacts

_COVERAGE = 0.9
_QUARTERS = [0.25, 0.5, 0.75]


def certainty_of(config: EvaluateConfig, comparison: Comparison) -> CertaintyFacts | str:
    """Measure the lists of the longest cut; a sentence where the model, or other training ratings, can't say."""
    if not config.evaluation.certainty:
        return "Not done: evaluation.certainty is false."
    model, k = comparison.model, max(config.evaluation.cuts)
    ratings = as_trained(model, comparison.training)
    try:
        lists = model.sureRecommendations(k, ratings, seen=ratings, coverage=_COVERAGE)
    except (ConfigError, DataError) as error:
        return f"Not known: {error}."
    widths = histogram(lists.withColumn("width", F.col("high") - F.col("low")), "width")
    extrapolating, odds = lists.agg(
        F.avg(F.col("extrapolates").cast("int")),
        F.percentile(F.when(F.col("rank") == 1, F.col("odds_to_change")), F.array(*map(F.lit, _QUARTERS))),
    ).collect()[0]
    lists.unpersist()
    quarters = (float("nan"),) * 3 if odds is None else tuple(odds)
    if model.exposureModel is None:
        return CertaintyFacts(_COVERAGE, widths, None, quarters, None)
    return CertaintyFacts(_COVERAGE, widths, extrapolating, quarters, *_effective(model, ratings))


def _effective(model: DeconfoundedMFModel, ratings: DataFrame) -> tuple[pd.DataFrame, float]:
    """Users by effective number of ratings, and the share of those with few."""
    overlap = model.overlap(ratings)
    few = overlap.agg(F.avg((F.col("effective_ratings") < CertaintyFacts.least).cast("int"))).collect()[0][0]
    whole = overlap.withColumn("effective", F.floor("effective_ratings"))
    counts = counts_in_powers(whole, "effective")
    overlap.unpersist()
    return counts, float(few)
