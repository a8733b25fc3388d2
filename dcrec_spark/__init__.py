"""Deconfounded recommendations on Spark."""

from dcrec_spark.models.exposure import PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.models.outcome import DeconfoundedMF
from dcrec_spark.models.outcome_model import DeconfoundedMFModel

__version__ = "0.1.0"

__all__ = ["DeconfoundedMF", "DeconfoundedMFModel", "PoissonFactorization", "PoissonFactorizationModel"]
