"""Deconfounded recommendations on Spark."""

from dcrec_spark.evaluation.evaluator import RatingEvaluator
from dcrec_spark.models.exposure import PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.models.hold_out import ExposureSplit, hold_out_exposures
from dcrec_spark.models.outcome import DeconfoundedMF
from dcrec_spark.models.outcome_model import DeconfoundedMFModel
from dcrec_spark.models.predictive_check import PredictiveCheck
from dcrec_spark.models.reasons import because, titled
from dcrec_spark.version import __version__

__all__ = [
    "DeconfoundedMF",
    "DeconfoundedMFModel",
    "ExposureSplit",
    "PoissonFactorization",
    "PoissonFactorizationModel",
    "PredictiveCheck",
    "RatingEvaluator",
    "__version__",
    "because",
    "hold_out_exposures",
    "titled",
]
