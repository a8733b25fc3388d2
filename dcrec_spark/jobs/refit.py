"""The second fit of a retraining, where the settings ask for one: its model is the one that is published."""

from pyspark.sql import DataFrame

from dcrec_spark.config import RetrainConfig
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.estimator_settings import refit_params
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.fitting.degeneracies import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

DOUBLY_ROBUST = "doubly_robust"


def require_refittable(config: RetrainConfig, has_exposure: bool) -> None:
    """Refuse a doubly robust refit of a model without an exposure model, before anything is fitted.

    Raises
    ------
    ConfigError
    """
    if config.refit.kind == DOUBLY_ROBUST and not has_exposure:
        raise ConfigError(
            f"setting refit.kind: found doubly_robust, expected all_pairs or null for outcome.adjustment="
            f"{config.outcome.adjustment}, which has no exposure model to take propensities from"
        )


def refuse_refitted(saved: SavedModel, setting: str, found: str, expected: str, what: str) -> None:
    """Refuse what a refitted model does not do, before anything is computed.

    setting, found, expected : of what asks for it. what : that the model does not do, as the end of a sentence on it.

    Raises
    ------
    ConfigError : the saved model was refitted.
    """
    if saved.model.facts.refitted:
        raise ConfigError(
            f"setting {setting}: found {found}, expected {expected}: {saved.source.path} was refitted to another "
            f"model's predictions (refit.kind), and {what}; retrain with refit.kind=null publishes one that was not"
        )


def refitted(context: Context[RetrainConfig], first: DeconfoundedMFModel, ratings: DataFrame) -> DeconfoundedMFModel:
    """Fit once more, to what the first model predicts; that one where no refit is asked for.

    first : noted in the record already, and released at the end of the run where it is not what is published.
    ratings : what it was fitted to.

    Raises
    ------
    FitError : nothing is left of the factors.
    """
    config = context.config
    if config.refit.kind is None:
        return first
    context.resources.callback(first.release)
    estimator = DeconfoundedMF(**refit_params(config.refit, config.engine, config.run.seed))
    estimator.listener = context.reporter.listener({"refit": config.refit.max_iter})
    with context.reporter.step("refit to all pairs"):
        model = estimator.refitModel(first, ratings)
    context.run.refitted(model, config.refit.kind)
    if vanished(model.degeneracies):
        found = "; ".join(map(str, model.degeneracies))
        raise FitError(f"{found}; lower refit.user_reg and refit.item_reg, or publish the first model: refit.kind=null")
    return model
