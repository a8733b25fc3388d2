"""The fitted outcome model: predictions, their two parts, and rankings."""

from pyspark.ml import Model
from pyspark.ml.param.shared import HasPredictionCol
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.exposure import PoissonFactorizationModel
from dcrec_spark.models.factors import dot, gamma_mean
from dcrec_spark.models.layout import require_columns
from dcrec_spark.models.params import OutcomeParams
from dcrec_spark.models.recommend import Ranking, rank

_OTHER = {"user": "item", "item": "user"}


class DeconfoundedMFModel(Model, OutcomeParams, HasPredictionCol):
    """A fitted outcome model.

    userFactors : DataFrame[id, features: array<double>, gamma: double]; gamma is 0 without adjustment.
    itemFactors : DataFrame[id, features: array<double>].
    intercept : beta_0. objectiveHistory : J after each sweep, all terms. meanRating : of the training ratings.
    exposureModel : the stage 1 that the confounder comes from, or None.
    """

    def __init__(
        self,
        users: DataFrame,
        items: DataFrame,
        intercept: float,
        exposureModel: PoissonFactorizationModel | None,
        objectiveHistory: list[float],
        meanRating: float,
        ownsExposureModel: bool = True,
    ) -> None:
        super().__init__()
        self._users = _with_exposure(users, exposureModel.userFactors if exposureModel else None)
        self._items = _with_exposure(items, exposureModel.itemFactors if exposureModel else None)
        self.intercept = intercept
        self.exposureModel = exposureModel
        self.objectiveHistory = objectiveHistory
        self.meanRating = meanRating
        self._owns_exposure_model = ownsExposureModel
        self.numUsers = 0
        self.numItems = 0

    def materialised(self) -> "DeconfoundedMFModel":
        """Compute and cache the factors, so that what they were fitted from can be let go."""
        self._users, self._items = self._users.persist(), self._items.persist()
        self.numUsers, self.numItems = self._users.count(), self._items.count()
        return self

    def release(self) -> None:
        """Let go of the cached factors; the model is of no further use. An exposure model given to the fit stays."""
        self._users.unpersist()
        self._items.unpersist()
        if self.exposureModel is not None and self._owns_exposure_model:
            self.exposureModel.release()

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
        return self._users.drop("idx").withColumns(exposure), self._items.drop("idx").withColumns(exposure)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds predictionCol and, where they are set, preferenceCol and confounderCol.

        An id that was not in training gets NaN, or its row is dropped, or it gets the mean rating
        (coldStartStrategy).
        """
        get = self.getOrDefault
        require_columns(dataset, [get("userCol"), get("itemCol")], [])
        users = _scoring(self._users, "user").drop("idx").withColumnsRenamed(_renamed("user", get("userCol")))
        items = _scoring(self._items, "item").drop("idx").withColumnsRenamed(_renamed("item", get("itemCol")))
        joined = dataset.join(users, get("userCol"), "left").join(items, get("itemCol"), "left")
        preference = dot(F.col("__user_preference"), F.col("__item_preference"))
        confounder = dot(F.col("__user_confounder"), F.col("__item_confounder"))
        prediction = preference + confounder + F.lit(self.intercept)
        outputs = [(get("predictionCol"), prediction, self.meanRating)]
        outputs += [(get(c), part, 0.0) for c, part in _parts(preference, confounder) if get(c)]
        cold = get("coldStartStrategy")
        columns = [
            F.coalesce(value, F.lit(mean if cold == "mean" else float("nan"))).alias(name)
            for name, value, mean in outputs
        ]
        if cold == "drop":
            joined = joined.where(F.col("__user_preference").isNotNull() & F.col("__item_preference").isNotNull())
        return joined.select(*[F.col(f"`{c}`") for c in dataset.columns], *columns)

    def recommendationTable(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """The n best items of every user by potential rating, one row per (user, rank).

        seen : user and item columns as in training, pairs to leave out; None ranks all items.

        Returns DataFrame[user_id, rank, item_id, score, preference, confounder]; the score is the sum of its two
        parts and the intercept. A user with fewer than n items left has fewer rows.
        """
        return self._rank("user", self._users, n, seen)

    def recommendForAllUsers(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """As MLlib's ALS: DataFrame[user, recommendations: array<struct<item, rating>>], best first."""
        return self._as_arrays("user", self.recommendationTable(n, seen))

    def recommendForUserSubset(self, dataset: DataFrame, n: int, seen: DataFrame | None = None) -> DataFrame:
        """Like recommendForAllUsers, for the known users among those of ``dataset``'s user column."""
        user = self.getOrDefault("userCol")
        require_columns(dataset, [user], [])
        chosen = self._users.join(dataset.select(F.col(user).alias("id")).distinct(), "id", "left_semi")
        return self._as_arrays("user", self._rank("user", chosen, n, seen))

    def recommendForAllItems(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """As MLlib's ALS: DataFrame[item, recommendations: array<struct<user, rating>>], best first."""
        return self._as_arrays("item", self._rank("item", self._items, n, seen))

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

    def _seen_idx(self, seen: DataFrame, names: dict[str, str]) -> DataFrame:
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        require_columns(seen, [user, item], [])
        users = self._users.select(F.col("id").alias(user), F.col("idx").alias(names["user"]))
        items = self._items.select(F.col("id").alias(item), F.col("idx").alias(names["item"]))
        return seen.select(user, item).join(users, user).join(items, item).select("row_idx", "col_idx")

    def _as_arrays(self, side: str, table: DataFrame) -> DataFrame:
        columns = {"user": self.getOrDefault("userCol"), "item": self.getOrDefault("itemCol")}
        other = _OTHER[side]
        ranked = F.array_sort(F.collect_list(F.struct("rank", f"{other}_id", "score")))
        entry = F.transform(
            ranked,
            lambda r: F.struct(r[f"{other}_id"].alias(columns[other]), r["score"].cast("float").alias("rating")),
        )
        return table.groupBy(F.col(f"{side}_id").alias(columns[side])).agg(entry.alias("recommendations"))


def _with_exposure(factors: DataFrame, exposure: DataFrame | None) -> DataFrame:
    """The factors with ``exposure_shape, exposure_rate`` beside them; empty arrays where there is no exposure model."""
    if exposure is None:
        empty = F.expr("cast(array() as array<double>)")
        return factors.withColumns({"exposure_shape": empty, "exposure_rate": empty})
    named = exposure.select("id", F.col("shape").alias("exposure_shape"), F.col("rate").alias("exposure_rate"))
    return factors.join(named, "id").select(*factors.columns, "exposure_shape", "exposure_rate")


def _scoring(factors: DataFrame, side: str) -> DataFrame:
    """``idx, id, preference, confounder``: the vectors whose products are the two parts of a score."""
    confounder = gamma_mean(F.col("exposure_shape"), F.col("exposure_rate"))
    if side == "user":
        confounder = F.transform(confounder, lambda x: x * F.col("gamma"))
    return factors.select("idx", "id", F.col("features").alias("preference"), confounder.alias("confounder"))


def _renamed(side: str, id_column: str) -> dict[str, str]:
    return {"id": id_column, "preference": f"__{side}_preference", "confounder": f"__{side}_confounder"}


def _parts(preference: Column, confounder: Column) -> list[tuple[str, Column]]:
    return [("preferenceCol", preference), ("confounderCol", confounder)]
