"""Poisson factorization of the exposures: who looked at what, and the substitute for what drove it."""

from contextlib import ExitStack
from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import index_ids
from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.ascent import Fit, Start, alternate
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.exposure.held_out import hold_out_exposures
from dcrec_spark.models.exposure.predictive_check import CheckSettings, PredictiveCheck, check_exposures
from dcrec_spark.models.families.gamma_poisson import GammaPoisson, GammaPrior, SharedGammas
from dcrec_spark.models.fitting.degenerate import degeneracies
from dcrec_spark.models.fitting.factors import dot, factor_frame, gamma_mean, place_factors
from dcrec_spark.models.fitting.fold_in import OTHER, fold_in, side_of
from dcrec_spark.models.fitting.layout import (
    Layout,
    lay_out,
    layout_settings,
    observed,
    require_columns,
    require_new_columns,
)
from dcrec_spark.models.fitting.progress import listening, log_iteration
from dcrec_spark.models.fitting.restarts import best_of, require_ids_alike, require_same_ids, restart_seed, stopping
from dcrec_spark.models.params import HasBlocks, HasGammaPriors, HasIds, Iterates, declare, initialise, text
from dcrec_spark.models.persistence.mlio import Persistent, Saved
from dcrec_spark.spark.lineage import cache_while_used, fixed_placement, require_checkpoint_directory

POSTERIOR = ["shape", "rate"]


class ExposureParams(HasIds, HasBlocks, Iterates, HasGammaPriors):
    """Parameters of the exposure model."""

    countCol = declare("countCol", "column of exposure counts; None: each pair counts once", text("countCol", True))
    exposureCol = declare("exposureCol", "output column: the reconstructed exposure a_hat", text("exposureCol"))

    def exposure_value(self) -> dict[str, str]:
        """The expression that makes a block's exposure counts."""
        count = self.getOrDefault("countCol")
        return {"exposure_count": f"`{count}`" if count else "1.0D"}

    def steps(self, validates: bool = False, again: int = 0) -> GammaPoisson:
        """The coordinate steps that the parameters name; ``again``: which restart."""
        get = self.getOrDefault
        return GammaPoisson(
            stage="exposure",
            count="exposure_count",
            rank=get("rank"),
            user_prior=GammaPrior(get("userShapePrior"), get("userRatePrior")),
            item_prior=GammaPrior(get("itemShapePrior"), get("itemRatePrior")),
            seed=restart_seed(self, again),
            precision=get("precision"),
            validates=validates,
        )


class PoissonFactorization(Estimator["PoissonFactorizationModel"], ExposureParams, Persistent):
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
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        restarts: int = 1,
        initialModel: Any = None,
    ) -> None:
        super().__init__()
        self.listener: Listener = log_iteration
        initialise(self)

    def _fit(self, dataset: DataFrame) -> "PoissonFactorizationModel":
        get = self.getOrDefault
        user, item, count, held_out = (get(p) for p in ("userCol", "itemCol", "countCol", "validationIndicatorCol"))
        require_columns(dataset, [user, item], [count] if count else [], [held_out] if held_out else [])
        require_checkpoint_directory(dataset.sparkSession)
        settings = layout_settings(self, 2 * get("rank"))
        with ExitStack() as kept:
            layout = lay_out(dataset, user, item, self.exposure_value(), settings, kept, held_out)
            return self.fit_layout(layout, kept)[1]

    def predictiveCheck(
        self, dataset: DataFrame, share: float = 0.2, replications: int = 100, seed: int = 0
    ) -> PredictiveCheck:
        """Hold out a share of the exposures, fit to the rest, and check the fit by what was held out.

        What is checked is this estimator on these exposures; the fit itself is let go. The caller releases the result.
        """
        get = self.getOrDefault
        split = hold_out_exposures(dataset, get("userCol"), get("itemCol"), get("countCol"), share, seed)
        model = self.fit(split.training)
        try:
            return model.predictiveCheck(split.exposures, replications, seed)
        finally:
            model.release()

    def fit_layout(self, layout: Layout, kept: ExitStack) -> tuple[Fit, "PoissonFactorizationModel"]:
        """Fit on blocks that are there already: the states to go on from, and the model with its own tables."""
        start = self._start(layout, kept)
        with fixed_placement(layout.users.frame.sparkSession), listening(self, "exposure") as listener:
            fit = best_of(
                self,
                lambda again: alternate(
                    layout.users,
                    layout.items,
                    self.steps(layout.held_out, again),
                    stopping(self),
                    listener,
                    start if again == 0 else None,
                ),
                rises=True,
            )
        kept.callback(fit.release)
        users = cache_while_used(factor_frame(layout.users, fit.users, layout.user_ids, POSTERIOR).drop("idx"))
        items = cache_while_used(factor_frame(layout.items, fit.items, layout.item_ids, POSTERIOR).drop("idx"))
        user_sums, item_sums = fit.users.sums, fit.items.sums
        total = layout.means["exposure_count"] * layout.nonzeros
        at_prior = self.steps().at_prior(user_sums, item_sums, layout.users.n_rows, total)
        size = total**2 / layout.n_pairs
        found = degeneracies("exposure", user_sums["gram"], item_sums["gram"], size, at_prior)
        model = PoissonFactorizationModel(users, items, fit.objective, fit.held_out, found)
        model.userFactors.count()
        model.itemFactors.count()
        self._copyValues(model._resetUid(self.uid)).clear(model.initialModel)
        return fit, model

    def _start(self, layout: Layout, kept: ExitStack) -> Start | None:
        """The states of ``initialModel`` on these blocks: known ids at its factors."""
        warm = self.getOrDefault("initialModel")
        if warm is None:
            return None
        if not isinstance(warm, PoissonFactorizationModel):
            raise TypeError(f"initialModel: found {warm!r}, expected a fitted PoissonFactorizationModel")
        rank = self.getOrDefault("rank")
        warm.require_rank(rank)
        states = []
        for side, ids, factors in (
            (layout.users, layout.user_ids, warm.userFactors),
            (layout.items, layout.item_ids, warm.itemFactors),
        ):
            require_same_ids(side.name, ids, factors)
            states.append(place_factors(side, ids, factors, dict.fromkeys(POSTERIOR, rank)))
            kept.callback(states[-1].release)
        return Start(states[0], states[1], SharedGammas())


class PoissonFactorizationModel(Model, ExposureParams, Persistent):
    """A fitted exposure model.

    userFactors, itemFactors : DataFrame[id, shape: array<double>, rate: array<double>], the Gamma posteriors.
    elboHistory : the ELBO after each iteration, all terms. validationHistory : the held-out pairs' mean negative log
    likelihood after each iteration, empty without any. degeneracies : what is wrong with the factors, in sentences.

    The factors of a fit stay cached while the model or a copy is referred to; the next fit lets go of what is left
    behind, :meth:`release` of this model at once.
    """

    def __init__(
        self,
        userFactors: DataFrame,
        itemFactors: DataFrame,
        elboHistory: list[float],
        validationHistory: list[float] | None = None,
        degeneracies: list[str] | None = None,
    ) -> None:
        super().__init__()
        self.userFactors = userFactors
        self.itemFactors = itemFactors
        self.elboHistory = elboHistory
        self.validationHistory = validationHistory or []
        self.degeneracies = degeneracies or []

    def require_rank(self, rank: int) -> None:
        """ConfigError where a fit of another rank would start from this model."""
        own = len(self.itemFactors.select("rate").take(1)[0]["rate"])
        if own != rank:
            raise ConfigError(
                f"initialModel has {own} exposure factors, and the exposure model's rank is {rank}: give both the same"
            )

    def estimator(self, **changes: Any) -> PoissonFactorization:
        """An estimator with the parameters that this model was fitted with, except for ``changes``; it starts cold."""
        fitted_with = {param.name: value for param, value in self.extractParamMap().items()}
        return PoissonFactorization(**{**fitted_with, "initialModel": None, **changes})

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds exposureCol, a_hat = E[pi_u] . E[lambda_i]; null for an id that was not in training."""
        user, item, output = (self.getOrDefault(name) for name in ("userCol", "itemCol", "exposureCol"))
        require_columns(dataset, [user, item], [])
        require_new_columns(dataset, {"exposureCol": output})
        require_ids_alike(dataset, (user, item), (self.userFactors, self.itemFactors))
        users = self.userFactors.select(F.col("id").alias(user), _mean().alias("__user_exposure"))
        items = self.itemFactors.select(F.col("id").alias(item), _mean().alias("__item_exposure"))
        a_hat = dot(F.col("__user_exposure"), F.col("__item_exposure")).alias(output)
        joined = dataset.join(users, user, "left").join(items, item, "left")
        return joined.select(*map(quoted, dataset.columns), a_hat)

    def predictiveCheck(self, dataset: DataFrame, replications: int = 100, seed: int = 0) -> PredictiveCheck:
        """Whether held-out exposures look like draws from this model: a p-value for each user, and overall.

        dataset : the ``exposures`` of ``hold_out_exposures``, to whose ``training`` this model was fitted; or all rows
        of some of the users, which suffice where there are millions. The caller releases the result.

        Raises DataError where something is missing, or the model was fitted to other exposures, held-out ones too.
        """
        user, item, count, prior = (
            self.getOrDefault(name) for name in ("userCol", "itemCol", "countCol", "userShapePrior")
        )
        settings = CheckSettings(user, item, count, prior, replications, seed)
        return check_exposures(self.userFactors, self.itemFactors, dataset, settings)

    def foldInUsers(self, dataset: DataFrame) -> DataFrame:
        """Exposure factors of new users from their exposures to known items: DataFrame[id, shape, rate].

        dataset : the columns of training. Pairs with unknown items are left out, and so are those that
        validationIndicatorCol marks; a user of whom only unknown items are told gets the factors of one who has looked
        at nothing. A training user with his own exposures gets his factors back. The result is cached; unpersist it
        when done.
        """
        return self._fold_in(dataset, "user", self.itemFactors)

    def foldInItems(self, dataset: DataFrame) -> DataFrame:
        """Exposure factors of new items from their exposures to known users: the mirror image of foldInUsers."""
        return self._fold_in(dataset, "item", self.userFactors)

    def _fold_in(self, dataset: DataFrame, new: str, known: DataFrame) -> DataFrame:
        get = self.getOrDefault
        names = get("userCol"), get("itemCol")
        require_columns(dataset, names, [c for c in (get("countCol"),) if c])
        require_ids_alike(dataset, names, (self.userFactors, self.itemFactors))
        dataset = observed(dataset, get("validationIndicatorCol"))
        settings = layout_settings(self, 2 * get("rank"))
        with ExitStack() as kept:
            frozen = {OTHER[new]: index_ids(known, "id")}
            kept.callback(frozen[OTHER[new]].unpersist)
            layout = lay_out(dataset, *names, self.exposure_value(), settings, kept, frozen=frozen)
            memory = known, dict.fromkeys(POSTERIOR, get("rank"))
            states = fold_in(layout, new, memory, self.steps(), SharedGammas(), kept)
            side, ids = side_of(layout, new)
            folded = factor_frame(side, states[new], ids, POSTERIOR).drop("idx").persist()
            folded.count()
        return folded

    def _saved(self) -> Saved:
        names = ("elboHistory", "validationHistory", "degeneracies")
        frames = {"users": self.userFactors, "items": self.itemFactors}
        return Saved(frames, {name: getattr(self, name) for name in names})

    @classmethod
    def _restored(cls, saved: Saved) -> "PoissonFactorizationModel":
        return cls(saved.frames["users"], saved.frames["items"], **saved.facts)

    def release(self) -> None:
        """Let go of the cached factors; the model is of no further use."""
        self.userFactors.unpersist()
        self.itemFactors.unpersist()


def _mean() -> Column:
    return gamma_mean(F.col("shape"), F.col("rate"))
