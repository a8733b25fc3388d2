"""Poisson factorization of the exposures: who looked at what, and the substitute for what drove it."""

import logging
from contextlib import ExitStack

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.lineage import fixed_placement, require_checkpoint_directory
from dcrec_spark.models.exposure_fit import ExposureFit, ExposureSettings, GammaPrior, fit_exposure
from dcrec_spark.models.factors import dot, factor_frame, gamma_mean
from dcrec_spark.models.history import Listener
from dcrec_spark.models.layout import Layout, lay_out, layout_settings, require_columns
from dcrec_spark.models.params import HasBlocks, HasIds, Iterates, declare, initialise, number, text

_log = logging.getLogger(__name__)
_SMALLEST_SHAPE = 0.01  # below, exp(E[log .]) underflows and the responsibilities lose their meaning


def log_iteration(stage: str, iteration: int, objective: float) -> None:
    """The listener that estimators have unless another is set."""
    _log.info("%s iteration %d: objective %.6g", stage, iteration, objective)


class ExposureParams(HasIds, HasBlocks, Iterates):
    """Parameters of the exposure model."""

    countCol = declare("countCol", "column of exposure counts; None: each pair counts once", text("countCol", True))
    exposureCol = declare("exposureCol", "output column: the reconstructed exposure a_hat", text("exposureCol"))
    userShapePrior = declare(
        "userShapePrior",
        "shape c1 of the users' Gamma prior",
        number("userShapePrior", float, _SMALLEST_SHAPE),
    )
    userRatePrior = declare(
        "userRatePrior", "rate c2 of the users' Gamma prior", number("userRatePrior", float, 0, open_low=True)
    )
    itemShapePrior = declare(
        "itemShapePrior",
        "shape c3 of the items' Gamma prior",
        number("itemShapePrior", float, _SMALLEST_SHAPE),
    )
    itemRatePrior = declare(
        "itemRatePrior", "rate c4 of the items' Gamma prior", number("itemRatePrior", float, 0, open_low=True)
    )


class PoissonFactorization(Estimator["PoissonFactorizationModel"], ExposureParams):
    """Stage 1: a_ui ~ Poisson(pi_u . lambda_i) with Gamma priors, by coordinate ascent on the exact ELBO.

    Gopalan, Hofman, Blei 2015; the exposure model of Wang et al. (arXiv 1808.06581). Each (user, item) pair of the
    input is an exposure, all other pairs are none; with ``countCol`` a pair counts as often as it says.

    ``fit`` raises DataError for input that cannot be used and ConfigError on a cluster without a checkpoint directory.
    """

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        countCol: str | None = None,
        rank: int = 10,
        maxIter: int = 100,
        tol: float = 1e-5,
        userShapePrior: float = 0.3,
        userRatePrior: float = 0.3,
        itemShapePrior: float = 0.3,
        itemRatePrior: float = 0.3,
        seed: int = 0,
        exposureCol: str = "a_hat",
        numUserBlocks: int | None = None,
        numItemBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float64",
    ) -> None:
        super().__init__()
        self.listener: Listener = log_iteration
        initialise(self)

    def _fit(self, dataset: DataFrame) -> "PoissonFactorizationModel":
        user, item, count = (self.getOrDefault(p) for p in ("userCol", "itemCol", "countCol"))
        require_columns(dataset, [user, item], [count] if count else [])
        require_checkpoint_directory(dataset.sparkSession)
        settings = layout_settings(self, 2 * self.getOrDefault("rank"))
        with ExitStack() as kept:
            layout = lay_out(dataset, user, item, self.exposure_value(), settings, kept)
            return self.fit_layout(layout, kept)[1]

    def exposure_value(self) -> dict[str, str]:
        """The expression that makes a block's exposure counts."""
        count = self.getOrDefault("countCol")
        return {"exposure_count": f"`{count}`" if count else "1.0D"}

    def fit_layout(self, layout: Layout, kept: ExitStack) -> tuple[ExposureFit, "PoissonFactorizationModel"]:
        """Fit on blocks that are there already: the states to go on from, and the model with its own tables."""
        with fixed_placement(layout.users.frame.sparkSession):
            fit = fit_exposure(layout.users, layout.items, self._settings(), self.listener)
        kept.callback(fit.users.release)
        kept.callback(fit.items.release)
        columns = ["shape", "rate"]
        users = factor_frame(layout.users, fit.users, layout.user_ids, columns).drop("idx").persist()
        items = factor_frame(layout.items, fit.items, layout.item_ids, columns).drop("idx").persist()
        model = PoissonFactorizationModel(users, items, fit.elbo)
        model.userFactors.count()
        model.itemFactors.count()
        return fit, self._copyValues(model)

    def _settings(self) -> ExposureSettings:
        get = self.getOrDefault
        return ExposureSettings(
            rank=get("rank"),
            max_iter=get("maxIter"),
            tol=get("tol"),
            users=GammaPrior(get("userShapePrior"), get("userRatePrior")),
            items=GammaPrior(get("itemShapePrior"), get("itemRatePrior")),
            seed=get("seed"),
            checkpoint_interval=get("checkpointInterval"),
            precision=get("precision"),
        )


class PoissonFactorizationModel(Model, ExposureParams):
    """A fitted exposure model.

    userFactors, itemFactors : DataFrame[id, shape: array<double>, rate: array<double>], the Gamma posteriors.
    elboHistory : the ELBO after each iteration, all terms.
    """

    def __init__(self, userFactors: DataFrame, itemFactors: DataFrame, elboHistory: list[float]) -> None:
        super().__init__()
        self.userFactors = userFactors
        self.itemFactors = itemFactors
        self.elboHistory = elboHistory

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds exposureCol, a_hat = E[pi_u] . E[lambda_i]; null for an id that was not in training."""
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        require_columns(dataset, [user, item], [])
        users = self.userFactors.select(F.col("id").alias(user), _mean().alias("__user_exposure"))
        items = self.itemFactors.select(F.col("id").alias(item), _mean().alias("__item_exposure"))
        a_hat = dot(F.col("__user_exposure"), F.col("__item_exposure")).alias(self.getOrDefault("exposureCol"))
        joined = dataset.join(users, user, "left").join(items, item, "left")
        return joined.select(*[F.col(f"`{c}`") for c in dataset.columns], a_hat)

    def release(self) -> None:
        """Let go of the cached factors; the model is of no further use."""
        self.userFactors.unpersist()
        self.itemFactors.unpersist()


def _mean() -> Column:
    return gamma_mean(F.col("shape"), F.col("rate"))
