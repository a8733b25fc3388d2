"""Deconfounded recommendations on Spark."""

from typing import TYPE_CHECKING, Any

from dcrec_spark.evaluation.evaluator import RatingEvaluator
from dcrec_spark.evaluation.lists import ListComposition, describe_lists
from dcrec_spark.evaluation.measures import Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate, evaluate_ranking, join_predictions
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.splits import HeldOut, hold_out_users, split_by_time, split_pairs, split_within_users
from dcrec_spark.evaluation.strata import Stratum, evaluate_strata
from dcrec_spark.evaluation.weights import weigh_by_exposure
from dcrec_spark.models.explain.text import order_text, reasons_text, with_titles
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.exposure.held_out import ExposureSplit, hold_out_exposures
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.fitting.progress import show_progress
from dcrec_spark.models.outcome.blend import Blend, BlendModel
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish.current import PublishedRun, current_run, read_current
from dcrec_spark.spark.worker import prepare_worker
from dcrec_spark.version import __version__

if TYPE_CHECKING:
    from dcrec_spark.spark.session import build_session

__all__ = [
    "Blend",
    "BlendModel",
    "Columns",
    "DeconfoundedMF",
    "DeconfoundedMFModel",
    "ExposureSplit",
    "HeldOut",
    "ListComposition",
    "MetricSettings",
    "Metrics",
    "PoissonFactorization",
    "PoissonFactorizationModel",
    "PredictiveCheck",
    "PublishedRun",
    "RatingEvaluator",
    "Stratum",
    "__version__",
    "build_session",
    "current_run",
    "describe_lists",
    "evaluate",
    "evaluate_ranking",
    "evaluate_strata",
    "hold_out_exposures",
    "hold_out_users",
    "join_predictions",
    "order_text",
    "read_current",
    "reasons_text",
    "show_progress",
    "split_by_time",
    "split_pairs",
    "split_within_users",
    "weigh_by_exposure",
    "with_titles",
]

# In a worker, this module is the first of the package that a task imports.
prepare_worker()


def __dir__() -> list[str]:
    """Name what is public, and not what the imports above leave behind."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import ``build_session`` when it is asked for, so that ``python -m dcrec_spark.spark.java`` starts clean."""
    if name == "build_session":
        from dcrec_spark.spark.session import build_session

        return build_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
