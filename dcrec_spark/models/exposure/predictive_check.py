"""The exposure predictive check: do held-out exposures look like draws from the fitted exposure model?

After Wang and Blei ("The Blessings of Multiple Causes", arXiv 1805.06826): hold out, fit, and compare the held-out
log-likelihood of the real exposures with that of replications. What is done here, and why:

*Held out* are single exposures, each with probability s (:mod:`dcrec_spark.models.exposure.held_out`). The training
part of Poisson(R) counts is Poisson((1 - s) R), for all pairs alike, so the fitted rate r estimates (1 - s) R. The
held-out part is Poisson(s / (1 - s) r), independent of training. Its zeros take part exactly, none is sampled or
weighted: the sum of a Poisson model's rates over all items is a product of sums.

*Exposures that are there or not* are not Poisson. Fitted to zeros and ones, Poisson factorization estimates the mean,
r = (1 - s) p with p the probability of an exposure. 1 - exp(-r) would be too small. A pair in training can have no
held-out part, any other has one with odds s p / (1 - p). Rates above certainty count as p = 0.95. Replications are
drawn so. Where exposures are rare, this is the Poisson distribution again. Data drawn as min(Poisson(R), 1) pass where
R is well below 1 for nearly all pairs. Where many pairs are near certain, 1 - exp(-R) has no low rank, the
factorization does not fit, and the check fails.

*The discrepancy* is the Poisson log-likelihood of a user's held-out exposures over all items at the posterior means,
that is at a_hat, which stage 2 uses (Wang and Blei average it over posterior draws: another question, as valid). Each
replication draws the factors anew from their Gamma posteriors, then the exposures.

*p* is P(replicated < real), for a user and for the sum over users. Were the posterior the truth, it would be uniform.
The real exposures take one of R + 1 places among the replications. P is a point within it, the middle for the sum, a
random one for a user (many have few held-out exposures, and tie often). So it is never 0 or 1.
Near 0: the exposures are less likely than the model expects. It is too sure of itself. Near 1: they are more likely
than it expects. It spreads exposures over too many items, or expects too many of them, as with a rank too high for the
data and its priors (each component adds its prior shape to every user's exposures).
The sum cannot see users who deviate in both directions. The *spread*, each user's squared distance from the mean in
units of the replications' deviation, summed, can, and has its own p.

What the check can't see: structure that the model averages out correctly. A model of rank 1, right about activity and
popularity, passes on exposures that come in sharp blocks: see ``PoissonFactorization.heldOutLikelihood``. And with many
users the check sees small misfits that matter little: ``meanUserPValue``, Wang and Blei's overall figure, says how far
a single user is from the middle.

The posterior is a mean-field one, narrower than the true one. Priors that are far from the data's scale fail.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import index_ids
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.predictive import HeldOut, p_values
from dcrec_spark.models.exposure.check_chunks import add_up, check_on_cluster, users_of
from dcrec_spark.models.exposure.held_out import HELD_OUT, SHARE
from dcrec_spark.models.fitting.checks import require_columns
from dcrec_spark.models.fitting.cluster_layout import PAIR_BYTES
from dcrec_spark.spark.planning import few_partitions

# A p-value outside of these bounds fails the check.
MIDDLE = (0.025, 0.975)
FEWEST_REPLICATIONS = 20


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


@dataclass(frozen=True)
class CheckSettings:
    """Settings of a check: columns of the exposures, the users' prior shape, replications and seed."""

    user: str
    item: str
    count: str | None
    prior_shape: float
    replications: int
    seed: int

    def __post_init__(self) -> None:
        number = self.replications
        if isinstance(number, bool) or not isinstance(number, int) or number < FEWEST_REPLICATIONS:
            raise ConfigError(f"replications: found {number!r}, expected a whole number >= {FEWEST_REPLICATIONS}")


def check_exposures(
    users: DataFrame, items: DataFrame, exposures: DataFrame, settings: CheckSettings
) -> PredictiveCheck:
    """Compare held-out exposures with replications from a model fitted to the others.

    users, items : the model's factors. exposures : as ``hold_out_exposures`` gives them, or all rows of some users.
    Users and items that lost all their exposures to the held-out part are not in the model, and are left out.
    """
    with ExitStack() as scratch:
        scratch.enter_context(few_partitions(exposures.sparkSession))
        pairs = _pairs(exposures, users, items, settings).persist()
        scratch.callback(pairs.unpersist)
        rows, share = _require_usable(pairs, settings)
        scratch.enter_context(few_partitions(exposures.sparkSession, PAIR_BYTES * rows))
        item_ids = index_ids(items, "id")
        scratch.callback(item_ids.unpersist)
        # The places of items, null where one is not in the model.
        at = item_ids.select(F.col("id").alias("item_id"), F.col("idx").alias("item_idx"))
        indexed = pairs.join(at, "item_id", "left").persist()
        scratch.callback(indexed.unpersist)
        _require_trained(indexed, users, settings)
        how = HeldOut(share, settings.count is not None)
        known = indexed.where("item_idx is not null")
        placed = items.join(item_ids, "id")
        checked = check_on_cluster(known, users, placed, rows, how, settings.replications, settings.seed).persist()
        try:
            sums = add_up(checked)
            total, deviation = np.array(sums["total"]), np.array(sums["deviation"])
            return PredictiveCheck(
                users=users_of(checked),
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


def _pairs(exposures: DataFrame, users: DataFrame, items: DataFrame, settings: CheckSettings) -> DataFrame:
    """``user_id, item_id, total, held_out, share`` of each exposed pair."""
    names = {"user": settings.user, "item": settings.item}
    if missing := [name for name in (HELD_OUT, SHARE) if name not in exposures.columns]:
        raise DataError(
            f"column {missing[0]!r} is missing: the check needs to know what was held out of training. Split with "
            "hold_out_exposures, fit on its training part, and give its exposures here"
        )
    require_columns(exposures, list(names.values()), [HELD_OUT, SHARE, *([settings.count] if settings.count else [])])
    for (side, name), factors in zip(names.items(), (users, items), strict=True):
        given, fitted = exposures.schema[name].dataType, factors.schema["id"].dataType
        if given != fitted:
            raise DataError(
                f"column {name!r} is {given.simpleString()}, but the model's {side} ids are {fitted.simpleString()}: "
                "cast it"
            )
    total = F.col(f"`{settings.count}`").cast("double") if settings.count else F.lit(1.0)
    ids = [F.col(f"`{name}`").alias(f"{side}_id") for side, name in names.items()]
    held_out, share = F.col(HELD_OUT).cast("double").alias("held_out"), F.col(SHARE).cast("double").alias("share")
    return exposures.select(*ids, total.alias("total"), held_out, share)


def _require_usable(pairs: DataFrame, settings: CheckSettings) -> tuple[int, float]:
    """Refuse pairs that can't be used. Return their number and the share that was held out."""
    held_out, total, share = (F.col(c) for c in ("held_out", "total", "share"))
    good = (held_out >= 0) & (held_out <= total) & (held_out == F.floor(held_out)) & (share > 0) & (share < 1)
    usable = F.coalesce(good & F.col("user_id").isNotNull() & F.col("item_id").isNotNull(), F.lit(False))
    found = F.count("*"), F.count_if(~usable), F.sum("held_out"), F.min("share"), F.max("share")
    rows, bad, units, lowest, highest = pairs.agg(*found).collect()[0]
    if bad:
        raise DataError(
            f"{bad} of {rows} rows cannot be used: expected two ids, {HELD_OUT} a whole number "
            f"from 0 to {settings.count or 1}, and {SHARE} between 0 and 1, as hold_out_exposures makes them"
        )
    if not units:
        raise DataError(f"nothing was held out: {rows} rows, {HELD_OUT} is 0 in all of them")
    if lowest != highest:
        raise DataError(f"{SHARE} goes from {lowest} to {highest}: expected one split's")
    return int(rows), float(lowest)


def _require_trained(indexed: DataFrame, users: DataFrame, settings: CheckSettings) -> None:
    """Refuse exposures whose training part is not what the model was fitted to.

    A user's shapes less their priors sum to his exposures in training. A model that has seen the held-out ones too
    would pass where it should not.
    """
    training = F.col("total") - F.col("held_out")
    of_items = indexed.where(F.col("item_idx").isNull() & (training > 0))
    _refuse(of_items, {"items, such as {}, are not in the model": F.lit(True)}, "item_id")
    totals = indexed.groupBy(F.col("user_id").alias("id")).agg(F.sum(training).alias("training"))
    fitted = F.aggregate(
        F.transform("shape", lambda s: s - F.lit(settings.prior_shape)), F.lit(0.0), lambda x, y: x + y
    )
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
