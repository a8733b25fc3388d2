"""The exposure predictive check: do held-out exposures look like draws from the fitted exposure model?

After Wang and Blei ("The Blessings of Multiple Causes", arXiv 1805.06826): hold out, fit, and compare the held-out
log-likelihood of the real exposures with that of replications. Single exposures are held out, each with probability s
(:mod:`dcrec_spark.models.exposure.held_out`), and :mod:`dcrec_spark.kernels.predictive` has the distributions.

*Exposures that are there or not* are not Poisson. Fitted to zeros and ones, Poisson factorization estimates the mean,
r = (1 - s) p with p the probability of an exposure. 1 - exp(-r) would be too small. Rates above certainty count as
p = 0.95. Data drawn as min(Poisson(R), 1) pass where R is well below 1 for nearly all pairs. Where many pairs are near
certain, 1 - exp(-R) has no low rank, the factorization does not fit, and the check fails.

*The discrepancy* is the Poisson log-likelihood of a user's held-out exposures over all items at a_hat, which stage 2
uses (Wang and Blei average it over posterior draws: another question, as valid). Each replication draws the factors
anew from their Gamma posteriors, then the exposures.

*p* is P(replicated < real), for a user and for the sum over users. Were the posterior the truth, it would be uniform.
P is a point within the real one's place among the replications: the middle for the sum, a random one for a user.
So it is never 0 or 1.
Near 0: the exposures are less likely than the model expects. It is too sure of itself. Near 1: they are more likely
than it expects. It spreads exposures over too many items, or expects too many of them, as with a rank too high for the
data and its priors (each component adds its prior shape to every user's exposures).
The sum cannot see users who deviate in both directions. The *spread*, each user's squared distance from the mean in
units of the replications' deviation, summed, can, and has its own p.

What the check can't see: structure that the model averages out correctly. A model of rank 1, right about activity and
popularity, passes on exposures that come in sharp blocks: see ``PoissonFactorization.heldOutLikelihood``. And with many
users the check sees small misfits that matter little: ``meanUserPValue``, Wang and Blei's overall figure, says how far
a single user is from the middle. The posterior is a mean-field one, narrower than the true one. Priors that are far
from the data's scale fail.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import index_ids
from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.predictive import CountedPairs, Factors, HeldOut, check_users, p_values, squared_deviations
from dcrec_spark.models.exposure.held_out import HELD_OUT, SHARE
from dcrec_spark.models.fitting.checks import require_columns, require_ids_alike
from dcrec_spark.models.fitting.cluster_layout import PAIR_BYTES
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.spark.compat import apply_in_arrow, collect_arrow, frame_of_arrow, group_by_place, place
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.planning import few_partitions
from dcrec_spark.spark.preflight import require_workers

# A p-value outside of these bounds fails the check.
MIDDLE = (0.025, 0.975)
FEWEST_REPLICATIONS = 20
# Most pairs of a chunk: replicating it takes some two hundred bytes for each.
CHUNK_PAIRS = 1 << 19
# A chunk with fewer pairs gains less than it costs to draw the items' factors once more for it.
FEWEST_PAIRS = 1 << 14
_OF_CHUNKS = "chunk long, total array<double>, deviation array<double>, p_sum double, users long, held_out long"
_OF_USERS = "p_value: double, n: long, log_likelihood: double"


@dataclass(frozen=True)
class PredictiveCheck:
    """The result of a predictive check: whether held-out exposures look like draws from the model.

    It is no judge of the rank: a rank that is too low averages structure out, and passes. Held-out likelihood is one:
    ``PoissonFactorization.heldOutLikelihood``.

    users : DataFrame[id, p_value, n, log_likelihood]. N held-out exposures, log_likelihood over all items.
    pValue : of the sum of all users' log-likelihoods. spreadPValue : of the sum of their squared deviations.
    meanUserPValue : the mean of the users' p-values.
    logLikelihood, replicated : the sum for the real exposures, and for each of the R replications, (R,).
    numUsers, n : users, and held-out exposures.

    Examples
    --------
    >>> rows = [(user, item) for user in range(12) for item in range(8) if (user + item) % 3]
    >>> exposures = spark.createDataFrame(rows, "user int, item int")
    >>> check = PoissonFactorization(rank=1).predictiveCheck(exposures, replications=20)
    >>> 0 < check.pValue < 1
    True
    >>> check.release()
    """

    users: DataFrame
    pValue: float
    spreadPValue: float
    meanUserPValue: float
    logLikelihood: float
    replicated: Floats
    numUsers: int
    n: int
    _cached: DataFrame = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether neither the sum nor the spread is far from the middle."""
        return all(MIDDLE[0] <= p <= MIDDLE[1] for p in (self.pValue, self.spreadPValue))

    @property
    def verdict(self) -> str:
        """What to make of it, in words."""
        if self.passed:
            return "exposures look like draws from the model, which does not say that the rank is right"
        return "far from the middle: do not trust a_hat"

    @property
    def summary(self) -> str:
        """The figures and the verdict in one line."""
        return (
            f"predictive check: p {self.pValue:.3f} (spread {self.spreadPValue:.3f}, mean of users "
            f"{self.meanUserPValue:.3f}), {self.n:,} held-out exposures of {self.numUsers:,} users, "
            f"{len(self.replicated)} replications: {self.verdict}"
        )

    def histogram(self, bins: int = 20) -> list[int]:
        """How many users' p-values lie in each of ``bins`` equal parts of 0 to 1."""
        part = F.least(F.floor(F.col("p_value") * bins), F.lit(bins - 1)).alias("part")
        counts = {row["part"]: row["count"] for row in self.users.groupBy(part).count().collect()}
        return [counts.get(number, 0) for number in range(bins)]

    def release(self) -> None:
        """Unpersist the cached users."""
        self._cached.unpersist()


def check_exposures(model: Any, exposures: DataFrame, replications: int, seed: int) -> PredictiveCheck:
    """Compare held-out exposures with replications from a model fitted to the others.

    exposures : as ``hold_out_exposures`` gives them, or all rows of some users. Users and items that lost all their
    exposures to the held-out part are not in the model, and are left out.
    """
    if isinstance(replications, bool) or not isinstance(replications, int) or replications < FEWEST_REPLICATIONS:
        raise ConfigError(f"replications: found {replications!r}, expected a whole number >= {FEWEST_REPLICATIONS}")
    users, items, count = model.userFactors, model.itemFactors, model.getOrDefault("countCol")
    with few_partitions(exposures.sparkSession), FitResources() as resources:
        pairs = resources.cache(_pairs(exposures, model))
        rows, share = _require_usable(pairs, count)
        resources.enter_context(few_partitions(exposures.sparkSession, PAIR_BYTES * rows))
        item_ids = resources.add_cached(index_ids(items, "id"))
        # The places of items, null where one is not in the model.
        at = item_ids.select(F.col("id").alias("item_id"), F.col("idx").alias("item_idx"))
        indexed = resources.cache(pairs.join(at, "item_id", "left"))
        _require_trained(indexed, users, model.getOrDefault("shapePrior"))
        how = HeldOut(share, count is not None)
        known = indexed.where("item_idx is not null")
        placed = items.join(item_ids, "id")
        checked = check_on_cluster(known, users, placed, rows, how, replications, seed).persist()
        try:
            sums = add_up(checked)
            total, deviation = np.array(sums["total"]), np.array(sums["deviation"])
            return PredictiveCheck(
                users=checked.select(F.inline("checked")),
                pValue=float(p_values(total)),
                spreadPValue=float(p_values(deviation)),
                meanUserPValue=sums["p_sum"] / sums["users"],
                logLikelihood=float(total[0]),
                replicated=total[1:],
                numUsers=sums["users"],
                n=sums["held_out"],
                _cached=checked,
            )
        except BaseException:
            checked.unpersist()
            raise


def _pairs(exposures: DataFrame, model: Any) -> DataFrame:
    """``user_id, item_id, total, held_out, share`` of each exposed pair."""
    user, item, count = (model.getOrDefault(name) for name in ("userCol", "itemCol", "countCol"))
    if missing := [name for name in (HELD_OUT, SHARE) if name not in exposures.columns]:
        raise DataError(
            f"column {missing[0]!r} is missing: the check needs to know what was held out of training. Split with "
            "hold_out_exposures, fit on its training part, and give its exposures here"
        )
    require_columns(exposures, [user, item], [HELD_OUT, SHARE, *([count] if count else [])])
    require_ids_alike(exposures, (user, item), (model.userFactors, model.itemFactors))
    total = F.col(f"`{count}`").cast("double") if count else F.lit(1.0)
    ids = F.col(f"`{user}`").alias("user_id"), F.col(f"`{item}`").alias("item_id")
    held_out, share = F.col(HELD_OUT).cast("double").alias("held_out"), F.col(SHARE).cast("double").alias("share")
    return exposures.select(*ids, total.alias("total"), held_out, share)


def _require_usable(pairs: DataFrame, count: str | None) -> tuple[int, float]:
    """Refuse pairs that can't be used. Return their number and the share that was held out."""
    held_out, total, share = (F.col(c) for c in ("held_out", "total", "share"))
    good = (held_out >= 0) & (held_out <= total) & (held_out == F.floor(held_out)) & (share > 0) & (share < 1)
    usable = F.coalesce(good & F.col("user_id").isNotNull() & F.col("item_id").isNotNull(), F.lit(False))
    found = F.count("*"), F.count_if(~usable), F.sum("held_out"), F.min("share"), F.max("share")
    rows, bad, units, lowest, highest = pairs.agg(*found).collect()[0]
    if bad:
        raise DataError(
            f"{bad} of {rows} rows cannot be used: expected two ids, {HELD_OUT} a whole number "
            f"from 0 to {count or 1}, and {SHARE} between 0 and 1, as hold_out_exposures makes them"
        )
    if not units:
        raise DataError(f"nothing was held out: {rows} rows, {HELD_OUT} is 0 in all of them")
    if lowest != highest:
        raise DataError(f"{SHARE} goes from {lowest} to {highest}: expected one split's")
    return int(rows), float(lowest)


def _require_trained(indexed: DataFrame, users: DataFrame, prior_shape: float) -> None:
    """Refuse exposures whose training part is not what the model was fitted to.

    A user's shapes less their priors sum to his exposures in training. A model that has seen the held-out ones too
    would pass where it should not.
    """
    training = F.col("total") - F.col("held_out")
    of_items = indexed.where(F.col("item_idx").isNull() & (training > 0))
    _refuse(of_items, {"items, such as {}, are not in the model": F.lit(True)}, "item_id")
    totals = indexed.groupBy(F.col("user_id").alias("id")).agg(F.sum(training).alias("training"))
    fitted = F.aggregate(F.transform("shape", lambda s: s - F.lit(prior_shape)), F.lit(0.0), lambda x, y: x + y)
    of_users = totals.where("training > 0").join(users.select("id", fitted.alias("fitted")), "id", "left")
    reasons = {
        "users, such as {}, are not in the model": F.col("fitted").isNull(),
        "users, such as {}, are in the model with other exposures": (
            F.abs(F.col("fitted") - F.col("training")) > 0.5 + 1e-3 * F.col("training")
        ),
    }
    _refuse(of_users, reasons, "id")


def _refuse(rows: DataFrame, reasons: dict[str, Column], column: str) -> None:
    wrong = [F.when(holds, F.col(column)) for holds in reasons.values()]
    counts = rows.agg(*[F.count_distinct(ids) for ids in wrong], *[F.min(ids) for ids in wrong]).collect()[0]
    for reason, count, example in zip(reasons, counts[: len(wrong)], counts[len(wrong) :], strict=True):
        if count:
            raise DataError(
                f"{count} {reason.format(repr(example))}: the model has to be fitted to the training part of these "
                "exposures (hold_out_exposures), and to nothing else; and all rows of a user have to be given"
            )


def check_on_cluster(
    pairs: DataFrame, users: DataFrame, items: DataFrame, rows: int, how: HeldOut, replications: int, seed: int
) -> DataFrame:
    """One row for each chunk, with its sums and an array of its users: ``id, p_value, n, log_likelihood``.

        users + pairs -> chunks (cells of some hundred thousand pairs)  \\
                                                                         cross -> a row for each chunk
        items         -> one cell                                       /

    Each chunk draws the items' factors for itself, the same ones by their keys: as many draws as a fit's iteration has,
    R times, so chunks are large. A worker needs room for the items' cell a few times. A single chunk is checked in this
    process.

    pairs : ``user_id, item_idx, total, held_out``. users, items : ``id, shape, rate``, the items with ``idx`` too.
    rows : about how many pairs there are.
    """
    check_chunk: Callable[..., pa.RecordBatch] = partial(_check_chunk, how=how, replications=replications, seed=seed)
    spark, is_single = pairs.sparkSession, rows <= CHUNK_PAIRS
    n_chunks = 1 if is_single else max(1, min(cores(spark), rows // FEWEST_PAIRS), -(-rows // CHUNK_PAIRS))
    users = users.join(pairs.select(F.col("user_id").alias("id")).distinct(), "id", "left_semi")
    factors = users.select(_chunk_of("id", n_chunks), "id", _key("id"), "shape", "rate")
    items = items.select("idx", _key("id"), "shape", "rate")
    pairs = pairs.select(_chunk_of("user_id", n_chunks), "user_id", "item_idx", "total", "held_out")
    if is_single:  # starting workers takes longer
        cells = _user_cell(collect_arrow(factors), collect_arrow(pairs))
        item_cell = _pack_items(collect_arrow(items))["item_cell"][0]
        batches = [check_chunk(*cell, item_cell) for cell in zip(*cells.itercolumns(), strict=True)]
        return frame_of_arrow(spark, pa.Table.from_batches(batches))
    require_workers(spark)
    placed = (group_by_place(place(frame, n_chunks, "chunk"), "chunk") for frame in (factors, pairs))
    id_type = users.schema["id"].dataType.simpleString()
    cells = apply_in_arrow(
        next(placed).cogroup(next(placed)), _user_cell, f"chunk long, ids array<{id_type}>, user_cell binary"
    )
    item_cells = apply_in_arrow(items.groupBy(), _pack_items, "item_cell binary").hint("shuffle_replicate_nl")

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for cell in zip(*batch.columns, strict=True):
                yield check_chunk(*cell)

    schema = f"{_OF_CHUNKS}, checked array<struct<id: {id_type}, {_OF_USERS}>>"
    return cells.crossJoin(item_cells).mapInArrow(check, schema)


def add_up(checked: DataFrame) -> dict[str, Any]:
    """Return the chunks' sums, added in the order of the chunks. The only numbers that reach the driver.

    total, deviation : (R + 1,) sums over users of log-likelihoods and of squared deviations, the real ones first.
    """

    def add(table: pa.Table) -> pa.Table:
        table = table.sort_by("chunk")
        arrays = {name: pa.array([matrix_of(table[name]).sum(axis=0)]) for name in ("total", "deviation")}
        numbers = {name: pa.array([table[name].to_numpy().sum()]) for name in ("p_sum", "users", "held_out")}
        return pa.table({"chunk": pa.array([0]), **arrays, **numbers})

    return apply_in_arrow(checked.drop("checked").groupBy(), add, _OF_CHUNKS).collect()[0].asDict()


def _key(column: str) -> Column:
    return F.xxhash64(F.col(column).cast("string")).alias("key")


def _chunk_of(column: str, n_chunks: int) -> Column:
    return F.pmod(_key(column), F.lit(n_chunks)).cast("int").alias("chunk")


def _user_cell(factors: pa.Table, pairs: pa.Table) -> pa.Table:
    factors = factors.sort_by("id")
    ids = factors["id"].combine_chunks()
    pairs = pairs.append_column("row", pc.index_in(pairs["user_id"], value_set=ids))
    # Users without a training exposure have no factors.
    pairs = pairs.filter(pc.is_valid(pairs["row"])).sort_by([("row", "ascending"), ("item_idx", "ascending")])
    columns = {name: pairs[name].to_numpy() for name in ("row", "item_idx", "total", "held_out")}
    cells = [pack({**_factor_arrays(factors), **columns})] if len(ids) else []
    return pa.table(
        {
            "chunk": factors["chunk"].slice(0, 1).cast(pa.int64()),
            "ids": pa.ListArray.from_arrays(pa.array([0, len(ids)][: len(cells) + 1], pa.int32()), ids),
            "user_cell": pa.array(cells, pa.binary()),
        }
    )


def _pack_items(table: pa.Table) -> pa.Table:
    """``item_cell``: one row with the factors of all items, in the order of their places."""
    return pa.table({"item_cell": pa.array([pack(_factor_arrays(table.sort_by("idx")))], pa.binary())})


def _factor_arrays(table: pa.Table) -> dict[str, Array]:
    return {"key": table["key"].to_numpy(), "shape": matrix_of(table["shape"]), "rate": matrix_of(table["rate"])}


def _check_chunk(
    chunk: pa.Scalar,
    ids: pa.ListScalar,
    user_cell: pa.Scalar,
    item_cell: pa.Scalar,
    *,
    how: HeldOut,
    replications: int,
    seed: int,
) -> pa.RecordBatch:
    users, items = unpack(user_cell.as_buffer()), unpack(item_cell.as_buffer())
    held_out, training = (
        CountedPairs(users["row"][times > 0].astype(np.int64), users["item_idx"][times > 0], times[times > 0])
        for times in (users["held_out"], users["total"] - users["held_out"])
    )
    factors = [Factors(cell["key"], cell["shape"], cell["rate"]) for cell in (users, items)]
    checked = check_users(training, held_out, factors[0], factors[1], how, replications, seed)
    n = np.bincount(held_out.row, held_out.times, len(ids)).astype(np.int64)
    of_users = pa.StructArray.from_arrays(
        [ids.values, *map(pa.array, (checked.p_value, n, checked.log_likelihood[0]))],
        ["id", "p_value", "n", "log_likelihood"],
    )
    sums = {
        "chunk": chunk.as_py(),
        "total": checked.log_likelihood.sum(axis=1),
        "deviation": squared_deviations(checked.log_likelihood).sum(axis=1),
        "p_sum": checked.p_value.sum(),
        "users": len(ids),
        "held_out": n.sum(),
    }
    each = pa.ListArray.from_arrays(pa.array([0, len(ids)], pa.int32()), of_users)
    return pa.RecordBatch.from_pydict({**{name: pa.array([total]) for name, total in sums.items()}, "checked": each})
