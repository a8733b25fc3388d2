"""Matrix factorization with the substitute confounder: what would a user rate an item, if made to see it?"""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from dcrec_spark.engine.ascent import Fit, Start, alternate
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.engine.half_step import State
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.exposure.estimator import POSTERIOR, PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.models.families.select import outcome_steps, require_consistent, require_same_kind
from dcrec_spark.models.fitting.factors import place_factors, require_all_known
from dcrec_spark.models.fitting.layout import Layout, lay_out, layout_settings, observed, require_columns
from dcrec_spark.models.fitting.progress import listening, log_iteration
from dcrec_spark.models.fitting.restarts import best_of, require_ids_alike, stopping
from dcrec_spark.models.outcome.confounder import attach_confounder
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.propensity import WEIGHT_COLUMN, Propensity, PropensitySettings, fit_propensity
from dcrec_spark.models.outcome.tables import fitted_outcome, warm_start
from dcrec_spark.models.params import OutcomeParams, initialise
from dcrec_spark.models.persistence.mlio import Persistent
from dcrec_spark.spark.lineage import fixed_placement, require_checkpoint_directory

Exposure = PoissonFactorization | PoissonFactorizationModel


class DeconfoundedMF(Estimator[DeconfoundedMFModel], OutcomeParams, Persistent):
    """Stage 2: y_ui(1) = theta_u . beta_i + gamma_u a_hat_ui + beta_0, exact over all U x I pairs.

    The deconfounded recommender of Wang et al. (arXiv 1808.06581) at the cost of the observed pairs: weighted and
    probabilistic matrix factorization by alternating least squares, Poisson factorization by coordinate ascent. With
    ``adjustment`` none or ipw the same code fits the classical and the inverse-propensity versions.

    The paper speaks of MAP estimates; for outcome="poisson" posterior means stand in for them, since with shapes below
    1 the mode is degenerate (as in Gopalan et al. 2015).

    exposureModel : a fitted PoissonFactorizationModel to use again; a PoissonFactorization to fit first, on the same
    blocks; or None: one with ``exposureRank`` factors and this estimator's seed and restarts.
    initialModel : a fitted DeconfoundedMFModel of the same kind and ranks to start from. Its exposure model starts
    stage 1, unless ``exposureModel`` is fitted or has a start of its own; without ``exposureModel`` stage 1 also has
    the rank, priors, counts, tolerance and iterations that the exposure model was fitted with.
    listener : called with (stage, iteration, objective); by default they are logged, and a bar is shown on a terminal
    and in notebooks (``show_progress``).

    ``fit`` raises DataError for input that cannot be used, ConfigError for settings that contradict each other and on a
    cluster without a checkpoint directory, and FitError when the optimisation goes astray.
    """

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        ratingCol: str = "rating",
        outcome: str = "weighted",
        adjustment: str = "deconfounded",
        confounderWeight: str = "user",
        rank: int = 10,
        exposureRank: int = 10,
        alpha: float = 40.0,
        unobservedWeight: float | None = None,
        userReg: float = 1.0,
        itemReg: float = 1.0,
        confounderReg: float = 1.0,
        interceptReg: float = 1.0,
        userShapePrior: float = 0.3,
        userRatePrior: float = 0.3,
        itemShapePrior: float = 0.3,
        itemRatePrior: float = 0.3,
        confounderShapePrior: float = 1.0,
        confounderRatePrior: float = 1.0,
        interceptShapePrior: float = 0.3,
        interceptRatePrior: float = 0.3,
        fitIntercept: bool = True,
        propensityCol: str | None = None,
        propensityMean: float = 0.05,
        propensityDecay: float = 0.25,
        propensityPivot: float = 4.0,
        weightCap: float | None = None,
        exposureModel: Any = None,
        maxIter: int = 20,
        tol: float = 1e-4,
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        restarts: int = 1,
        initialModel: Any = None,
        seed: int = 0,
        predictionCol: str = "prediction",
        preferenceCol: str | None = None,
        confounderCol: str | None = None,
        coldStartStrategy: str = "nan",
        numUserBlocks: int | None = None,
        numItemBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float64",
    ) -> None:
        super().__init__()
        self.listener: Listener = log_iteration
        initialise(self)

    def _fit(self, dataset: DataFrame) -> DeconfoundedMFModel:
        get = self.getOrDefault
        require_consistent(self)
        exposure = self._exposure() if get("adjustment") == "deconfounded" else None
        self._require_columns(dataset, exposure)
        self.requireStart(dataset)
        require_checkpoint_directory(dataset.sparkSession)
        propensity = self._propensity(dataset) if get("adjustment") == "ipw" else None
        values = {"rating": f"`{get('ratingCol')}`"}
        if propensity is not None:
            dataset = dataset.withColumn(WEIGHT_COLUMN, propensity.weight(get("ratingCol")))
            values["weight"] = f"`{WEIGHT_COLUMN}`"
        if isinstance(exposure, PoissonFactorization):  # else its factors are there, and need no counts
            values |= exposure.exposure_value()
        exposure_width = 2 * exposure.getOrDefault("rank") if exposure is not None else 0
        settings = layout_settings(self, max(2 * get("rank") + 2, exposure_width))
        with ExitStack() as kept:
            held_out = get("validationIndicatorCol")
            layout = lay_out(dataset, get("userCol"), get("itemCol"), values, settings, kept, held_out)
            return self._fit_layout(layout, exposure, propensity, kept)

    def _fit_layout(
        self, layout: Layout, exposure: Exposure | None, propensity: Propensity | None, kept: ExitStack
    ) -> DeconfoundedMFModel:
        with ExitStack() as unless_done:
            fitted = None
            if exposure is not None:
                users, items, fitted = self._exposure_states(layout, exposure, kept)
                if fitted is not exposure:
                    unless_done.callback(fitted.release)
                with fixed_placement(layout.users.frame.sparkSession):
                    sides = attach_confounder(layout.users, layout.items, users, items, kept)
                layout.users.release()
                layout.items.release()
                layout = replace(layout, users=sides[0], items=sides[1])
            fit = self._best_fit(layout, kept)
            kept.callback(fit.release)
            found = fitted_outcome(self, layout, fit, propensity)
            model = DeconfoundedMFModel.fitted(*found, fitted, owned=fitted is not exposure)
            model.materialised()
            self._copyValues(model._resetUid(self.uid)).clear(model.initialModel)
            unless_done.pop_all()
        return model

    def _best_fit(self, layout: Layout, kept: ExitStack) -> Fit:
        start = self._start(layout, kept)
        with fixed_placement(layout.users.frame.sparkSession), listening(self, "outcome") as listener:
            return best_of(
                self,
                lambda again: alternate(
                    layout.users,
                    layout.items,
                    outcome_steps(self, layout, again),
                    stopping(self),
                    listener,
                    start if again == 0 else None,
                ),
                rises=self.getOrDefault("outcome") == "poisson",
            )

    def _start(self, layout: Layout, kept: ExitStack) -> Start | None:
        warm = self.getOrDefault("initialModel")
        if warm is None:
            return None
        users, items = warm.tables()
        return warm_start(self, layout, users, items, warm.facts, kept)

    def _exposure_states(
        self, layout: Layout, exposure: Exposure, kept: ExitStack
    ) -> tuple[State, State, PoissonFactorizationModel]:
        if isinstance(exposure, PoissonFactorization):
            fit, fitted = exposure.fit_layout(layout, kept)
            return fit.users, fit.items, fitted
        states = []
        for side, ids, factors in (
            (layout.users, layout.user_ids, exposure.userFactors),
            (layout.items, layout.item_ids, exposure.itemFactors),
        ):
            require_all_known(ids, factors, side.name)
            widths = dict.fromkeys(POSTERIOR, exposure.getOrDefault("rank"))
            states.append(place_factors(side, ids, factors, widths))
            kept.callback(states[-1].release)
        return states[0], states[1], exposure

    def requireStart(self, dataset: DataFrame) -> None:
        """Refuse an initialModel that a fit to ``dataset`` could not start from; nothing is computed.

        Raises
        ------
        ConfigError : names the settings, or the kinds of ids, that differ. TypeError : it is no outcome model.
        """
        warm = self.getOrDefault("initialModel")
        if warm is None:
            return
        if not isinstance(warm, DeconfoundedMFModel):
            raise TypeError(f"initialModel: found {warm!r}, expected a fitted DeconfoundedMFModel")
        require_same_kind(self, warm)
        names = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        require_ids_alike(dataset, names, warm.tables())
        exposure = self._exposure() if self.getOrDefault("adjustment") == "deconfounded" else None
        first = exposure.getOrDefault("initialModel") if isinstance(exposure, PoissonFactorization) else None
        if exposure is not None and isinstance(first, PoissonFactorizationModel):
            first.require_rank(exposure.getOrDefault("rank"))

    def _require_columns(self, dataset: DataFrame, exposure: Exposure | None) -> None:
        get = self.getOrDefault
        numbers = [get("ratingCol")]
        if get("adjustment") == "ipw" and get("propensityCol"):
            numbers.append(get("propensityCol"))
        if isinstance(exposure, PoissonFactorization) and exposure.getOrDefault("countCol"):
            numbers.append(exposure.getOrDefault("countCol"))
        ids, held_out = (get("userCol"), get("itemCol")), get("validationIndicatorCol")
        require_columns(dataset, ids, numbers, [held_out] if held_out else [])
        if isinstance(exposure, PoissonFactorizationModel):
            require_ids_alike(dataset, ids, (exposure.userFactors, exposure.itemFactors))

    def _propensity(self, dataset: DataFrame) -> Propensity:
        get = self.getOrDefault
        names = ("propensityCol", "propensityMean", "propensityDecay", "propensityPivot", "weightCap")
        ratings = observed(dataset, get("validationIndicatorCol"))
        return fit_propensity(ratings, get("ratingCol"), PropensitySettings(*[get(name) for name in names]))

    def _exposure(self) -> Exposure:
        """The exposure model to use, or the estimator that fits it here, from where ``initialModel`` ended."""
        given: Exposure | None = self.getOrDefault("exposureModel")
        warm = self.getOrDefault("initialModel")
        before = warm.exposureModel if isinstance(warm, DeconfoundedMFModel) else None
        if given is None:
            return self._own_exposure(before)
        if isinstance(given, PoissonFactorizationModel) or given.getOrDefault("initialModel") is not None:
            return given
        return given.copy({given.initialModel: before})

    def _own_exposure(self, before: PoissonFactorizationModel | None) -> PoissonFactorization:
        names = ["userCol", "itemCol", "seed", "numUserBlocks", "numItemBlocks", "exchange", "precision"]
        names += ["checkpointInterval", "validationIndicatorCol", "patience", "restarts"]
        shared = {name: self.getOrDefault(name) for name in names}
        rank = self.getOrDefault("exposureRank")
        if before is None:
            exposure = PoissonFactorization(rank=rank, **shared)
        elif self.isSet("exposureRank") and rank != before.getOrDefault("rank"):
            raise ConfigError(
                f"exposureRank={rank}, and the exposure model of initialModel has {before.getOrDefault('rank')} "
                "factors: leave exposureRank out, or fit a PoissonFactorization first and give it as exposureModel"
            )
        else:
            exposure = before.estimator(**shared, initialModel=before)
        exposure.listener = self.listener
        return exposure
