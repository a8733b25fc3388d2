"""A model refitted to its own predictions of all pairs, put right by the ratings where there are any.

ratings -> blocks -> min(1 / p, c) of each, by the exposure model -> predictions of each -> sweeps -> a new model
"""

from pyspark.sql import DataFrame

from dcrec_spark.errors import ConfigError
from dcrec_spark.models.families.base import OutcomeFamily
from dcrec_spark.models.families.exposure_term import ExposureTerm
from dcrec_spark.models.families.poisson_exposure import PoissonExposure
from dcrec_spark.models.families.refit import Predictions, Refit
from dcrec_spark.models.fitting.checks import require_all_known, require_columns, require_ids_alike
from dcrec_spark.models.fitting.confounder import attach_confounder
from dcrec_spark.models.fitting.exposure_propensity import attach_weights
from dcrec_spark.models.fitting.facts import FitFacts, OutcomeFacts
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.progress import listening
from dcrec_spark.models.fitting.propensity import PropensitySettings
from dcrec_spark.models.fitting.scope import FitScope
from dcrec_spark.models.fitting.stages import fit_factors
from dcrec_spark.models.fitting.values import exposure_values
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.params import OutcomeParams
from dcrec_spark.models.outcome.tables import FactorTables, completed

DOUBLY_ROBUST = "doublyRobust"
# Params of a refitted model, whatever those of the estimator: it is a classical model with biases.
_OF_MODEL = {"outcome": "probabilistic", "adjustment": "none", "fitBiases": True, "unobservedWeight": 1.0}


def require_refittable(estimator: OutcomeParams, family: OutcomeFamily) -> None:
    """Refuse a fit whose model could not be refitted as the estimator asks, before anything is fitted.

    family : of the first fit.

    Raises
    ------
    ConfigError : names the settings that contradict each other.
    """
    get = estimator.getOrDefault
    if get("refit") == "none":
        return
    link = family.exposure_term.link if family.has_confounder else "identity"
    if link != "identity":
        raise ConfigError(
            f"refit={get('refit')} with confounderLink={link}: its predictions are no product of vectors, which a "
            "refit to all pairs takes; set confounderLink=identity, or leave refit out"
        )
    if get("refit") == DOUBLY_ROBUST and not family.uses_exposure:
        raise ConfigError(
            f"refit={DOUBLY_ROBUST} with adjustment={get('adjustment')}, which has no exposure model to take "
            "propensities from: set refit=allPairs, or adjustment=deconfounded"
        )


def refit_model(estimator: OutcomeParams, model: DeconfoundedMFModel, ratings: DataFrame) -> DeconfoundedMFModel:
    """Return what :meth:`DeconfoundedMF.refitModel` returns.

    Raises
    ------
    DataError, ConfigError : see there.
    """
    kind = estimator.getOrDefault("refit")
    if kind == "none":
        raise ConfigError("refit=none: expected allPairs or doublyRobust, for a model to be refitted")
    if model.facts.form is not None and not model.facts.form.is_low_rank:
        raise ConfigError(
            f"confounderLink={model.facts.form.link}: its predictions are no product of vectors, which a refit to all "
            "pairs takes; refit a model with confounderLink=identity"
        )
    stage_one, doubly_robust = model.exposureModel, kind == DOUBLY_ROBUST
    if doubly_robust and stage_one is None:
        raise ConfigError(
            f"refit={kind} takes propensities from the exposure model, and this model has none: refit with "
            "refit=allPairs, or fit with adjustment=deconfounded"
        )
    family = Refit.of(estimator)
    with FitScope() as scope:
        layout = _lay_out(estimator, family, model, ratings, doubly_robust, scope)
        if stage_one is not None and doubly_robust:
            exposures = PoissonExposure.of(stage_one)
            with layout.environment():
                users = scope.add(layout.place(True, stage_one.userFactors, exposures))
                items = scope.add(layout.place(False, stage_one.itemFactors, exposures))
            settings = PropensitySettings.of_refit(estimator)
            layout, _ = attach_weights(layout, users, items, settings, scope, mean_weight=1.0)
        layout = _with_predictions(layout, model, scope)
        with listening(estimator, family.stage) as listener:
            fit = scope.add(fit_factors(estimator, family, layout, listener))
        facts = FitFacts.of(family, layout, fit).warn()
        shared = fit.shared._replace(gamma=0.0)
        sides = [layout.table(is_user, s, family, shared) for is_user, s in ((True, fit.users), (False, fit.items))]
        tables = FactorTables.of_fit(layout, *[completed(side) for side in sides])
        outcome = OutcomeFacts(shared, layout.means["rating"], facts, refitted=True)
        refitted = DeconfoundedMFModel(tables, outcome)
        estimator._copyValues(refitted._resetUid(estimator.uid)).clear(refitted.initialModel)
        return refitted._set(**_OF_MODEL)


def _lay_out(
    estimator: OutcomeParams,
    family: Refit,
    model: DeconfoundedMFModel,
    ratings: DataFrame,
    doubly_robust: bool,
    scope: FitScope,
) -> Layout:
    """Return the blocks of the ratings, with the exposures that the propensities need; all ids are the model's."""
    get = estimator.getOrDefault
    ids, held_out = (get("userCol"), get("itemCol")), get("validationIndicatorCol")
    values, numbers = {"rating": f"`{get('ratingCol')}`"}, [get("ratingCol")]
    if doubly_robust and model.exposureModel is not None:
        count = model.exposureModel.getOrDefault("countCol")
        values |= exposure_values(count)
        numbers += [count] if count else []
    require_columns(ratings, ids, numbers, [held_out] if held_out else [])
    require_ids_alike(ratings, ids, model.tables())
    width = max(family.row_width, sum(_widths(model)) + 1)
    layout = lay_out(ratings, *ids, values, layout_settings(estimator, width, family.splits), scope, held_out)
    for name, known, table in zip(("user", "item"), (layout.user_ids, layout.item_ids), model.tables(), strict=True):
        require_all_known(known, table, name, "model")
    return layout


def _widths(model: DeconfoundedMFModel) -> tuple[int, int]:
    """Return how many numbers preference and confounder have in the model's vectors."""
    row = model.scoringVectors().users.first()
    return (0, 0) if row is None else (len(row["preference"]), len(row["confounder"]))


def _with_predictions(layout: Layout, model: DeconfoundedMFModel, scope: FitScope) -> Layout:
    """Return the layout with the model's prediction in the confounder's place."""
    vectors = model.scoringVectors()
    predictions = Predictions(_widths(model), vectors.intercept)
    with layout.environment():
        users = scope.add(layout.place(True, vectors.users, predictions))
        items = scope.add(layout.place(False, vectors.items, predictions))
    layout, _ = attach_confounder(layout, users, items, ExposureTerm(), scope)
    return layout
