"""Poisson factorization of the exposures: who looked at what, and the substitute for what drove it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from dcrec_spark.engine.convergence import Listener
from dcrec_spark.engine.sides import State
from dcrec_spark.models.exposure.held_out import held_out_likelihood, hold_out_exposures
from dcrec_spark.models.exposure.model import ExposureParams, PoissonFactorizationModel, require_exposure_rank
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.families.poisson import NOTHING_SHARED, PoissonExposure
from dcrec_spark.models.fitting.checks import require_columns
from dcrec_spark.models.fitting.facts import FitFacts
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.progress import listening, log_iteration
from dcrec_spark.models.fitting.propensity import exposure_values
from dcrec_spark.models.fitting.stages import FitCheckpoints, fit_factors, warm_start
from dcrec_spark.models.params import SetsParams, initialise, keyword_only
from dcrec_spark.models.persistence.mlio import Persistent
from dcrec_spark.spark.cancellation import stop_on_interrupt
from dcrec_spark.spark.lineage import cache_while_used, require_checkpoint_directory


class PoissonFactorization(Estimator[PoissonFactorizationModel], SetsParams, ExposureParams, Persistent):
    """Poisson factorization of exposures: the exposure model, stage 1 of the deconfounded recommender.

    Each (user, item) pair of the input is an exposure, all other pairs are none, with ``countCol`` a pair counts as
    often as it says. ``explainParams()`` lists all parameters with their defaults.

    listener : an attribute that is called with (stage, iteration, objective) after each iteration, by default they are
        logged, and a bar is shown on a terminal and in notebooks (``show_progress``).

    ``fit`` raises DataError for input that can't be used. ConfigError on a cluster without a checkpoint directory, or
    for an initialModel of another rank. FitError where the ELBO falls or a factor is not finite.

    a_ui ~ Poisson(pi_u . lambda_i) with Gamma priors of pi and lambda (shape and rate, never scale), by coordinate
    ascent on the exact ELBO: Gopalan, Hofman, Blei 2015. The exposure model of Wang et al., arXiv 1808.06581.

    Examples
    --------
    >>> from dcrec_spark import PoissonFactorization
    >>> views = spark.createDataFrame([(u, i) for u in range(4) for i in range(u, 5)], "user int, item int")
    >>> model = PoissonFactorization(rank=2, maxIter=5).fit(views)
    >>> model.userFactors.columns
    ['id', 'shape', 'rate']
    >>> len(model.elboHistory)
    5
    >>> model.release()
    """

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        countCol: str | None = None,
        rank: int = 5,
        maxIter: int = 300,
        tol: float = 1e-5,
        shapePrior: float = 0.3,
        ratePrior: float = 0.3,
        seed: int = 0,
        exposureCol: str = "a_hat",
        numBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float32",
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        initialModel: Any = None,
    ) -> None:
        super().__init__()
        self.listener: Listener = log_iteration
        self.checkpoints: FitCheckpoints | None = None
        initialise(self)

    @stop_on_interrupt()
    def _fit(self, dataset: DataFrame) -> PoissonFactorizationModel:
        get = self.getOrDefault
        count, held_out = get("countCol"), get("validationIndicatorCol")
        names = get("userCol"), get("itemCol")
        require_columns(dataset, names, [count] if count else [], [held_out] if held_out else [])
        require_checkpoint_directory(dataset.sparkSession)
        family = PoissonExposure.of(self)
        settings = layout_settings(self, family.row_width, splits=family.splits)
        with FitResources() as resources:
            layout = lay_out(dataset, *names, exposure_values(count), settings, resources, held_out)
            return fit_exposure(self, layout, resources).model

    def predictiveCheck(
        self, dataset: DataFrame, share: float = 0.2, replications: int = 100, seed: int = 0
    ) -> PredictiveCheck:
        """Hold out a share of the exposures, in (0, 1), fit to the others, check the fit by it, and release the fit.

        The other parameters and the result are those of :meth:`PoissonFactorizationModel.predictiveCheck`.
        """
        get = self.getOrDefault
        split = hold_out_exposures(dataset, get("userCol"), get("itemCol"), get("countCol"), share, seed)
        with FitResources() as resources:
            return resources.add(self.fit(split.training)).predictiveCheck(split.exposures, replications, seed)

    def heldOutLikelihood(
        self, dataset: DataFrame, ranks: Sequence[int], share: float = 0.2, seed: int = 0
    ) -> dict[int, float]:
        """Judge ranks by held-out exposures: fit each rank to the others. The largest value is the best.

        dataset : the columns of a fit.
        ranks : to compare, on one split.
        share, seed : of the exposures that are held out, in (0, 1), and of the split.

        Returns rank -> Poisson log-likelihood of all pairs' held-out parts at the posterior means, divided by the
        number of held-out exposures. Users and items without an exposure in training are left out.
        """
        get = self.getOrDefault
        split = hold_out_exposures(dataset, get("userCol"), get("itemCol"), get("countCol"), share, seed)
        found = {}
        for rank in ranks:
            with FitResources() as resources:
                model = resources.add(self.copy({self.rank: rank}).fit(split.training))
                found[rank] = held_out_likelihood(model, split.exposures, share)
        return found


class ExposureFit(NamedTuple):
    """Stage 1 on its blocks: the states that a_hat comes from, and the model with its tables."""

    users: State
    items: State
    model: PoissonFactorizationModel


def fit_exposure(estimator: PoissonFactorization, layout: Layout, resources: FitResources) -> ExposureFit:
    """Fit stage 1 on blocks that are there already.

    Raises TypeError: initialModel is no exposure model. ConfigError: it has another rank, or other kinds of ids.
    FitError: the ELBO falls, or a factor is not finite.
    """
    family = PoissonExposure.of(estimator)
    warm, start = estimator.getOrDefault("initialModel"), None
    if warm is not None:
        if not isinstance(warm, PoissonFactorizationModel):
            raise TypeError(f"initialModel: found {warm!r}, expected a fitted PoissonFactorizationModel")
        require_exposure_rank(warm, family.rank)
        start = warm_start(family, layout, (warm.userFactors, warm.itemFactors), NOTHING_SHARED, resources)
    with listening(estimator, family.stage) as listener:
        fit = resources.add(fit_factors(estimator, family, layout, listener, start))
    users, items = (
        layout.materialise(cache_while_used(layout.table(is_user, state, family, NOTHING_SHARED).drop("idx")))
        for is_user, state in ((True, fit.users), (False, fit.items))
    )
    facts = FitFacts.of(family, layout, fit).warn()
    model = PoissonFactorizationModel(
        users, items, facts.objective, facts.held_out, facts.degeneracies, facts.converged, facts.final_objective
    )
    resources.result(model)
    estimator._copyValues(model._resetUid(estimator.uid)).clear(model.initialModel)
    return ExposureFit(fit.users, fit.items, model)


def estimator_like(model: PoissonFactorizationModel, **changes: Any) -> PoissonFactorization:
    """Return an estimator with the parameters that a model was fitted with, except for ``changes``. It starts cold."""
    fitted_with = {param.name: value for param, value in model.extractParamMap().items()}
    return PoissonFactorization(**{**fitted_with, "initialModel": None, **changes})
