"""The classical twin of a deconfounded model: the same settings, fitted to the same ratings, without the confounder.

What a confounder is good for shows against a model that was fitted without one. A model whose confounder part is left
out of its scores was fitted to be corrected by it, and is no rival.
"""

from contextlib import ExitStack

from pyspark.sql import DataFrame

from dcrec_spark.errors import DataError
from dcrec_spark.jobs.inputs import as_trained
from dcrec_spark.models.families.gaussian import LeastSquares
from dcrec_spark.models.families.registry import family_of
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel


def fit_twin(model: DeconfoundedMFModel, training: DataFrame, resources: ExitStack) -> DeconfoundedMFModel:
    """Fit the classical twin, which is released with ``resources``.

    training : user_id, item_id, rating, ...

    Raises
    ------
    DataError : these ratings make no fit.
    """
    try:
        twin = twin_of(model).fit(as_trained(model, training))
    except DataError as error:
        raise DataError(
            f"the classical twin could not be fitted to the training ratings (input): {error}; are they those of the "
            "model? evaluation.compare_with names another model to compare with"
        ) from error
    resources.callback(twin.release)
    return twin


def twin_of(model: DeconfoundedMFModel) -> DeconfoundedMF:
    """Return the estimator of the twin. Unrated pairs weigh what they do in the model, for they move the intercept."""
    fitted_with = {param.name: value for param, value in model.extractParamMap().items()}
    family = family_of(model)
    if isinstance(family, LeastSquares) and fitted_with["unobservedWeight"] is None:
        fitted_with["unobservedWeight"] = family.default_unobserved_weight
    without = {"adjustment": "none", "exposureModel": None, "initialModel": None, "validationIndicatorCol": None}
    return DeconfoundedMF(**{**fitted_with, **without})
