"""Recommendation lists of a fitted outcome model: a row for each place, or as MLlib's ALS returns them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.exposure import PLAIN
from dcrec_spark.kernels.topn import Link
from dcrec_spark.models.fitting import checks
from dcrec_spark.models.fitting.factors import dot, list_array, matrix_of
from dcrec_spark.models.fitting.facts import NOTHING
from dcrec_spark.models.outcome.vectors import Offer, ScoringVectors, in_front_and_linked
from dcrec_spark.models.params import OutcomeParams
from dcrec_spark.spark.compat import collect_arrow

Similarity = Literal["cosine", "inner_product"]
_OTHER = {"user": "item", "item": "user"}
# Users by whom the mean of a link is taken: its error is a fraction of that of the scores.
SAMPLE = 2048


def require_exposure_model(exposure_weight: float, has_exposure: bool) -> None:
    """Refuse to order lists by the probability of exposure where nothing says what it is."""
    if exposure_weight > 0 and not has_exposure:
        raise ConfigError(
            f"exposureWeight: found {exposure_weight:g}, expected 0: the model has no exposure model; "
            "adjustment=deconfounded has one"
        )


class RankedLists(OutcomeParams):
    """Methods of a fitted model that need its scoring vectors and factors alone.

    Each raises DataError for a frame that lacks a column, ConfigError for ids of another kind than those of the model,
    and ValueError for numbers of items that are no whole numbers >= 1.
    """

    numItems: int
    numUsers: int
    meanRating: float

    @property
    @abstractmethod
    def intercept(self) -> float:
        """beta_0."""

    @abstractmethod
    def tables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items with all that the model knows of them."""

    @abstractmethod
    def scoringVectors(self) -> ScoringVectors:
        """Return the vectors whose inner products are the two parts of every score."""

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Add predictionCol. An unknown id gets NaN or the mean rating, or its row is dropped (coldStartStrategy)."""
        return self._predict(dataset, [])

    def predictParts(self, dataset: DataFrame) -> DataFrame:
        """Predict as :meth:`transform` does, and add the two parts of each prediction.

        dataset : user and item columns as in training.

        Returns ``dataset`` with predictionCol, which is preference + confounder + intercept. ``preference``: the inner
        product theta . beta, the biases, and the slopes on given features. ``confounder``: gamma times the substitute
        confounder, and the slopes on the composition of exposures. Where coldStartStrategy gives an unknown id the mean
        rating, both parts are 0.

        Examples
        --------
        >>> model.predictParts(ratings).columns
        ['user', 'item', 'rating', 'prediction', 'preference', 'confounder']
        """
        return self._predict(dataset, ["preference", "confounder"])

    def _predict(self, dataset: DataFrame, parts: list[str]) -> DataFrame:
        get = self.getOrDefault
        user, item, cold = get("userCol"), get("itemCol"), get("coldStartStrategy")
        checks.require_columns(dataset, [user, item], [])
        outputs = {"prediction": get("predictionCol"), **{part: part for part in parts}}
        checks.require_new_columns(dataset, {"predictionCol": outputs["prediction"], **{part: part for part in parts}})
        checks.require_ids_alike(dataset, (user, item), self.tables())
        joined, preference, confounder = self.scoringVectors().join(dataset, user, item)
        values = {
            "prediction": (preference + confounder + F.lit(self.intercept), self.meanRating),
            "preference": (preference, 0.0),
            "confounder": (confounder, 0.0),
        }
        columns = [
            F.coalesce(values[name][0], F.lit(values[name][1] if cold == "mean" else float("nan"))).alias(column)
            for name, column in outputs.items()
        ]
        if cold == "drop":
            joined = joined.where(F.col("__user_preference").isNotNull() & F.col("__item_preference").isNotNull())
        return joined.select(*map(quoted, dataset.columns), *columns)

    def recommendationTable(
        self,
        n: int,
        seen: DataFrame | None = None,
        users: DataFrame | None = None,
        items: DataFrame | None = None,
        maxPerCategory: int | None = None,
    ) -> DataFrame:
        """Return the n best items of every user by potential rating, one row for each place of each user's list.

        With ``exposureWeight`` above 0 the rank is by (score - the user's baseline) * P(exposure)^exposureWeight, and
        the score stays the potential rating.

        n : items for each user. A user with fewer items left has fewer rows.
        seen : user and item columns as in training: pairs to leave out. Without it all items are ranked.
        users : user column as in training. Only the known users among them get recommendations.
        items : item column as in training: what may be recommended, each item once. Without it all items may.
        maxPerCategory : items of one category in a list, at most, by a column ``category`` of ``items``. An item
            without one is of none. Lists are ranked as deep as it takes to fill them.

        Returns ``user_id, rank, item_id, score, preference, confounder``, rank from 1. The score is the sum of its two
        parts and the intercept.

        Examples
        --------
        >>> best = model.recommendationTable(2, seen=ratings)
        >>> best.where("user_id = 0").select("user_id", "rank").orderBy("rank").collect()
        [Row(user_id=0, rank=1), Row(user_id=0, rank=2)]
        """
        return self._best("user", n, seen, users, self._offer(items, maxPerCategory))

    def fallbackTable(self, n: int, items: DataFrame | None = None, maxPerCategory: int | None = None) -> DataFrame:
        """Return one list for users without ratings: the items with the largest mean potential rating of all users.

        n : items of the list.
        items, maxPerCategory : as :meth:`recommendationTable` has them.

        Returns ``rank, item_id, score, preference, confounder``, rank from 1. The score is the mean over users, exposed
        or not, of what they would rate the item.

        Examples
        --------
        >>> model.fallbackTable(3).columns
        ['rank', 'item_id', 'score', 'preference', 'confounder']
        """
        return fallback(self.scoringVectors(), n, self._offer(items, maxPerCategory))

    def similarItems(self, n: int, similarity: Similarity = "cosine", items: DataFrame | None = None) -> DataFrame:
        """Return the n items most like each item, by their preference factors.

        n : items for each item, at most.
        similarity : what is compared: the direction of the factors ("cosine"), or their inner product
            ("inner_product").
        items : item column as in training: what may be named as similar.

        Returns ``item_id, rank, similar_item_id, similarity``, rank from 1.

        Examples
        --------
        >>> model.similarItems(2).where("item_id = 0").count()
        2
        """
        table = self.tables()[1].select("idx", "id", "features")
        return similar(table, self.numItems, n, similarity, self._offer(items, None))

    def similarUsers(self, n: int, similarity: Similarity = "cosine") -> DataFrame:
        """Return the n users most like each user, as :meth:`similarItems` does: every two users are compared."""
        table = self.tables()[0].select("idx", "id", "features")
        return similar(table, self.numUsers, n, similarity, None, "user")

    def recommendForAllUsers(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """Return the n best items of every user, as MLlib's ALS returns them. See :meth:`recommendationTable`.

        Returns ``user, recommendations: array<struct<item, rating>>``, best first. Ids under the names of training.

        Examples
        --------
        >>> model.recommendForAllUsers(2, seen=ratings).columns
        ['user', 'recommendations']
        """
        return self._lists("user", n, seen, None)

    def recommendForUserSubset(self, dataset: DataFrame, n: int, seen: DataFrame | None = None) -> DataFrame:
        """:meth:`recommendForAllUsers` for the known users among those of ``dataset``."""
        return self._lists("user", n, seen, dataset)

    def recommendForAllItems(self, n: int, seen: DataFrame | None = None) -> DataFrame:
        """Return the n users who would like an item best, for every item, as :meth:`recommendForAllUsers` does."""
        return self._lists("item", n, seen, None)

    def recommendForItemSubset(self, dataset: DataFrame, n: int, seen: DataFrame | None = None) -> DataFrame:
        """:meth:`recommendForAllItems` for the known items among those of ``dataset``."""
        return self._lists("item", n, seen, dataset)

    def _best(
        self, side: str, n: int, seen: DataFrame | None, subset: DataFrame | None = None, offer: Offer | None = None
    ) -> DataFrame:
        chosen = None if subset is None else self._ids_of(subset, side)
        left_out = None if seen is None else self._pairs_of(seen)
        return self.scoringVectors().best(n, left_out, chosen, side, offer)

    def _lists(self, side: str, n: int, seen: DataFrame | None, subset: DataFrame | None) -> DataFrame:
        chosen = None if subset is None else self._ids_of(subset, side)
        names = {"user": self.getOrDefault("userCol"), "item": self.getOrDefault("itemCol")}
        seen = None if seen is None else self._pairs_of(seen)
        return self.scoringVectors().lists(n, seen, chosen, side, names)

    def _offer(self, items: DataFrame | None, most: int | None) -> Offer | None:
        if most is not None:
            checks.require_number("maxPerCategory", most)
            if items is None:
                raise ValueError("maxPerCategory: expected items with a column 'category', found none")
        if items is None:
            return None
        if most is None:
            return Offer(self._ids_of(items, "item"))
        checks.require_columns(items, [self.getOrDefault("itemCol"), "category"], [])
        self._ids_of(items, "item")
        return Offer(items.select(quoted(self.getOrDefault("itemCol")).alias("id"), "category"), most)

    def _ids_of(self, dataset: DataFrame, side: str) -> DataFrame:
        """Return the distinct users or items that a frame names, in a column ``id``."""
        column, table = self.getOrDefault(f"{side}Col"), dict(zip(_OTHER, self.tables(), strict=True))[side]
        checks.require_columns(dataset, [column], [])
        ids = dataset.select(quoted(column).alias("id")).distinct()
        checks.require_same_ids(side, ids, table)
        return ids

    def _pairs_of(self, seen: DataFrame) -> DataFrame:
        """``user_id, item_id`` of a frame with the columns of training."""
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        checks.require_columns(seen, [user, item], [])
        checks.require_ids_alike(seen, (user, item), self.tables())
        return seen.select(quoted(user).alias("user_id"), quoted(item).alias("item_id"))


def fallback(vectors: ScoringVectors, n: int, offer: Offer | None) -> DataFrame:
    """Rank the items for users without ratings, by the mean potential rating of all users.

        score_i = E[theta] . beta_i + E[gamma pi] . lambda_i + intercept

    All users count, exposed or not. So the items that are merely seen most do not come first. The mean of a link of
    a_hat is that of up to ``SAMPLE`` users.
    """
    checks.require_number("n", n)
    if not vectors.form.is_low_rank:
        vectors = _with_means_of_link(vectors)
    parts = ["preference", "confounder", *(["exposure"] if vectors.exposure_weight else [])]
    mean: list[int | list[float]] = [0, 0]
    for part in parts:
        by_place = vectors.users.select(F.posexplode(part)).groupBy("pos").agg(F.avg("col").alias("mean"))
        mean.append([float(row["mean"]) for row in by_place.orderBy("pos").collect()])
    schema = ", ".join(["idx long", "id long", *(f"{part} array<double>" for part in parts)])
    everybody = vectors.users.sparkSession.createDataFrame([mean], schema)
    return replace(vectors, users=everybody, n_users=1).best(n, offer=offer).drop("user_id")


def _with_means_of_link(vectors: ScoringVectors) -> ScoringVectors:
    """Return vectors with one number for each item in the place of a link's: its mean over users, chosen by hashes."""
    form = vectors.form
    front_of_users, link = in_front_and_linked("confounder", form)
    chosen = collect_arrow(vectors.users.orderBy(F.xxhash64("id"), "id").limit(SAMPLE).select(link.alias("link")))
    sample = matrix_of(chosen["link"])

    def add_means(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = matrix_of(batch["confounder"])
            front = form.front(numbers.shape[1])
            of_link = Link(sample, np.ascontiguousarray(numbers[:, front:]), form)
            pieces = [slice(start, start + 16) for start in range(0, len(sample), 16)]
            total = sum(of_link.block(piece).sum(axis=0) for piece in pieces)
            column = list_array(np.column_stack([numbers[:, :front], total / len(sample)]))
            yield batch.set_column(batch.schema.get_field_index("confounder"), "confounder", column)

    items = vectors.items.mapInArrow(add_means, vectors.items.schema)
    one = F.concat(front_of_users, F.array(F.lit(1.0)))
    return replace(vectors, users=vectors.users.withColumn("confounder", one), items=items, form=PLAIN)


def similar(
    rows: DataFrame, n_rows: int, n: int, similarity: Similarity, offer: Offer | None, name: str = "item"
) -> DataFrame:
    """Rank the n rows of a side that are most like each of its rows: {name}_id, rank, similar_{name}_id, similarity.

        cosine          beta_i . beta_j / (|beta_i| |beta_j|)      alike in kind, however much they are liked
        inner_product   beta_i . beta_j                            alike in kind and strong: large factors come first

    The confounder's factors have no part in it: they say who is shown an item, not what it is like.

    rows : ``idx, id, features``. n_rows : of the side, those without factors too. offer : the rows that may be named as
    similar. All, if None. name : of the side, in the names of the columns.
    """
    checks.require_number("n", n)
    if similarity not in get_args(Similarity):
        raise ValueError(f"similarity: found {similarity!r}, expected {' or '.join(get_args(Similarity))}")
    vector = F.col("features")
    if similarity == "cosine":
        # Rows whose factors are zero, but for rounding, are like nothing.
        square, length = dot(vector, vector), F.sqrt(dot(vector, vector))
        largest = rows.agg(F.max(square)).collect()[0][0]
        rows = rows.where(square > NOTHING * max(1.0, largest or 0.0))
        vector = F.transform(vector, lambda x: x / length)
    nothing = F.expr("cast(array() as array<double>)").alias("confounder")
    vectors = rows.select("idx", "id", vector.alias("preference"), nothing)
    idx, own = F.col("idx"), F.col("id")
    itself = rows.select(own.alias("user_id"), own.alias("item_id"), idx.alias("row_idx"), idx.alias("col_idx"))
    ranked = ScoringVectors(vectors, vectors, n_rows, n_rows, intercept=0.0).best(n, itself, offer=offer)
    row, other = F.col("user_id").alias(f"{name}_id"), F.col("item_id").alias(f"similar_{name}_id")
    return ranked.select(row, "rank", other, F.col("score").alias("similarity"))
