"""The fitted outcome model: predictions, their two parts, and rankings."""

from contextlib import AbstractContextManager, ExitStack

from pyspark.ml import Model
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import index_ids
from dcrec_spark.data.quoting import quoted
from dcrec_spark.models.explain.explain import explain_pairs
from dcrec_spark.models.exposure.estimator import PoissonFactorizationModel
from dcrec_spark.models.fitting.factors import dot, gamma_mean
from dcrec_spark.models.fitting.layout import layout_settings, require_columns, require_new_columns
from dcrec_spark.models.fitting.restarts import require_ids_alike, require_same_ids
from dcrec_spark.models.outcome.fold_in import fold_in_rows, row_width, with_exposure
from dcrec_spark.models.outcome.rank import Ranking, rank
from dcrec_spark.models.outcome.tables import POSTERIOR, Facts
from dcrec_spark.models.params import OutcomeParams
from dcrec_spark.models.persistence.mlio import Persistent, Saved
from dcrec_spark.spark.lineage import cache_while_used
from dcrec_spark.spark.planning import few_partitions

_OTHER = {"user": "item", "item": "user"}


class DeconfoundedMFModel(Model, OutcomeParams, Persistent):
    """A fitted outcome model.

    userFactors : DataFrame[id, features: array<double>, gamma: double]; gamma is 0 without adjustment, and the same for
    all users where it is global. itemFactors : DataFrame[id, features: array<double>]. With outcome="poisson" all of
    them are posterior means.
    intercept : beta_0. objectiveHistory : J, or the ELBO of outcome="poisson", after each sweep, all terms.
    validationHistory : the held-out pairs' loss after each sweep (mean squared error; Poisson: mean negative log
    likelihood), empty without any. degeneracies : what is wrong with the factors, in sentences.
    meanRating : of the training ratings. exposureModel : the stage 1 that the confounder comes from, or None.

    The factors of a fit stay cached while the model, or one made from it, is referred to; the next fit lets go of what
    is left behind, :meth:`release` of this model at once.
    """

    def __init__(
        self,
        users: DataFrame,
        items: DataFrame,
        facts: Facts,
        exposureModel: PoissonFactorizationModel | None,
        owned: bool = True,
    ) -> None:
        super().__init__()
        self._users, self._items = users, items
        self.facts = facts
        self.exposureModel = exposureModel
        self._owns_exposure_model = owned
        self._own_tables = [users, items]
        self.numUsers = 0
        self.numItems = 0

    @classmethod
    def fitted(
        cls,
        users: DataFrame,
        items: DataFrame,
        facts: Facts,
        exposureModel: PoissonFactorizationModel | None,
        owned: bool = True,
    ) -> "DeconfoundedMFModel":
        """From the tables of :func:`fitted_outcome`; the exposure model's factors are put beside them.

        owned : whether releasing this model releases the exposure model too.
        """
        users = with_exposure(users, exposureModel.userFactors if exposureModel else None)
        items = with_exposure(items, exposureModel.itemFactors if exposureModel else None)
        return cls(users, items, facts, exposureModel, owned)

    @property
    def intercept(self) -> float:
        """beta_0."""
        return self.facts.intercept

    @property
    def objectiveHistory(self) -> list[float]:
        """J, or the ELBO, after each sweep."""
        return self.facts.objective

    @property
    def validationHistory(self) -> list[float]:
        """The held-out pairs' loss after each sweep."""
        return self.facts.held_out

    @property
    def degeneracies(self) -> list[str]:
        """What is wrong with the factors, in sentences."""
        return self.facts.degeneracies

    @property
    def meanRating(self) -> float:
        """Of the training ratings."""
        return self.facts.mean_rating

    def tables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items with all that the model knows of them; ``idx`` numbers the rows of a side."""
        return self._users, self._items

    def materialised(self) -> "DeconfoundedMFModel":
        """Compute and cache the factors, so that what they were fitted from can be let go."""
        # A table that is cached already is another model's, which goes on with it when this one is released.
        self._own_tables = [table for table in self.tables() if not table.is_cached]
        self._users, self._items = cache_while_used(self._users), cache_while_used(self._items)
        self.numUsers, self.numItems = self._users.count(), self._items.count()
        return self

    def release(self) -> None:
        """Let go of the cached factors; the model is of no further use. An exposure model given to the fit stays."""
        for table in self._own_tables:
            table.unpersist()
        if self.exposureModel is not None and self._owns_exposure_model:
            self.exposureModel.release()

    def _saved(self) -> Saved:
        parts = {"exposureModel": self.exposureModel} if self.exposureModel is not None else {}
        counts = {"numUsers": self.numUsers, "numItems": self.numItems}
        return Saved({"users": self._users, "items": self._items}, {**self.facts.as_json(), **counts}, parts)

    @classmethod
    def _restored(cls, saved: Saved) -> "DeconfoundedMFModel":
        frames = saved.frames["users"], saved.frames["items"]
        model = cls(*frames, Facts.from_json(saved.facts), saved.parts.get("exposureModel"))
        model.numUsers, model.numItems = saved.facts["numUsers"], saved.facts["numItems"]
        return model

    @property
    def userFactors(self) -> DataFrame:
        """DataFrame[id, features: array<double>, gamma: double]."""
        return self._users.select("id", "features", "gamma")

    @property
    def itemFactors(self) -> DataFrame:
        """DataFrame[id, features: array<double>]."""
        return self._items.select("id", "features")

    def factorTables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items with everything that is known of them, to be published.

        DataFrame[id, features, (gamma,) exposure_shape, exposure_rate]; the exposure columns are null without
        adjustment.
        """
        known = self.exposureModel is not None
        exposure = {name: F.when(F.lit(known), F.col(name)) for name in ("exposure_shape", "exposure_rate")}
        tables = [table.drop("idx", *POSTERIOR).withColumns(exposure) for table in self.tables()]
        return tables[0], tables[1]

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds predictionCol and, where they are set, preferenceCol and confounderCol.

        An id that was not in training gets NaN, or its row is dropped, or it gets the mean rating
        (coldStartStrategy).
        """
        get = self.getOrDefault
        require_columns(dataset, [get("userCol"), get("itemCol")], [])
        outputs = {c: get(c) for c in ("predictionCol", "preferenceCol", "confounderCol") if get(c)}
        require_new_columns(dataset, outputs)
        require_ids_alike(dataset, (get("userCol"), get("itemCol")), self.tables())
        users = _scoring(self._users, "user").drop("idx").withColumnsRenamed(_renamed("user", get("userCol")))
        items = _scoring(self._items, "item").drop("idx").withColumnsRenamed(_renamed("item", get("itemCol")))
        joined = dataset.join(users, get("userCol"), "left").join(items, get("itemCol"), "left")
        preference = dot(F.col("__user_preference"), F.col("__item_preference"))
        confounder = dot(F.col("__user_confounder"), F.col("__item_confounder"))
        values = {
            "predictionCol": (preference + confounder + F.lit(self.intercept), self.meanRating),
            "preferenceCol": (preference, 0.0),
            "confounderCol": (confounder, 0.0),
        }
        cold = get("coldStartStrategy")
        columns = [
            F.coalesce(value, F.lit(mean if cold == "mean" else float("nan"))).alias(outputs[param])
            for param, (value, mean) in values.items()
            if param in outputs
        ]
        if cold == "drop":
            joined = joined.where(F.col("__user_preference").isNotNull() & F.col("__item_preference").isNotNull())
        return joined.select(*map(quoted, dataset.columns), *columns)

    def foldInUsers(self, dataset: DataFrame) -> DataFrame:
        """New users from their ratings of known items, other things as they were fitted.

        dataset : the columns of training. Ratings of unknown items are left out, and so are those that
        validationIndicatorCol marks; a user of whom only unknown items are told gets the factors of one who has rated
        nothing: the priors, and what the fit takes from unobserved pairs. A training user with his own ratings gets his
        factors back. The result is cached; unpersist it when done.

        Returns DataFrame[id, features, gamma, exposure_shape, exposure_rate, outcome_shape, outcome_rate], to be
        read, or handed to :meth:`extended`; arrays that the model has no use for are empty.
        """
        return fold_in_rows(self, dataset, "user")

    def foldInItems(self, dataset: DataFrame) -> DataFrame:
        """New items from the ratings of known users: the mirror image of foldInUsers, without gamma."""
        return fold_in_rows(self, dataset, "item")

    def extended(self, users: DataFrame | None = None, items: DataFrame | None = None) -> "DeconfoundedMFModel":
        """This model with the users or items of a fold-in among its own; an id that it knows is replaced.

        The exposure model stays as it is, and so does this model, which has to outlive the new one.
        """
        with ExitStack() as scratch:
            scratch.enter_context(self._few_partitions())
            own_and_new = (self._users, users), (self._items, items)
            tables = [table if new is None else _united(table, new, scratch) for table, new in own_and_new]
            model = DeconfoundedMFModel(tables[0], tables[1], self.facts, self.exposureModel, owned=False)
            return self._copyValues(model.materialised())

    def withUsers(self, users: DataFrame) -> "DeconfoundedMFModel":
        """This model with the users of a fold-in in place of its own; this one stays, and has to outlive it."""
        with ExitStack() as scratch:
            scratch.enter_context(self._few_partitions())
            rows = _numbered(users.select(*_but_idx(self._users)), scratch)
            model = DeconfoundedMFModel(rows, self._items, self.facts, self.exposureModel, owned=False)
            return self._copyValues(model.materialised())

    def _few_partitions(self) -> AbstractContextManager[None]:
        """Shuffles inside are of tables about as large as this model's."""
        size = layout_settings(self, row_width(self)).bytes_of({"user": self.numUsers, "item": self.numItems})
        return few_partitions(self._users.sparkSession, size)

    def recommendationTable(self, n: int, seen: DataFrame | None = None, users: DataFrame | None = None) -> DataFrame:
        """The n best items of every user by potential rating, one row per (user, rank).

        seen : user and item columns as in training, pairs to leave out; None ranks all items.
        users : user column as in training; only the known ones among them get recommendations.

        Returns DataFrame[user_id, rank, item_id, score, preference, confounder]; the score is the sum of its two
        parts and the intercept. A user with fewer than n items left has fewer rows.
        """
        return self._rank("user", self._users if users is None else self._chosen(users), n, seen)

    def recommendForAllUsers(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """As MLlib's ALS: DataFrame[user, recommendations: array<struct<item, rating>>], best first."""
        return self._as_arrays("user", self.recommendationTable(n, seen))

    def recommendForUserSubset(self, dataset: DataFrame, n: int, seen: DataFrame | None = None) -> DataFrame:
        """Like recommendForAllUsers, for the known users among those of ``dataset``'s user column."""
        return self._as_arrays("user", self._rank("user", self._chosen(dataset), n, seen))

    def recommendForAllItems(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """As MLlib's ALS: DataFrame[item, recommendations: array<struct<user, rating>>], best first."""
        return self._as_arrays("item", self._rank("item", self._items, n, seen))

    def explain(self, pairs: DataFrame, ratings: DataFrame, n: int = 5) -> DataFrame:
        """What carries each score: the user's own ratings, one by one, and the confounder.

        pairs : users and items, rated or not. ratings : those that the users were fitted or folded in with; the ratings
        of other users, and those that validationIndicatorCol marks, are left out. Both have the columns of training.
        n : reasons of each pair, at most.

        Returns DataFrame[user_id, item_id, score, preference, confounder, intercept, baseline, reasons:
        array<struct<item_id, rating, contribution>>, others], cached; unpersist it when done. It adds up:

            score = preference + confounder + intercept
            preference = baseline + contributions of the reasons + others

        reasons : the largest contributions, by absolute value. others : the sum of the remaining ones. baseline : the
        preference before any rating has its say: what the unobserved pairs, the intercept or the priors contribute.

        Raises DataError for an unknown user or item, a user without ratings, and ratings by which the model would have
        other preferences than it has. Least squares weighs a user's ratings against all items: after ``extended`` with
        items, users from before have to be folded in again first.
        """
        return explain_pairs(self, pairs, ratings, n)

    def explainRecommendations(
        self, n_items: int, ratings: DataFrame, users: DataFrame | None = None, n: int = 3
    ) -> DataFrame:
        """:meth:`explain` for the ``n_items`` best unrated items of the known users in ``users``, or of all."""
        ranked = self._rank("user", self._users if users is None else self._chosen(users), n_items, ratings)
        names = {"user_id": self.getOrDefault("userCol"), "item_id": self.getOrDefault("itemCol")}
        return self.explain(ranked.select(*names).withColumnsRenamed(names), ratings, n)

    def recommendForItemSubset(self, dataset: DataFrame, n: int, seen: DataFrame | None = None) -> DataFrame:
        """Recommend the n best users for each known item of ``dataset``, as MLlib's ALS does.

        Parameters
        ----------
        dataset : DataFrame
            Has the item column of training; duplicates and unknown items are left out.
        n : int
            Users for each item, at most.
        seen : DataFrame, optional
            User and item columns as in training: pairs to leave out.

        Returns
        -------
        DataFrame
            ``item, recommendations: array<struct<user, rating>>``, best first, under the columns' names of training.
        """
        return self._as_arrays("item", self._rank("item", self._chosen(dataset, "item"), n, seen))

    def _rank(self, side: str, rows: DataFrame, n: int, seen: DataFrame | None) -> DataFrame:
        """The n best of the other side for each of ``rows``: user_id, rank, item_id, score and its parts."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n: found {n!r}, expected a whole number of recommendations >= 1")
        other = _OTHER[side]
        cols, counts = {"user": self._users, "item": self._items}[other], {"user": self.numUsers, "item": self.numItems}
        what = Ranking(
            _scoring(rows, side).drop("id"),
            _scoring(cols, other).drop("id"),
            counts[side],
            counts[other],
            self.intercept,
        )
        names = {side: "row_idx", other: "col_idx"}
        ranked = rank(what, n, None if seen is None else self._seen_idx(seen, names))
        for name, table in ((side, rows), (other, cols)):
            ids = table.select(F.col("idx").alias(names[name]), F.col("id").alias(f"{name}_id"))
            ranked = ranked.join(ids, names[name])
        return ranked.select("user_id", "rank", "item_id", "score", "preference", "confounder")

    def _chosen(self, dataset: DataFrame, side: str = "user") -> DataFrame:
        """The rows of the known users or items that ``dataset`` names."""
        column, table = self.getOrDefault(f"{side}Col"), {"user": self._users, "item": self._items}[side]
        require_columns(dataset, [column], [])
        wanted = dataset.select(quoted(column).alias("id")).distinct()
        require_same_ids(side, wanted, table)
        return table.join(wanted, "id", "left_semi")

    def _seen_idx(self, seen: DataFrame, names: dict[str, str]) -> DataFrame:
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        require_columns(seen, [user, item], [])
        require_ids_alike(seen, (user, item), self.tables())
        users = self._users.select(F.col("id").alias(user), F.col("idx").alias(names["user"]))
        items = self._items.select(F.col("id").alias(item), F.col("idx").alias(names["item"]))
        return seen.select(quoted(user), quoted(item)).join(users, user).join(items, item).select("row_idx", "col_idx")

    def _as_arrays(self, side: str, table: DataFrame) -> DataFrame:
        columns = {"user": self.getOrDefault("userCol"), "item": self.getOrDefault("itemCol")}
        other = _OTHER[side]
        ranked = F.array_sort(F.collect_list(F.struct("rank", f"{other}_id", "score")))
        entry = F.transform(
            ranked,
            lambda r: F.struct(r[f"{other}_id"].alias(columns[other]), r["score"].cast("float").alias("rating")),
        )
        return table.groupBy(F.col(f"{side}_id").alias(columns[side])).agg(entry.alias("recommendations"))


def _united(table: DataFrame, new: DataFrame, until: ExitStack) -> DataFrame:
    """Both tables' rows, numbered anew; of an id in both the new row."""
    columns = _but_idx(table)
    rows = table.join(new.select("id"), "id", "left_anti").select(*columns)
    return _numbered(rows.unionByName(new.select(*columns)), until)


def _numbered(rows: DataFrame, until: ExitStack) -> DataFrame:
    ids = index_ids(rows, "id")
    until.callback(ids.unpersist)
    return rows.join(ids, "id").select("idx", *rows.columns)


def _but_idx(table: DataFrame) -> list[str]:
    return [c for c in table.columns if c != "idx"]


def _scoring(factors: DataFrame, side: str) -> DataFrame:
    """``idx, id, preference, confounder``: the vectors whose products are the two parts of a score."""
    confounder = gamma_mean(F.col("exposure_shape"), F.col("exposure_rate"))
    if side == "user":
        confounder = F.transform(confounder, lambda x: x * F.col("gamma"))
    return factors.select("idx", "id", F.col("features").alias("preference"), confounder.alias("confounder"))


def _renamed(side: str, id_column: str) -> dict[str, str]:
    return {"id": id_column, "preference": f"__{side}_preference", "confounder": f"__{side}_confounder"}
