"""The vectors whose inner products score every pair: what predictions and rankings are made from.

    score_ui = preference_u . preference_i + confounder_u . confounder_i + intercept

with preference_u = theta_u, confounder_u = gamma_u E[pi_u], preference_i = beta_i, confounder_i = E[lambda_i]. Biases
make it preference_u = [theta_u, b_u, 1] and preference_i = [beta_i, 1, c_i]. Covariates add [kappa_u, p_u] and
[q_i, rho_i]: to the confounder those of the composition of exposure, to the preference those of given features.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.fitting.factors import derive_frame, dot, gamma_mean, list_array, matrix_of
from dcrec_spark.models.fitting.lay_out import driver_of
from dcrec_spark.models.fitting.layout_settings import width_of
from dcrec_spark.models.outcome.rank import Ranking, are_few, as_lists, rank, rank_in_process
from dcrec_spark.spark.compat import frame_of_arrow
from dcrec_spark.spark.lineage import is_local

# Of a side's rows, whose ids an executor holds whole, so that pairs need not move to meet them: some 40 MB.
SMALL_SIDE = 500_000
_OTHER = {"user": "item", "item": "user"}
_COLUMNS = ["user_id", "rank", "item_id", "score", "preference", "confounder"]


@dataclass(frozen=True)
class Offer:
    """What may be in a list. ids : ``id``, and ``category`` where ``most`` of one category may be in it at most."""

    ids: DataFrame
    most: int | None = None

    def of(self, table: DataFrame) -> DataFrame:
        """Return the rows that are offered, with a ``group`` where there is a limit."""
        if self.most is None:
            return table.join(self.ids, "id", "left_semi")
        # Of 63 bits: among a hundred thousand categories two are taken for one with a probability of 5e-10.
        group = F.shiftrightunsigned(F.xxhash64(F.col("category").cast("string")), 1)
        groups = self.ids.select("id", F.when(F.col("category").isNotNull(), group).alias("group"))
        return table.join(groups, "id")


@dataclass(frozen=True)
class ScoringVectors:
    """users, items : ``idx, id, preference: array<double>, confounder: array<double>``, idx from 0 without gaps.

    form : of the confounder. Where it is no product of vectors, the vectors end with [E[pi_u], gamma_u] and
    [E[lambda_i], 0]: a_hat is their product, and the sum of their last numbers is what h is multiplied with.

    exposure_weight : how much the probability of exposure counts in the order of lists, see
    :class:`dcrec_spark.kernels.topn.Dial`. Unless it is 0, both sides have ``exposure: array<double>`` too.
    """

    users: DataFrame
    items: DataFrame
    n_users: int
    n_items: int
    intercept: float
    form: Form = PLAIN
    exposure_weight: float = 0.0

    def join(self, pairs: DataFrame, user: str, item: str) -> tuple[DataFrame, Column, Column]:
        """Return the pairs joined to the vectors, and both parts of their scores. Null for unknown ids."""
        sides = (("user", self.users, user), ("item", self.items, item))
        for side, vectors, column in sides:
            names = {"id": column, "preference": f"__{side}_preference", "confounder": f"__{side}_confounder"}
            pairs = pairs.join(vectors.drop("idx", "exposure").withColumnsRenamed(names), column, "left")
        preference, confounder = (dot(F.col(f"__user_{p}"), F.col(f"__item_{p}")) for p in ("preference", "confounder"))
        return pairs, preference, confounder if self.form.is_low_rank else _linked(self.form)

    def score(self, pairs: DataFrame, output: str) -> DataFrame:
        """``pairs``, with columns ``user_id`` and ``item_id``, and their scores in a column ``output``."""
        joined, preference, confounder = self.join(pairs, "user_id", "item_id")
        score = (preference + confounder + F.lit(self.intercept)).alias(output)
        return joined.select(*map(quoted, pairs.columns), score)

    def exposures(self, explained: DataFrame) -> DataFrame:
        """Add to known pairs, ``user_id, item_id, score``, the two factors of their order: ``above, exposure``.

        above : the score minus the user's baseline. exposure : 1 - exp(-a_hat). Without an exposure weight nothing.
        """
        if not self.exposure_weight:
            return explained
        for side, table in self._tables.items():
            vectors = table.select(F.col("id").alias(f"{side}_id"), F.col("exposure").alias(f"__{side}_exposure"))
            explained = explained.join(vectors, f"{side}_id")
        a_hat = dot(F.col("__user_exposure"), F.col("__item_exposure"))  # the item's last number is 0
        above = F.col("score") - F.element_at("__user_exposure", -1)
        added = explained.withColumns({"above": above, "exposure": -F.expm1(-a_hat)})
        return added.drop("__user_exposure", "__item_exposure")

    def best(
        self,
        n: int,
        seen: DataFrame | None = None,
        chosen: DataFrame | None = None,
        side: str = "user",
        offer: Offer | None = None,
    ) -> DataFrame:
        """Return the n best of the other side for each row of ``side``. Ranked at once where that is little work.

        seen : ``user_id, item_id`` of pairs to leave out, and ``row_idx, col_idx`` if these are known.
        chosen : ``id`` of the requested rows. None: all. offer : the other side's that may be in a list. All, if None.

        Returns DataFrame[user_id, rank, item_id, score, preference, confounder]
        """
        what = self._ranking(chosen, side, offer)
        here = self._here(what, n, seen, side)
        if here is not None:
            named = here.rename_columns({"row_id": f"{side}_id", "col_id": f"{_OTHER[side]}_id"})
            return frame_of_arrow(self.users.sparkSession, named.select(_COLUMNS))
        return self._on_cluster(what, n, seen, side)

    def lists(
        self, n: int, seen: DataFrame | None, chosen: DataFrame | None, side: str, names: Mapping[str, str]
    ) -> DataFrame:
        """Return the n best of the other side as one list for each row of ``side``, best first. See :meth:`best`.

        names : "user" and "item" -> the columns of ids in the result: ``recommendations: array<struct<col, rating>>``.
        """
        row, col, what = names[side], names[_OTHER[side]], self._ranking(chosen, side, None)
        here = self._here(what, n, seen, side)
        if here is not None:
            return frame_of_arrow(self.users.sparkSession, as_lists(here, row, col))
        ranked = F.array_sort(F.collect_list(F.struct("rank", f"{_OTHER[side]}_id", "score")))
        entry = F.transform(
            ranked, lambda r: F.struct(r[f"{_OTHER[side]}_id"].alias(col), r["score"].cast("float").alias("rating"))
        )
        table = self._on_cluster(what, n, seen, side)
        return table.groupBy(F.col(f"{side}_id").alias(row)).agg(entry.alias("recommendations"))

    def _here(self, what: Ranking, n: int, seen: DataFrame | None, side: str) -> pa.Table | None:
        """Rank in this process where that is little and there is no cluster. None elsewhere."""
        require_number("n", n)
        spark = self.users.sparkSession
        if not (is_local(spark) and are_few(what.n_rows, what.n_cols, n)):
            return None
        names = F.col(f"{side}_id").alias("row_id"), F.col(f"{_OTHER[side]}_id").alias("col_id")
        left_out = None if seen is None else seen.select(*names)
        room = 0 if left_out is None else driver_of(spark).room_for(width_of(left_out))
        return rank_in_process(what, n, left_out, room)

    def _on_cluster(self, what: Ranking, n: int, seen: DataFrame | None, side: str) -> DataFrame:
        other = _OTHER[side]
        names = {side: "row_idx", other: "col_idx"}
        if seen is not None:
            for name, size in (("user", self.n_users), ("item", self.n_items)):
                if names[name] in seen.columns:
                    continue
                ids = self._tables[name].select(F.col("id").alias(f"{name}_id"), F.col("idx").alias(names[name]))
                # Pairs stay where they are if executors hold the rows of a side whole.
                seen = seen.join(F.broadcast(ids) if size <= SMALL_SIDE else ids, f"{name}_id")
            seen = seen.select("row_idx", "col_idx")
        ranked = rank(what, n, seen)
        for name, table in ((side, what.rows), (other, self._tables[other])):
            ids = table.select(F.col("idx").alias(names[name]), F.col("id").alias(f"{name}_id"))
            ranked = ranked.join(ids, names[name])
        return ranked.select(*_COLUMNS)

    @property
    def _tables(self) -> dict[str, DataFrame]:
        return {"user": self.users, "item": self.items}

    def _ranking(self, chosen: DataFrame | None, side: str, offer: Offer | None) -> Ranking:
        rows, cols = self._tables[side], self._tables[_OTHER[side]]
        counts = {"user": self.n_users, "item": self.n_items}
        rows = rows if chosen is None else rows.join(chosen, "id", "left_semi")
        cols, most = (cols, None) if offer is None else (offer.of(cols), offer.most)
        sizes = counts[side], counts[_OTHER[side]]
        return Ranking(rows, cols, *sizes, self.intercept, self.form, most, self.exposure_weight)


def _linked(form: Form) -> Column:
    (front, link), (of_item, link_of_item) = (in_front_and_linked(f"__{side}_confounder", form) for side in _OTHER)
    linked = F.log(dot(link, link_of_item) + F.lit(form.offset))
    gamma = F.element_at(link, -1) + F.element_at(link_of_item, -1)
    return gamma * (linked - F.lit(form.mean)) / F.lit(form.scale) + dot(front, of_item)


def in_front_and_linked(vector: str, form: Form) -> tuple[Column, Column]:
    """Return the numbers of a confounder's vector that count as they are, and those that belong to the link."""
    size = F.size(vector)
    linked = F.lit(form.linked) if form.linked else size
    return F.slice(vector, 1, size - linked), F.slice(vector, size - linked + 1, linked)


def scoring_vectors(
    factors: DataFrame, is_user: bool, has_biases: bool, form: Form = PLAIN, baseline: float | None = None
) -> DataFrame:
    """``idx, id, preference, confounder`` of a table of fitted users or items, with its rows where those are here.

    baseline : of users without biases. With one, each row has ``exposure`` too: E[pi] or E[lambda], and last the user's
        baseline, 0 of an item.
    """
    rank, bias, one = form.rank, F.col("bias"), F.lit(1.0)
    # What meets the items' covariates comes first: slopes of users, covariates of items.
    both = ("slopes", "covariates") if is_user else ("covariates", "slopes")
    of_features = [F.slice(name, rank + 1, F.greatest(F.size(name) - rank, F.lit(0))) for name in both]
    preference = F.concat("features", *of_features)
    if has_biases:
        preference = F.concat(preference, F.array(bias, one) if is_user else F.array(one, bias))
    confounder = mean = gamma_mean(F.col("exposure_shape"), F.col("exposure_rate"))
    if not form.is_low_rank:
        confounder = F.concat(confounder, F.array(F.col("gamma") if is_user else F.lit(0.0)))
    elif form != PLAIN:
        confounder = F.concat(confounder, F.array(F.lit(-form.mean if is_user else 1.0)))
    if form.is_low_rank and is_user:
        confounder = F.transform(confounder, lambda x: x * F.col("gamma") / F.lit(form.scale))
    if rank:
        # Before the numbers of a link.
        confounder = F.concat(*[F.slice(name, 1, rank) for name in both], confounder)
    columns = [preference.alias("preference"), confounder.alias("confounder")]
    if baseline is not None:
        last = F.lit(baseline if is_user else 0.0)
        last = last + bias if is_user and has_biases else last
        columns.append(F.concat(mean, F.array(last)).alias("exposure"))
    rows = partial(_table_of_vectors, is_user=is_user, has_biases=has_biases, form=form, baseline=baseline)
    return derive_frame(factors, factors.select("idx", "id", *columns), rows)


def _table_of_vectors(
    factors: pa.Table, is_user: bool, has_biases: bool, form: Form, baseline: float | None
) -> pa.Table:
    """Return the same vectors of the rows of a table, to the last bit, without Spark."""
    n_rows, rank = factors.num_rows, form.rank
    both = [_matrix(factors, name) for name in (("slopes", "covariates") if is_user else ("covariates", "slopes"))]
    preference = np.hstack([_matrix(factors, "features"), *[numbers[:, rank:] for numbers in both]])
    if has_biases:
        bias, one = _matrix(factors, "bias"), np.ones((n_rows, 1))
        preference = np.hstack([preference, *((bias, one) if is_user else (one, bias))])
    confounder = mean = _matrix(factors, "exposure_shape") / _matrix(factors, "exposure_rate")
    if not form.is_low_rank:
        last = _matrix(factors, "gamma") if is_user else np.zeros((n_rows, 1))
        confounder = np.hstack([confounder, last])
    elif form != PLAIN:
        confounder = np.hstack([confounder, np.full((n_rows, 1), -form.mean if is_user else 1.0)])
    if form.is_low_rank and is_user:
        confounder = confounder * _matrix(factors, "gamma") / form.scale
    if rank:
        confounder = np.hstack([*[numbers[:, :rank] for numbers in both], confounder])
    vectors = {"preference": list_array(preference), "confounder": list_array(confounder)}
    if baseline is not None:
        last = np.full((n_rows, 1), baseline if is_user else 0.0)
        if is_user and has_biases:
            last += _matrix(factors, "bias")
        vectors["exposure"] = list_array(np.hstack([mean, last]))
    return pa.table({"idx": factors["idx"], "id": factors["id"], **vectors})


def _matrix(factors: pa.Table, name: str) -> Array:
    """Return a column as (n, F), of single numbers (n, 1)."""
    if pa.types.is_floating(factors[name].type):
        return np.asarray(factors[name].to_numpy())[:, None]
    return matrix_of(factors[name]) if factors.num_rows else np.empty((0, 0))
