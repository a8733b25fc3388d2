"""The fitted exposure model: Gamma posteriors of exposure factors, and the substitute confounder a_hat."""

from pyspark.ml import Model
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import index_ids
from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck, check_exposures
from dcrec_spark.models.families.poisson import NOTHING_SHARED, PoissonExposure
from dcrec_spark.models.fitting.checks import observed, require_columns, require_ids_alike, require_new_columns
from dcrec_spark.models.fitting.factors import dot, gamma_mean
from dcrec_spark.models.fitting.facts import Degeneracy
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values
from dcrec_spark.models.fitting.stages import fold_in
from dcrec_spark.models.params import ExposureSource, HasFit, optional, param
from dcrec_spark.models.persistence.mlio import Persistent, Saved, as_json, from_json
from dcrec_spark.settings.tables import EXPOSURE, params

_SETTINGS = params(EXPOSURE)


class ExposureParams(HasFit, ExposureSource):
    """Params of the exposure model."""

    countCol, getCountCol, setCountCol = optional(str, _SETTINGS["countCol"])
    rank, getRank, setRank = param(int, _SETTINGS["rank"])
    shapePrior, getShapePrior, setShapePrior = param(float, _SETTINGS["shapePrior"])
    ratePrior, getRatePrior, setRatePrior = param(float, _SETTINGS["ratePrior"])
    exposureCol, getExposureCol, setExposureCol = param(str, _SETTINGS["exposureCol"])


class PoissonFactorizationModel(Model, ExposureParams, Persistent):
    """A fitted exposure model.

    The factors of a fit stay cached while the model or a copy is referred to. The next fit releases what is left
    behind. :meth:`release` does it at once for this model.

    userFactors, itemFactors : ``id, shape: array<double>, rate: array<double>``: the Gamma posteriors of pi and lambda,
        ``rank`` components a row. E[pi] = shape / rate.
    elboHistory : the ELBO after each iteration, all terms.
    validationHistory : the held-out pairs' mean negative log likelihood after each iteration. Empty without any.
    degeneracies : what is wrong with the factors. ``str`` of each is a sentence.
    converged : whether the ELBO converged, or the held-out loss ended the fit. False if the iterations ran out before.
    elbo : the ELBO of these factors, whose users converged after the last iteration. None after no iteration.

    Examples
    --------
    >>> from dcrec_spark import PoissonFactorization
    >>> views = spark.createDataFrame([(u, i) for u in range(4) for i in range(u, 5)], "user int, item int")
    >>> model = PoissonFactorization(rank=2, maxIter=5).fit(views)
    >>> model.transform(views.limit(1)).columns
    ['user', 'item', 'a_hat']
    >>> model.release()
    """

    def __init__(
        self,
        userFactors: DataFrame,
        itemFactors: DataFrame,
        elboHistory: list[float],
        validationHistory: list[float] | None = None,
        degeneracies: list[Degeneracy] | None = None,
        converged: bool = True,
        elbo: float | None = None,
    ) -> None:
        super().__init__()
        self.userFactors = userFactors
        self.itemFactors = itemFactors
        self.elboHistory = elboHistory
        self.validationHistory = validationHistory or []
        self.degeneracies = degeneracies or []
        self.converged = converged
        self.elbo = elbo

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Add exposureCol, a_hat = E[pi_u] . E[lambda_i]. Null for an id that was not in training."""
        user, item, output = (self.getOrDefault(name) for name in ("userCol", "itemCol", "exposureCol"))
        require_columns(dataset, [user, item], [])
        require_new_columns(dataset, {"exposureCol": output})
        require_ids_alike(dataset, (user, item), (self.userFactors, self.itemFactors))
        mean = gamma_mean(F.col("shape"), F.col("rate"))
        users = self.userFactors.select(F.col("id").alias(user), mean.alias("__user_exposure"))
        items = self.itemFactors.select(F.col("id").alias(item), mean.alias("__item_exposure"))
        a_hat = dot(F.col("__user_exposure"), F.col("__item_exposure")).alias(output)
        joined = dataset.join(users, user, "left").join(items, item, "left")
        return joined.select(*map(quoted, dataset.columns), a_hat)

    def predictiveCheck(self, dataset: DataFrame, replications: int = 100, seed: int = 0) -> PredictiveCheck:
        """Whether held-out exposures look like draws from this model.

        dataset : the ``exposures`` of ``hold_out_exposures``, to whose ``training`` this model was fitted, or all rows
            of some of the users, which suffice where there are millions.
        replications : draws from the model that the real exposures are compared with, at least 20.
        seed : of the draws.

        Returns a p-value for each user, and overall. The caller releases it.
        Raises DataError: the model was fitted to other exposures, held-out ones too. ConfigError: the ids are of
        another kind than the model's.

        After Wang and Blei, arXiv 1805.06826. See :mod:`dcrec_spark.models.exposure.predictive_check`.
        """
        return check_exposures(self, dataset, replications, seed)

    def foldInUsers(self, dataset: DataFrame) -> DataFrame:
        """Fold in the exposure factors of new users from their exposures to known items.

        A training user with the exposures of training gets the fitted factors back.

        dataset : the columns of training. Pairs with unknown items are left out, and so are those that
            validationIndicatorCol marks. A user with unknown items only gets the factors of one without exposures.

        Returns ``id, shape: array<double>, rate: array<double>``. Cached. Unpersist it when done.
        Raises DataError: none of the items is known.
        """
        return self._fold_in(dataset, new_is_user=True)

    def foldInItems(self, dataset: DataFrame) -> DataFrame:
        """Fold in the exposure factors of new items from those of known users, as :meth:`foldInUsers` does."""
        return self._fold_in(dataset, new_is_user=False)

    def _fold_in(self, dataset: DataFrame, new_is_user: bool) -> DataFrame:
        get = self.getOrDefault
        names = get("userCol"), get("itemCol")
        require_columns(dataset, names, [c for c in (get("countCol"),) if c])
        require_ids_alike(dataset, names, (self.userFactors, self.itemFactors))
        dataset = observed(dataset, get("validationIndicatorCol"))
        family, known = PoissonExposure.of(self), self.itemFactors if new_is_user else self.userFactors
        settings = layout_settings(self, family.row_width, splits=new_is_user)
        with FitResources() as resources:
            frozen = {"item" if new_is_user else "user": resources.add_cached(index_ids(known, "id"))}
            layout = lay_out(
                dataset, *names, exposure_values(get("countCol")), settings, resources, frozen=frozen, new_only=True
            )
            states = fold_in(layout, new_is_user, known, family, NOTHING_SHARED, resources)
            folded = layout.table(new_is_user, states[new_is_user], family, NOTHING_SHARED).drop("idx").persist()
            folded.count()
        return folded

    def _saved(self) -> Saved:
        names = ("elboHistory", "validationHistory", "degeneracies", "converged", "elbo")
        facts = {name: as_json(getattr(self, name)) for name in names}
        return Saved({"users": self.userFactors, "items": self.itemFactors}, facts)

    @classmethod
    def _restored(cls, saved: Saved) -> "PoissonFactorizationModel":
        facts = {**saved.facts, "degeneracies": from_json(list[Degeneracy], saved.facts["degeneracies"])}
        return cls(saved.frames["users"], saved.frames["items"], **facts)

    def release(self) -> None:
        """Unpersist the cached factors. The model is of no further use."""
        self.userFactors.unpersist()
        self.itemFactors.unpersist()


def require_exposure_rank(model: PoissonFactorizationModel, rank: int) -> None:
    """Refuse to start a fit of another rank from an exposure model."""
    fitted = len(model.itemFactors.select("rate").take(1)[0]["rate"])
    if fitted != rank:
        raise ConfigError(
            f"initialModel has {fitted} exposure factors, and the exposure model's rank is {rank}: give both the same"
        )
