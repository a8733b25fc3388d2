"""The refit to all pairs in this process: see :meth:`dcrec_spark.models.outcome.estimator.DeconfoundedMF.refit`."""

import numpy as np

from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.local.fits import Outcome
from dcrec_spark.local.layout import lay_out
from dcrec_spark.local.ratings import Ratings
from dcrec_spark.models.families.exposure_term import ExposureTerm
from dcrec_spark.models.families.refit import Predictions, Refit
from dcrec_spark.models.fitting.confounder import attach_confounder
from dcrec_spark.models.fitting.exposure_propensity import attach_weights
from dcrec_spark.models.fitting.facts import FitFacts
from dcrec_spark.models.fitting.propensity import PropensitySettings
from dcrec_spark.models.fitting.scope import FitScope
from dcrec_spark.models.fitting.stages import fit_factors
from dcrec_spark.models.outcome.estimator import DeconfoundedMF


def refit_outcome(ratings: Ratings, estimator: DeconfoundedMF, model: Outcome, doubly_robust: bool = True) -> Outcome:
    """Fit matrix factorization with biases to a model's predictions of all pairs, put right by the ratings.

    Raises
    ------
    ConfigError : the model has a link, or no posterior of exposures to take propensities from.
    """
    exposure = model.exposure
    if not model.form.is_low_rank:
        raise ConfigError(f"confounderLink={model.form.link}: its predictions are no product of vectors; use identity")
    if doubly_robust and (exposure is None or exposure.user_rate is None):
        raise ConfigError("doubly_robust takes propensities from the exposure model, and this model has none")
    family = Refit.of(estimator)
    values = {"rating": ratings.rating, "exposure_count": np.ones(len(ratings.rating))}
    layout = lay_out(ratings, values, estimator.getOrDefault("precision"))
    with FitScope() as scope:
        if exposure is not None and doubly_robust:
            settings = PropensitySettings.of(estimator)
            layout, _ = attach_weights(layout, *exposure.memories(), settings, scope, mean_weight=1.0)
        users, items = _vectors(model, is_user=True), _vectors(model, is_user=False)
        predictions = Predictions((users["preference"].shape[1], users["confounder"].shape[1]), model.intercept)
        states = layout.place(True, users, predictions), layout.place(False, items, predictions)
        layout, _ = attach_confounder(layout, *states, ExposureTerm(), scope)
        fit = fit_factors(estimator, family, layout, _quiet)
        shared = fit.shared._replace(gamma=0.0)
        tables = [layout.table(is_user, s, family, shared) for is_user, s in ((True, fit.users), (False, fit.items))]
        facts = FitFacts.of(family, layout, fit)
        of_users, of_items = tables
        return Outcome(
            *(of_users["features"], of_items["features"], of_users["gamma"]),
            *(shared.intercept, None, facts),
            *(of_users["bias"], of_items["bias"]),
        )


def _vectors(model: Outcome, is_user: bool) -> dict[str, Floats]:
    """Return the vectors whose products are the model's predictions without the intercept."""
    factors, bias = (model.users, model.user_bias) if is_user else (model.items, model.item_bias)
    preference: Floats = factors
    confounder: Floats = np.empty((len(factors), 0))
    if bias is not None:
        ones = np.ones(len(bias))
        preference = np.column_stack([factors, *((bias, ones) if is_user else (ones, bias))])
    if model.exposure is not None:
        means = model.exposure.users if is_user else model.exposure.items
        confounder = model.form.row_vectors(means, is_user)
        confounder = confounder * model.gamma[:, None] if is_user else confounder
    return {"preference": preference, "confounder": confounder}


def _quiet(stage: str, iteration: int, objective: float) -> None:
    """Nobody follows a single one of many fits."""
