"""Pictures of confounding, of lists and of comparisons. Needs the extra ``report``."""

from dcrec_spark.errors import require_extra

require_extra("report")

from dcrec_spark.plots.panels import plot_forest
from dcrec_spark.plots.pictures import (
    plot_confounding,
    plot_gamma,
    plot_lists,
    plot_models,
    plot_popularity,
    plot_predictive_check,
    plot_score,
)

__all__ = [
    "plot_confounding",
    "plot_forest",
    "plot_gamma",
    "plot_lists",
    "plot_models",
    "plot_popularity",
    "plot_predictive_check",
    "plot_score",
]
