"""The vectors whose inner products score every pair: what predictions and rankings are made from.

    score_ui = preference_u . preference_i + confounder_u . confounder_i + intercept

with preference_u = theta_u, confounder_u = gamma_u E[pi_u], preference_i = beta_i, confounder_i = E[lambda_i]. Whatever
else is to be scored in the same way, such as the preference alone, is given as vectors of its own.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.models.fitting.factors import dot, gamma_mean
from dcrec_spark.models.outcome.rank import Ranking, rank

_OTHER = {"user": "item", "item": "user"}


@dataclass(frozen=True)
class ScoringVectors:
    """users, items : ``idx, id, preference: array<double>, confounder: array<double>``, idx from 0 without gaps."""

    users: DataFrame
    items: DataFrame
    n_users: int
    n_items: int
    intercept: float

    def join(self, pairs: DataFrame, user: str, item: str) -> tuple[DataFrame, Column, Column]:
        """Return the pairs joined to the vectors, and both parts of their scores; null for unknown ids.

        Parameters
        ----------
        user, item : the columns of ids in ``pairs``.
        """
        sides = (("user", self.users, user), ("item", self.items, item))
        for side, vectors, column in sides:
            names = {"id": column, "preference": f"__{side}_preference", "confounder": f"__{side}_confounder"}
            pairs = pairs.join(vectors.drop("idx").withColumnsRenamed(names), column, "left")
        parts = [dot(F.col(f"__user_{part}"), F.col(f"__item_{part}")) for part in ("preference", "confounder")]
        return pairs, parts[0], parts[1]

    def score(self, pairs: DataFrame, output: str) -> DataFrame:
        """``pairs``, with columns ``user_id`` and ``item_id``, and their scores in a column ``output``."""
        joined, preference, confounder = self.join(pairs, "user_id", "item_id")
        score = (preference + confounder + F.lit(self.intercept)).alias(output)
        return joined.select(*map(quoted, pairs.columns), score)

    def best(
        self, n: int, seen: DataFrame | None = None, chosen: DataFrame | None = None, side: str = "user"
    ) -> DataFrame:
        """Return the n best of the other side for each row of ``side``.

        Parameters
        ----------
        seen : ``user_id, item_id`` of pairs to leave out. chosen : ``id`` of the rows that are asked for; all, if None.

        Returns
        -------
        DataFrame[user_id, rank, item_id, score, preference, confounder]
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n: found {n!r}, expected a whole number of recommendations >= 1")
        tables, counts = {"user": self.users, "item": self.items}, {"user": self.n_users, "item": self.n_items}
        other = _OTHER[side]
        rows = tables[side] if chosen is None else tables[side].join(chosen, "id", "left_semi")
        cols, names = tables[other], {side: "row_idx", other: "col_idx"}
        ranking = Ranking(rows.drop("id"), cols.drop("id"), counts[side], counts[other], self.intercept)
        ranked = rank(ranking, n, None if seen is None else self._indexed(seen, names))
        for name, table in ((side, rows), (other, cols)):
            ids = table.select(F.col("idx").alias(names[name]), F.col("id").alias(f"{name}_id"))
            ranked = ranked.join(ids, names[name])
        return ranked.select("user_id", "rank", "item_id", "score", "preference", "confounder")

    def _indexed(self, seen: DataFrame, names: dict[str, str]) -> DataFrame:
        users = self.users.select(F.col("id").alias("user_id"), F.col("idx").alias(names["user"]))
        items = self.items.select(F.col("id").alias("item_id"), F.col("idx").alias(names["item"]))
        return seen.join(users, "user_id").join(items, "item_id").select("row_idx", "col_idx")


def scoring_vectors(factors: DataFrame, is_user: bool) -> DataFrame:
    """``idx, id, preference, confounder`` of a table of fitted users or items."""
    confounder = gamma_mean(F.col("exposure_shape"), F.col("exposure_rate"))
    if is_user:
        confounder = F.transform(confounder, lambda x: x * F.col("gamma"))
    return factors.select("idx", "id", F.col("features").alias("preference"), confounder.alias("confounder"))
