"""Matrix factorization with the substitute confounder: what would a user rate an item, if made to see it?"""

from contextlib import ExitStack
from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.param.shared import HasPredictionCol
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.half_step import State
from dcrec_spark.engine.lineage import fixed_placement, require_checkpoint_directory
from dcrec_spark.kernels.ridge import Off, Regulariser
from dcrec_spark.models.exposure import PoissonFactorization, PoissonFactorizationModel, log_iteration
from dcrec_spark.models.factors import factor_frame, place_factors
from dcrec_spark.models.history import Listener
from dcrec_spark.models.layout import Layout, LayoutSettings, lay_out, layout_settings, require_columns
from dcrec_spark.models.outcome_fit import OutcomeFit, OutcomeSettings, attach_confounder, fit_outcome
from dcrec_spark.models.outcome_model import DeconfoundedMFModel
from dcrec_spark.models.params import OutcomeParams, initialise


class DeconfoundedMF(Estimator[DeconfoundedMFModel], OutcomeParams, HasPredictionCol):
    """Stage 2: y_ui(1) = theta_u . beta_i + gamma_u a_hat_ui + beta_0, by exact alternating least squares.

    The deconfounded recommender of Wang et al. (arXiv 1808.06581), over all U x I pairs at the cost of the observed
    ones. Without ``adjustment`` the same code fits the classical model.

    exposureModel : a fitted PoissonFactorizationModel to use again; a PoissonFactorization to fit first, on the same
    blocks; or None: one with ``exposureRank`` factors and this estimator's seed.
    listener : called with (stage, iteration, objective); by default they are logged.

    ``fit`` raises DataError for input that cannot be used, ConfigError on a cluster without a checkpoint directory,
    and FitError when the optimisation goes astray.
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
        rank: int = 10,
        exposureRank: int = 10,
        alpha: float = 40.0,
        unobservedWeight: float | None = None,
        userReg: float = 1.0,
        itemReg: float = 1.0,
        confounderReg: float = 1.0,
        interceptReg: float = 1.0,
        fitIntercept: bool = True,
        exposureModel: Any = None,
        maxIter: int = 20,
        tol: float = 1e-4,
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
        exposure = self._exposure() if get("adjustment") == "deconfounded" else None
        values, counts = {"rating": f"`{get('ratingCol')}`"}, []
        if isinstance(exposure, PoissonFactorization):  # else its factors are there, and need no counts
            values |= exposure.exposure_value()
            counts = [c for c in (exposure.getOrDefault("countCol"),) if c]
        require_columns(dataset, [get("userCol"), get("itemCol")], [get("ratingCol"), *counts])
        require_checkpoint_directory(dataset.sparkSession)
        settings = self._layout_settings(exposure)
        with ExitStack() as kept:
            layout = lay_out(dataset, get("userCol"), get("itemCol"), values, settings, kept)
            return self._fit_layout(layout, exposure, kept)

    def _fit_layout(
        self, layout: Layout, exposure: PoissonFactorization | PoissonFactorizationModel | None, kept: ExitStack
    ) -> DeconfoundedMFModel:
        users, items, fitted = layout.users, layout.items, None
        with ExitStack() as unless_done:
            if exposure is not None:
                user_state, item_state, fitted = self._exposure_states(layout, exposure, kept)
                if fitted is not exposure:
                    unless_done.callback(fitted.release)
                with fixed_placement(users.frame.sparkSession):
                    users, items = attach_confounder(users, items, user_state, item_state, kept)
                layout.users.release()
                layout.items.release()
            with fixed_placement(users.frame.sparkSession):
                fit = fit_outcome(users, items, self._settings(), self.listener)
            kept.callback(fit.users.release)
            kept.callback(fit.items.release)
            model = self._copyValues(self._model(layout, fit, fitted, owned=fitted is not exposure))
            unless_done.pop_all()
        return model

    def _exposure_states(
        self, layout: Layout, exposure: PoissonFactorization | PoissonFactorizationModel, kept: ExitStack
    ) -> tuple[State, State, PoissonFactorizationModel]:
        if isinstance(exposure, PoissonFactorization):
            fit, fitted = exposure.fit_layout(layout, kept)
            return fit.users, fit.items, fitted
        columns = ["shape", "rate"]
        user_state = place_factors(layout.users, layout.user_ids, exposure.userFactors, columns)
        kept.callback(user_state.release)
        item_state = place_factors(layout.items, layout.item_ids, exposure.itemFactors, columns)
        kept.callback(item_state.release)
        return user_state, item_state, exposure

    def _model(
        self, layout: Layout, fit: OutcomeFit, exposure: PoissonFactorizationModel | None, owned: bool
    ) -> DeconfoundedMFModel:
        rank, has_confounder = self.getOrDefault("rank"), exposure is not None
        gamma = F.element_at("rows", rank + 1) if has_confounder else F.lit(0.0)
        features = F.slice("rows", 1, rank).alias("features")
        users = factor_frame(layout.users, fit.users, layout.user_ids, ["rows"])
        items = factor_frame(layout.items, fit.items, layout.item_ids, ["rows"])
        return DeconfoundedMFModel(
            users.select("idx", "id", features, gamma.alias("gamma")),
            items.select("idx", "id", features),
            fit.intercept,
            exposure,
            fit.objective,
            layout.means["rating"],
            ownsExposureModel=owned,
        ).materialised()

    def _exposure(self) -> PoissonFactorization | PoissonFactorizationModel:
        """The exposure model to use, or the estimator that fits it here."""
        get = self.getOrDefault
        given = get("exposureModel")
        if given is not None:
            if not isinstance(given, PoissonFactorization | PoissonFactorizationModel):
                raise TypeError(
                    f"exposureModel: found {given!r}, expected a PoissonFactorization, or a model that it fitted"
                )
            return given
        names = ("userCol", "itemCol", "seed", "numUserBlocks", "numItemBlocks", "exchange", "precision")
        exposure = PoissonFactorization(
            rank=get("exposureRank"),
            checkpointInterval=get("checkpointInterval"),
            **{n: get(n) for n in names},
        )
        exposure.listener = self.listener
        return exposure

    def _layout_settings(self, exposure: PoissonFactorization | PoissonFactorizationModel | None) -> LayoutSettings:
        exposure_width = 2 * exposure.getOrDefault("rank") if exposure is not None else 0
        return layout_settings(self, max(self.getOrDefault("rank") + 1, exposure_width))

    def _settings(self) -> OutcomeSettings:
        get = self.getOrDefault
        weighted = get("outcome") == "weighted"
        unobserved = get("unobservedWeight")
        if unobserved is None:
            unobserved = 1.0 if weighted or get("adjustment") == "deconfounded" else 0.0
        return OutcomeSettings(
            rank=get("rank"),
            max_iter=get("maxIter"),
            tol=get("tol"),
            off=Off(unobserved, weighted),
            reg=Regulariser(get("userReg"), get("itemReg"), get("confounderReg"), get("interceptReg")),
            alpha=get("alpha") if weighted else 0.0,
            fit_intercept=get("fitIntercept"),
            seed=get("seed"),
            checkpoint_interval=get("checkpointInterval"),
            precision=get("precision"),
        )
