"""The fitted outcome model: predictions, their two parts, rankings, fold-ins, explanations."""

from contextlib import AbstractContextManager

from pyspark.ml import Model
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.certainty.intervals import predict_intervals, sure_lists
from dcrec_spark.models.certainty.overlap import overlaps_of
from dcrec_spark.models.explain.explain import explain_pairs
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.families.poisson import PoissonExposure
from dcrec_spark.models.families.registry import FAMILIES, family_of
from dcrec_spark.models.fitting.facts import OutcomeFacts
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import FittedOutcome
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.outcome.lists import RankedLists, require_exposure_model
from dcrec_spark.models.outcome.tables import POSTERIOR, FactorTables, numbered
from dcrec_spark.models.outcome.vectors import ScoringVectors, scoring_vectors
from dcrec_spark.models.persistence.mlio import Persistent, Saved
from dcrec_spark.spark.planning import few_partitions


class DeconfoundedMFModel(RankedLists, Model, Persistent):
    """A fitted outcome model, as :class:`DeconfoundedMF` makes it.

    The factors of a fit stay cached while the model, or one made from it, is referred to. The next fit releases what
    is left behind. :meth:`release` does it at once for this model.

    userFactors : ``id, features: array<double>, bias: double, gamma: double``. theta_u, ``rank`` numbers. b_u, null
        without biases, and gamma_u, which is 0 without a confounder and the same for all where it is global. With
        outcome="poisson" posterior means.
    itemFactors : ``id, features: array<double>, bias: double``. beta_i, and c_i, null without biases.
    intercept : beta_0.
    exposureModel : the stage 1 that the confounder comes from, or None.
    numUsers, numItems : rows of the factors.
    meanRating : mean of the training ratings.
    objectiveHistory : J, or the ELBO of outcome="poisson", after each sweep, all terms.
    objective : J, or the ELBO, of this model, whose users are solved after the last sweep. None after no sweep.
    validationHistory : the held-out pairs' loss after each sweep: mean squared error, with outcome="poisson" the mean
        negative log likelihood. Empty without any.
    converged : whether the objective converged, or the held-out loss ended the fit. Else the sweeps ran out.
    degeneracies : what is wrong with the factors. ``str`` of each is a sentence.

    Examples
    --------
    >>> from dcrec_spark import DeconfoundedMF
    >>> rows = [(u, i, float((u * i) % 5 + 1)) for u in range(6) for i in range(6) if (u + i) % 3]
    >>> ratings = spark.createDataFrame(rows, "user int, item int, rating double")
    >>> model = DeconfoundedMF(outcome="probabilistic", rank=2, exposureRank=2, maxIter=3).fit(ratings)
    >>> model.transform(ratings).columns
    ['user', 'item', 'rating', 'prediction']
    >>> model.write().overwrite().save("model")
    >>> DeconfoundedMFModel.load("model").numUsers
    6
    >>> model.release()

    The examples of the methods go on with such a model and its ratings.
    """

    def __init__(
        self,
        tables: FactorTables,
        facts: OutcomeFacts,
        exposureModel: PoissonFactorizationModel | None = None,
        releasesExposureModel: bool = True,
    ) -> None:
        super().__init__()
        self.facts = facts
        self.exposureModel = exposureModel
        self.numUsers, self.numItems, self.meanRating = tables.n_users, tables.n_items, facts.mean_rating
        self.objectiveHistory, self.objective = facts.fit.objective, facts.fit.final_objective
        self.validationHistory, self.converged = facts.fit.held_out, facts.fit.converged
        self.degeneracies = facts.fit.degeneracies
        self._tables = tables
        self._releases_exposure_model = releasesExposureModel

    @property
    def userFactors(self) -> DataFrame:
        """``DataFrame[id, features: array<double>, bias: double, gamma: double]``."""
        return self._tables.users.select("id", "features", "bias", "gamma")

    @property
    def itemFactors(self) -> DataFrame:
        """``DataFrame[id, features: array<double>, bias: double]``."""
        return self._tables.items.select("id", "features", "bias")

    @property
    def intercept(self) -> float:
        """beta_0, with outcome="poisson" its posterior mean."""
        return family_of(self).shared_numbers(self.facts.shared).intercept

    @property
    def globalGamma(self) -> float | None:
        """The gamma of all users, where there is one: the only one, or that which theirs depart from."""
        family = family_of(self)
        return family.shared_numbers(self.facts.shared).gamma if family.shares_gamma else None

    def tables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items with all that the model knows of them. ``idx`` numbers the rows of a side."""
        return self._tables.users, self._tables.items

    def factorTables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items with everything that is known of them, to be published.

        ``id, features, bias, slopes, covariates, (gamma,) exposure_shape, exposure_rate``: the bias is null where there
        is none, the exposure columns without a confounder.

        Examples
        --------
        >>> users, items = model.factorTables()
        >>> users.count(), items.count()
        (6, 6)
        """
        known = self.exposureModel is not None
        exposure = {name: F.when(F.lit(known), F.col(name)) for name in ("exposure_shape", "exposure_rate")}
        tables = [table.drop("idx", *POSTERIOR).withColumns(exposure) for table in self.tables()]
        return tables[0], tables[1]

    def scoringVectors(self) -> ScoringVectors:
        """Return the vectors whose inner products are the two parts of every score."""
        users, items = self.tables()
        form, weight = self.facts.form or Form(), self.getExposureWeight()
        require_exposure_model(weight, self.exposureModel is not None)
        family, baseline = family_of(self), None
        if weight > 0:
            # What lists are ordered above, without the user's bias. A model without an intercept that is fitted to
            # unrated pairs at 0 has baseline 0.
            has_level = self.getFitIntercept() or family.unobserved_weight > 0
            baseline = self.intercept if has_level else self.meanRating
        parts = family.has_biases, form, baseline
        vectors = scoring_vectors(users, True, *parts), scoring_vectors(items, False, *parts)
        return ScoringVectors(*vectors, self.numUsers, self.numItems, self.intercept, form, weight)

    def foldInUsers(self, dataset: DataFrame, features: DataFrame | None = None) -> DataFrame:
        """Fold in new users by their ratings of known items, all else as it was fitted.

        A training user with the ratings of training gets the fitted factors back.

        dataset : the columns of training. Ratings of unknown items are left out, and so are those that
            validationIndicatorCol marks. A user with unknown items only gets the factors of one without ratings: the
            priors, and what the fit takes from unobserved pairs.
        features : of the new users, as ``userFeatures`` of the fit has them. A user without features is at the mean of
            each.

        Returns ``id, features, bias, slopes, covariates, gamma, outcome_shape, outcome_rate, exposure_shape,
        exposure_rate``, to be read, or handed to :meth:`extended` or :meth:`withUsers`. Arrays that the model has no
        use for are empty. Cached. Unpersist it when done.
        Raises DataError: none of the items is known.

        Examples
        --------
        >>> newcomer = spark.createDataFrame([(9, 1, 5.0), (9, 2, 1.0)], "user int, item int, rating double")
        >>> folded = model.foldInUsers(newcomer)
        >>> model.withUsers(folded).recommendationTable(2, seen=newcomer).count()
        2
        """
        return self._fit_result().fold_in(dataset, features, new_is_user=True)

    def foldInItems(self, dataset: DataFrame, features: DataFrame | None = None) -> DataFrame:
        """Fold in new items by the ratings of known users, as :meth:`foldInUsers` does users. Items have no gamma.

        Examples
        --------
        >>> new_item = spark.createDataFrame([(0, 9, 5.0), (1, 9, 4.0)], "user int, item int, rating double")
        >>> model.extended(items=model.foldInItems(new_item)).numItems
        7
        """
        return self._fit_result().fold_in(dataset, features, new_is_user=False)

    def extended(self, users: DataFrame | None = None, items: DataFrame | None = None) -> "DeconfoundedMFModel":
        """Make a model with the users or items of a fold-in added to this one's. An id that it knows is replaced.

        The exposure model stays as it is, and so does this model, which has to outlive the new one.

        users, items : results of :meth:`foldInUsers` and :meth:`foldInItems`.

        Examples
        --------
        >>> newcomer = spark.createDataFrame([(9, 1, 5.0), (9, 2, 1.0)], "user int, item int, rating double")
        >>> model.extended(users=model.foldInUsers(newcomer)).numUsers
        7
        """
        with self._few_partitions(), FitResources() as resources:
            tables = [
                table if new is None else numbered(new, resources, table, keep=True)
                for table, new in zip(self.tables(), (users, items), strict=True)
            ]
            return self._with_tables(FactorTables.cached(tables[0], tables[1]))

    def withUsers(self, users: DataFrame) -> "DeconfoundedMFModel":
        """Make a model with the users of :meth:`foldInUsers` in place of this one's, which has to outlive it."""
        known, items = self.tables()
        with self._few_partitions(), FitResources() as resources:
            return self._with_tables(FactorTables.cached(numbered(users, resources, known, keep=False), items))

    def explain(self, pairs: DataFrame, ratings: DataFrame, n: int = 5) -> DataFrame:
        """Explain what carries each score: the user's ratings, one by one, and the confounder.

        pairs : user and item columns as in training. The pairs may be rated or not.
        ratings : the columns of training: the ratings that the users were fitted or folded in with. Ratings of other
            users, and those that validationIndicatorCol marks, are left out.
        n : reasons of each pair, at most.

        Returns ``user_id, item_id, score, preference, confounder, intercept, composition, features, baseline, reasons,
        others``. Cached. Unpersist it when done. With an exposureWeight above 0 also ``above`` and ``exposure``: lists
        are in the order of above * exposure^exposureWeight, the score above the user's baseline and the probability of
        exposure.

        reasons : array<struct<item_id, rating, contribution>>, the largest contributions by absolute value.
        others : the sum of the remaining ones.
        baseline : the preference before any rating has its say, from the unobserved pairs, the intercept or the priors.

        It adds up: score = preference + confounder + intercept, preference = user_bias + item_bias + features +
        baseline + contributions of the reasons + others, and confounder = gamma h + composition. ``composition`` is
        what the slopes on the composition of exposures make (confounder="factors"), ``features`` what those on given
        features make.

        Raises DataError: an unknown user or item, a user without ratings, or ratings by which the model would have
        other preferences than it has. Least squares weighs a user's ratings against all items: after ``extended`` with
        items, users from before have to be folded in again first. ConfigError: the family of the outcome does not take
        preferences apart.

        Examples
        --------
        >>> why = model.explain(ratings, ratings, n=2).first()
        >>> abs(why.score - (why.preference + why.confounder + why.intercept)) < 1e-9
        True
        >>> len(why.reasons)
        2
        """
        return explain_pairs(self._fit_result(), pairs, ratings, n, self.scoringVectors().exposures)

    def explainRecommendations(
        self, n_items: int, ratings: DataFrame, users: DataFrame | None = None, n: int = 3
    ) -> DataFrame:
        """:meth:`explain` for the ``n_items`` best unrated items of the known users in ``users``, or of all.

        Examples
        --------
        >>> reasons = model.explainRecommendations(1, ratings, users=ratings.where("user = 0"))
        >>> reasons.select("user_id", "item_id", reasons_text()).columns
        ['user_id', 'item_id', 'reasons_text']
        """
        ranked = self._best("user", n_items, ratings, users)
        names = {"user_id": self.getOrDefault("userCol"), "item_id": self.getOrDefault("itemCol")}
        return self.explain(ranked.select(*names).withColumnsRenamed(names), ratings, n)

    def predictIntervals(self, pairs: DataFrame, ratings: DataFrame, coverage: float = 0.9) -> DataFrame:
        """Predict potential ratings with intervals that should hold ``coverage`` of them, if the model is right.

        pairs : user and item columns as in training, such as those of a list of recommendations. Duplicates are left
            out.
        ratings : the columns of training: all ratings of the fit, and those of users that were folded in since. Those
            that validationIndicatorCol marks are left out.
        coverage : share of the intervals that should hold their rating, between 0 and 1.

        Returns ``user_id, item_id, prediction, low, high, extrapolates``, in units of the rating, not cut off at the
        ends of its scale. ``extrapolates``: whether the pair is less likely to be seen than all that the user has
        rated, by the exposure model. Null without one. Cached. Unpersist it when done.
        Raises DataError: an unknown user or item, a user without ratings, ratings of users that the model does not
        have, or ratings by which its users would be others. ConfigError: the outcome is not of least squares, or the
        fit leaves no degrees of freedom to estimate the noise.

        The half-width is z sigma sqrt(1 / w + x' A_u^-1 x + v' A_i^-1 v): the systems A that the fit solved, each with
        the other side taken as known, x and v what the pair is in them, w the mean weight of a rating. What the model
        gets wrong in kind is not in it. O(nnz K^2 + (U + I) K^3), as a sweep. Laying the ratings out anew takes longer.

        Examples
        --------
        >>> sure = model.predictIntervals(ratings, ratings, coverage=0.9)
        >>> sure.where("low < prediction AND prediction < high").count() == ratings.count()
        True
        """
        return predict_intervals(self._fit_result(), pairs, ratings, coverage)

    def sureRecommendations(
        self,
        n: int,
        ratings: DataFrame,
        seen: DataFrame | None = None,
        users: DataFrame | None = None,
        coverage: float = 0.9,
        items: DataFrame | None = None,
        maxPerCategory: int | None = None,
    ) -> DataFrame:
        """Recommend as :meth:`recommendationTable` does, with an interval of each score.

        n, seen, users, items, maxPerCategory : as for :meth:`recommendationTable`.
        ratings, coverage : as for :meth:`predictIntervals`.

        Returns ``user_id, rank, item_id, score, preference, confounder, low, high, extrapolates, odds_to_change``.
        Cached. Unpersist it when done. ``low``, ``high`` and ``extrapolates`` are those of :meth:`predictIntervals`.
        ``odds_to_change``: the first ``rank`` items may be others if some hidden reason changed the odds of choosing by
        this factor, and can't be if it changed them by less. 1 where two places are tied, null where no other item is
        left, and with an exposureWeight above 0.

        A pair that was not seen differs from one that was by a density ratio from 1 / odds to odds (marginal
        sensitivity model). That moves the mean of a normal rating by (odds - 1 / odds) phi(z) standard deviations of
        the noise at most. Here P(Z <= z) = odds / (1 + odds). The list may change where that is half of the gap to the
        next place, or, where a category is full, of the gap between its last item in the list and its next one. That
        scores are estimates themselves is not in it.

        Examples
        --------
        >>> model.sureRecommendations(1, ratings, seen=ratings).columns[-4:]
        ['low', 'high', 'extrapolates', 'odds_to_change']
        """

        def best(many: int, most: int | None) -> DataFrame:
            ranked = self.recommendationTable(many, seen, users, items, most)
            if items is None or most is None:
                return ranked
            item = quoted(self.getOrDefault("itemCol")).alias("item_id")
            return ranked.join(items.select(item, "category"), "item_id")

        return sure_lists(self._fit_result(), best, n, ratings, coverage, maxPerCategory)

    def overlap(self, ratings: DataFrame, odds: float = 2.0, side: str = "user") -> DataFrame:
        """Say how much of each user the ratings show, and what a hidden reason for choosing could do to their mean.

        ratings : the columns of training. Ratings of unknown users or items are left out, and so are those that
            validationIndicatorCol marks.
        odds : by what factor the odds of seeing an item may differ from those of the exposure model. 1: not at all.
        side : whether to say it of each "user", or of each "item" by those who rated it.

        Returns ``user_id, ratings, effective_ratings, smallest_propensity, mean_rating, mean_low, mean_high``, of items
        item_id. With p = 1 - exp(-a_hat) of each rated pair, without its own exposure: (sum 1/p)^2 / sum 1/p^2, the
        smallest p, the mean of the ratings weighted by 1/p, and its bounds. Weights are at most 1000. Users and items
        without ratings have no row. Cached. Unpersist it when done.
        Raises ConfigError: the model has no exposure model.

        Examples
        --------
        >>> seen = model.overlap(ratings)
        >>> seen.where("effective_ratings <= ratings").count()
        6
        """
        return overlaps_of(self._fit_result(), ratings, odds, [side])[0]

    def overlaps(self, ratings: DataFrame, odds: float = 2.0) -> tuple[DataFrame, DataFrame]:
        """Say of the users, and of the items, what :meth:`overlap` says of a side. The ratings are laid out once."""
        users, items = overlaps_of(self._fit_result(), ratings, odds, ["user", "item"])
        return users, items

    def release(self) -> None:
        """Unpersist the cached factors. The model is of no further use. An exposure model given to the fit stays."""
        self._tables.release()
        if self.exposureModel is not None and self._releases_exposure_model:
            self.exposureModel.release()

    def _fit_result(self) -> FittedOutcome:
        family, given = self.facts.covariates.of_family(family_of(self), self.facts.form), self.exposureModel
        stage_one = (None, None) if given is None else (PoissonExposure.of(given), given.getCountCol())
        return FittedOutcome(self, family, self.facts, *self.tables(), *stage_one)

    def _few_partitions(self) -> AbstractContextManager[None]:
        settings = layout_settings(self, family_of(self).row_width)
        size = settings.bytes_of(self.numUsers + self.numItems)
        return few_partitions(self._tables.users.sparkSession, size)

    def _with_tables(self, tables: FactorTables) -> "DeconfoundedMFModel":
        model = DeconfoundedMFModel(tables, self.facts, self.exposureModel, releasesExposureModel=False)
        return self._copyValues(model)

    def _saved(self) -> Saved:
        users, items = self.tables()
        parts = {"exposureModel": self.exposureModel} if self.exposureModel is not None else {}
        counts = {"numUsers": self.numUsers, "numItems": self.numItems}
        return Saved({"users": users, "items": items}, {**self.facts.as_json(type(family_of(self))), **counts}, parts)

    @classmethod
    def _restored(cls, saved: Saved) -> "DeconfoundedMFModel":
        users, items, facts = saved.frames["users"], saved.frames["items"], saved.facts
        tables = FactorTables(users, items, facts["numUsers"], facts["numItems"], (users, items))
        family = FAMILIES[saved.params["outcome"]]
        return cls(tables, OutcomeFacts.from_json(facts, family), saved.parts.get("exposureModel"))
