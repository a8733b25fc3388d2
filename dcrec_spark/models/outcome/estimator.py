"""Matrix factorization with the substitute confounder: what would a user rate an item, if made to see it?"""

from collections.abc import Sequence
from typing import Any, Self

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from dcrec_spark.engine.ascent import Fit
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.exposure.estimator import ExposureFit, PoissonFactorization, estimator_like, fit_exposure
from dcrec_spark.models.exposure.model import PoissonFactorizationModel, require_exposure_rank
from dcrec_spark.models.families.base import OutcomeFamily, require_same_kind
from dcrec_spark.models.families.poisson import NOTHING_SHARED, PoissonExposure
from dcrec_spark.models.families.registry import consistent_family_of, family_of
from dcrec_spark.models.fitting.attach import attach_confounder, attach_features
from dcrec_spark.models.fitting.checks import observed, require_all_known, require_columns, require_ids_alike
from dcrec_spark.models.fitting.factors import completed
from dcrec_spark.models.fitting.facts import FitFacts, OutcomeFacts
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout, Part
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.progress import listening, log_iteration
from dcrec_spark.models.fitting.propensity import (
    Propensity,
    PropensitySettings,
    exposure_values,
    fit_propensity,
    weighted_ratings,
)
from dcrec_spark.models.fitting.stages import FitCheckpoints, fit_factors, warm_start
from dcrec_spark.models.outcome.lists import require_exposure_model
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.tables import FactorTables
from dcrec_spark.models.params import OutcomeFitParams, initialise, keyword_only
from dcrec_spark.models.persistence.mlio import Persistent
from dcrec_spark.settings.tables import BIAS_REG, CONFOUNDER_REG, PRESETS, REG_PARAM
from dcrec_spark.spark.cancellation import stop_on_interrupt
from dcrec_spark.spark.lineage import require_checkpoint_directory

Exposure = PoissonFactorization | PoissonFactorizationModel
_COUNTS = PRESETS["counts"]


class DeconfoundedMF(Estimator[DeconfoundedMFModel], OutcomeFitParams, Persistent):
    """The deconfounded recommender: matrix factorization with a substitute for what drives both choice and rating.

    Weighted and probabilistic matrix factorization by alternating least squares, Poisson factorization by coordinate
    ascent. Sums over all pairs are exact, in time proportional to the number of ratings. With ``adjustment`` "none" or
    "ipw" the same code fits without the confounder, or by inverse propensities. The defaults suit ratings on a scale,
    such as stars from 1 to 5. :meth:`forCounts` suits plays and clicks. ``explainParams()`` lists all parameters, with
    their meaning and defaults. These need more words:

    outcome : the family of the rating model: "probabilistic", "weighted", "poisson". The last has no use for biases,
        leaveOneOut, a link, regByCount, a pooled confounderWeight: it passes over their defaults, and refuses what is
        set.
    adjustment : "deconfounded": with the confounder. "none": without. "ipw": without, the observed ratings weighted by
        inverse propensities: of ``propensityCol``, cut at ``weightCap``. Without a column they come from the ratings
        alone, as in the paper: a 1 weighs 64 times a 4. On real ratings give a column.
    confounder : "reconstruction": gamma_u h_ui, with h_ui made from a_hat_ui. "factors": also slopes of items on the
        composition of users' exposures, and of users on items'. Unless it is set, fits to all pairs (unobservedWeight
        above 0) have the paper's form, reconstruction and identity.
    exposureModel : a fitted stage 1, a PoissonFactorizationModel, to use as it is, or its estimator, a
        PoissonFactorization, which is fitted first, on the same blocks. Without one, stage 1 has ``exposureRank``
        factors and this estimator's seed.
    regParam : the same for all rows, however many ratings they have, unless ``regByCount`` multiplies it by their
        number.
    userFeatures, itemFeatures : scaled by the fit. Missing ones are at their mean.
    solver : of the sweeps, "cholesky" or "cg". The users of the fitted model are solved exactly.
    initialModel : a DeconfoundedMFModel of the same kind and ranks to start from. Its exposure model starts stage 1,
        unless ``exposureModel`` is fitted or has a start. Without ``exposureModel`` stage 1 also has the rank, priors,
        counts, tolerance and iterations of that exposure model.
    listener : an attribute that is called with (stage, iteration, objective) after each sweep of either stage, by
        default they are logged, and a bar is shown on a terminal and in notebooks (``show_progress``).

    ``fit`` raises DataError for input that can't be used. ConfigError for settings that contradict each other, and on a
    cluster without a checkpoint directory. FitError where the objective goes the wrong way or a factor is not finite.

    y_ui(1) = theta_u . beta_i + gamma_u a_hat_ui + beta_0 (Wang, Liang, Charlin, Blei, arXiv 1808.06581), by default
    with biases b_u + c_i, with h_ui in place of a_hat_ui, and kappa_u . q_i + rho_i . p_u of compositions p_u, q_i.

    The paper speaks of MAP estimates. For outcome="poisson" posterior means stand in for them, since with shapes below
    1 the mode is degenerate (as in Gopalan et al. 2015).

    Examples
    --------
    >>> from dcrec_spark import DeconfoundedMF
    >>> rows = [(u, i, float((u * i) % 5 + 1)) for u in range(6) for i in range(6) if (u + i) % 3]
    >>> ratings = spark.createDataFrame(rows, "user int, item int, rating double")
    >>> model = DeconfoundedMF(rank=2, maxIter=3).fit(ratings)
    >>> model.transform(ratings.limit(1)).columns
    ['user', 'item', 'rating', 'prediction']
    >>> model.userFactors.columns
    ['id', 'features', 'bias', 'gamma']
    >>> model.release()
    """

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        ratingCol: str = "rating",
        predictionCol: str = "prediction",
        coldStartStrategy: str = "nan",
        seed: int = 0,
        outcome: str = "probabilistic",
        adjustment: str = "deconfounded",
        confounder: str = "factors",
        confounderWeight: str = "pooled",
        confounderLink: str = "log",
        leaveOneOut: bool = True,
        rank: int = 10,
        exposureRank: int = 5,
        alpha: float = 1.0,
        unobservedWeight: float | None = None,
        fitBiases: bool = True,
        fitIntercept: bool = True,
        regParam: float = REG_PARAM,
        biasReg: float = BIAS_REG,
        confounderReg: float = CONFOUNDER_REG,
        regByCount: bool = False,
        gammaShape: float = 0.3,
        gammaRate: float = 0.3,
        propensityCol: str | None = None,
        weightCap: float | None = None,
        exposureWeight: float = 0.0,
        exposureModel: Any = None,
        initialModel: Any = None,
        userFeatures: DataFrame | None = None,
        itemFeatures: DataFrame | None = None,
        maxIter: int = 20,
        tol: float = 1e-4,
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        solver: str = "cholesky",
        numBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        self.listener: Listener = log_iteration
        self.checkpoints: FitCheckpoints | None = None
        self._lent: Layout | None = None
        initialise(self)

    @classmethod
    def forCounts(
        cls,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        ratingCol: str = "rating",
        rank: int = 10,
        alpha: float = _COUNTS["alpha"],
        regParam: float = _COUNTS["reg_param"],
        confounderReg: float = CONFOUNDER_REG,
        unobservedWeight: float | None = None,
        maxIter: int = 20,
        seed: int = 0,
    ) -> Self:
        """Make an estimator for counts such as plays and clicks: weighted factorization of all pairs, without biases.

        A count y has weight 1 + alpha * y, and is fitted as y, not as 1. The parameters are those of the constructor,
        and setters change all else.

        Examples
        --------
        >>> DeconfoundedMF.forCounts(rank=20).getOutcome()
        'weighted'
        """
        return cls(
            userCol=userCol,
            itemCol=itemCol,
            ratingCol=ratingCol,
            outcome=_COUNTS["outcome"],
            fitBiases=_COUNTS["fit_biases"],
            rank=rank,
            alpha=alpha,
            regParam=regParam,
            confounderReg=confounderReg,
            unobservedWeight=unobservedWeight,
            maxIter=maxIter,
            seed=seed,
        )

    @stop_on_interrupt()
    def _fit(self, dataset: DataFrame) -> DeconfoundedMFModel:
        family = consistent_family_of(self)
        require_exposure_model(self.getExposureWeight(), family.has_confounder)
        exposure = self._exposure() if family.has_confounder else None
        self._require_usable(dataset, family, exposure)
        propensity = None
        if self.getAdjustment() == "ipw":
            ratings = observed(dataset, self.getValidationIndicatorCol())
            propensity = fit_propensity(ratings, self.getRatingCol(), PropensitySettings.of(self))
        with FitResources() as resources:
            layout = self._lent or _lay_out([self], dataset, resources, propensity)
            stage_one = None if exposure is None else self._stage_one(exposure, layout, resources)
            form = None
            if stage_one is not None:
                factors = stage_one.users, stage_one.items
                layout, form = attach_confounder(layout, *factors, family.exposure_term, resources)
            features, ids = (self.getUserFeatures(), self.getItemFeatures()), (self.getUserCol(), self.getItemCol())
            layout, covariates = attach_features(layout, features, ids, resources)
            family = covariates.of_family(family, form)
            warm, start = self.getOrDefault("initialModel"), None
            if warm is not None:
                start = warm_start(family, layout, warm.tables(), warm.facts.shared, resources)
            with listening(self, family.stage) as listener:
                fit = resources.add(fit_factors(self, family, layout, listener, start))
            facts = FitFacts.of(family, layout, fit).warn()
            outcome = OutcomeFacts(fit.shared, layout.means["rating"], facts, propensity, form, covariates)
            return self._model(family, layout, fit, stage_one, outcome)

    def checkInitialModel(self, dataset: DataFrame) -> None:
        """Refuse an initialModel that a fit to ``dataset`` could not start from. Nothing is computed.

        Raises ConfigError: it names the settings, or the kinds of ids, that differ. TypeError: it is no outcome model.
        """
        warm = self.getOrDefault("initialModel")
        if warm is None:
            return
        if not isinstance(warm, DeconfoundedMFModel):
            raise TypeError(f"initialModel: found {warm!r}, expected a fitted DeconfoundedMFModel")
        family = family_of(self)
        require_same_kind(family, warm)
        names = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        require_ids_alike(dataset, names, warm.tables())
        for is_user, param in ((True, self.userFeatures), (False, self.itemFeatures)):
            table, before = self.getOrDefault(param), warm.facts.covariates.features(is_user).names
            given = () if table is None else tuple(c for c in table.columns if c != names[0 if is_user else 1])
            if given != before:
                raise ConfigError(
                    f"{param.name}: found {list(given)}, and initialModel was fitted with {list(before)}; expected the "
                    "same columns in the same order"
                )
        exposure = self._exposure() if family.has_confounder else None
        first = exposure.getOrDefault("initialModel") if isinstance(exposure, PoissonFactorization) else None
        if exposure is not None and isinstance(first, PoissonFactorizationModel):
            require_exposure_rank(first, exposure.getOrDefault("rank"))

    def _require_usable(self, dataset: DataFrame, family: OutcomeFamily, exposure: Exposure | None) -> None:
        get = self.getOrDefault
        numbers = [get("ratingCol")]
        if get("adjustment") == "ipw" and get("propensityCol"):
            numbers.append(get("propensityCol"))
        if exposure is not None and self._needs_counts(exposure, family) and exposure.getOrDefault("countCol"):
            numbers.append(exposure.getOrDefault("countCol"))
        ids, held_out = (get("userCol"), get("itemCol")), get("validationIndicatorCol")
        require_columns(dataset, ids, numbers, [held_out] if held_out else [])
        if isinstance(exposure, PoissonFactorizationModel):
            require_ids_alike(dataset, ids, (exposure.userFactors, exposure.itemFactors))
        self.checkInitialModel(dataset)
        require_checkpoint_directory(dataset.sparkSession)

    @staticmethod
    def _needs_counts(exposure: Exposure, family: OutcomeFamily) -> bool:
        return isinstance(exposure, PoissonFactorization) or family.exposure_term.leave_one_out

    def _stage_one(self, exposure: Exposure, layout: Layout, resources: FitResources) -> ExposureFit:
        if isinstance(exposure, PoissonFactorization):
            return fit_exposure(exposure, layout, resources)
        family = PoissonExposure.of(exposure)
        require_all_known(layout.user_ids, exposure.userFactors, "user")
        require_all_known(layout.item_ids, exposure.itemFactors, "item")
        with layout.environment():
            states = layout.place_both((exposure.userFactors, exposure.itemFactors), family, resources)
        return ExposureFit(*states, exposure)

    def _model(
        self, family: OutcomeFamily, layout: Layout, fit: Fit, stage_one: ExposureFit | None, facts: OutcomeFacts
    ) -> DeconfoundedMFModel:
        sides, exposure = [], None
        for is_user, state in ((True, fit.users), (False, fit.items)):
            if stage_one is not None:
                exposed = stage_one.users if is_user else stage_one.items
                exposure = Part(exposed, PoissonExposure.of(stage_one.model), NOTHING_SHARED)
            sides.append(completed(layout.table(is_user, state, family, fit.shared, exposure)))
        used = None if stage_one is None else stage_one.model
        was_given = used is not None and used is self.getOrDefault("exposureModel")
        tables = FactorTables.of_fit(layout, *sides)
        model = DeconfoundedMFModel(tables, facts, used, releasesExposureModel=not was_given)
        self._copyValues(model._resetUid(self.uid)).clear(model.initialModel)
        return model

    def _exposure(self) -> Exposure:
        """Return the exposure model to use, or the estimator that fits it here, from where ``initialModel`` ended."""
        given: Exposure | None = self.getOrDefault("exposureModel")
        warm = self.getOrDefault("initialModel")
        before = warm.exposureModel if isinstance(warm, DeconfoundedMFModel) else None
        if given is None:
            return self._default_exposure(before)
        if isinstance(given, PoissonFactorizationModel) or given.getOrDefault("initialModel") is not None:
            return given
        return given.copy({given.initialModel: before})

    def _default_exposure(self, before: PoissonFactorizationModel | None) -> PoissonFactorization:
        """Return an estimator of stage 1 with this one's settings, or those of the stage 1 of ``initialModel``."""
        names = ["userCol", "itemCol", "seed", "numBlocks", "exchange", "precision"]
        names += ["checkpointInterval", "validationIndicatorCol", "patience"]
        settings = {name: self.getOrDefault(name) for name in names}
        rank = self.getOrDefault("exposureRank")
        if before is None:
            exposure = PoissonFactorization(rank=rank, **settings)
        elif self.isSet("exposureRank") and rank != before.getOrDefault("rank"):
            raise ConfigError(
                f"exposureRank={rank}, and the exposure model of initialModel has {before.getOrDefault('rank')} "
                "factors: leave exposureRank out, or fit a PoissonFactorization first and give it as exposureModel"
            )
        else:
            exposure = estimator_like(before, **settings, initialModel=before)
        exposure.listener = self.listener
        return exposure


def share_blocks(estimators: Sequence[DeconfoundedMF], dataset: DataFrame, resources: FitResources) -> None:
    """Build blocks once for estimators whose fits to ``dataset`` have the same ones, and lend them to these."""
    of_key: dict[tuple[Any, ...], list[DeconfoundedMF]] = {}
    names = "outcome", "userCol", "itemCol", "ratingCol", "validationIndicatorCol", "numBlocks", "exchange", "precision"
    for each in estimators:
        family, get = consistent_family_of(each), each.getOrDefault
        exposure = each._exposure()
        each._require_usable(dataset, family, exposure if family.has_confounder else None)
        if get("adjustment") != "ipw":  # its blocks hold weights
            of_key.setdefault((exposure.getOrDefault("countCol"), *map(get, names)), []).append(each)
    for alike in of_key.values():
        if len(alike) > 1:
            layout = _lay_out(alike, dataset, resources).lend()
            for each in alike:
                each._lent = layout


def _lay_out(
    estimators: Sequence[DeconfoundedMF],
    dataset: DataFrame,
    resources: FitResources,
    propensity: Propensity | None = None,
) -> Layout:
    """Build blocks that each of the estimators can be fitted to. They differ in nothing that these hold."""
    get, width, a_hats = estimators[0].getOrDefault, 0, 1
    dataset, values = weighted_ratings(dataset, get("ratingCol"), propensity)
    for each in estimators:
        family = family_of(each)
        width = max(width, family.row_width)
        if family.has_confounder:
            exposure = each._exposure()
            width, term = max(width, family.exposure_row_width(PoissonExposure.of(exposure))), family.exposure_term
            a_hats = 2 if term.leave_one_out and term.over_all_pairs else a_hats
            # A stage 1 that is fitted has its factors, and needs the counts for what is left out of them alone.
            if each._needs_counts(exposure, family):
                values |= exposure_values(exposure.getOrDefault("countCol"))
    names, held_out = (get("userCol"), get("itemCol")), get("validationIndicatorCol")
    settings = layout_settings(estimators[0], width, family_of(estimators[0]).splits, a_hats)
    return lay_out(dataset, *names, values, settings, resources, held_out)
