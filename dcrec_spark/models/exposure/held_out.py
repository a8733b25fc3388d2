"""Exposures held out of training, for the predictive check of an exposure model and to judge its rank.

Each exposure is held out on its own with one probability: a pair that is there or not, of a count each of its units.
So a Poisson model stays one: where counts are Poisson(r), their training part is Poisson((1 - s) r) and their held-out
part Poisson(s r), independent of it, for *every* pair. A pair without a training exposure is a zero in training,
whether something was held out of it or not, so that its zero says nothing about what was held out.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.fitting.checks import require_columns
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.spark.compat import collect_arrow

HELD_OUT = "held_out"
SHARE = "held_out_share"


@dataclass(frozen=True)
class ExposureSplit:
    """Exposures, split at random.

    training : the columns of the input, for a fit: pairs with something left, counts without their held-out part.
    exposures : the input with ``held_out``, how much of each pair's exposure was held out, and ``held_out_share``:
        what ``PoissonFactorizationModel.predictiveCheck`` takes.

    Examples
    --------
    >>> rows = [(user, item) for user in range(4) for item in range(5)]
    >>> split = hold_out_exposures(spark.createDataFrame(rows, "user int, item int"), share=0.5)
    >>> split.training.count() + split.exposures.where("held_out = 1").count()
    20
    """

    training: DataFrame
    exposures: DataFrame


def hold_out_exposures(
    df: DataFrame, user: str = "user", item: str = "item", count: str | None = None, share: float = 0.2, seed: int = 0
) -> ExposureSplit:
    """Hold out each exposure with probability ``share``, by the hash of (seed, user, item) and of nothing else.

    df : one row per exposed pair. user, item, count : its columns, without ``count`` each pair is one exposure.

    Raises ConfigError: the share is not in (0, 1). DataError: a column is missing, is there already, or a count is no
    whole number >= 0.
    """
    if not 0.0 < share < 1.0:
        raise ConfigError(f"share: found {share!r}, expected a number between 0 and 1: the part that is held out")
    require_columns(df, [user, item], [count] if count else [])
    taken = [name for name in (HELD_OUT, SHARE) if name in df.columns]
    if taken:
        raise DataError(f"column {taken[0]!r} is there already: the split adds it; rename or drop the input's")
    if count:
        value = F.col(f"`{count}`").cast("double")
        usable = F.coalesce((value >= 0) & (value == F.floor(value)) & (value < float("inf")), F.lit(False))
        bad, example = df.agg(F.count_if(~usable), F.min(F.when(~usable, value))).collect()[0]
        if bad:
            raise DataError(
                f"column {count!r}: {bad} rows are no whole numbers >= 0, such as {example!r}: exposures are counted, "
                "and held out one by one; drop or mend them first"
            )
    held_out = _held_out(user, item, count, share, seed)
    exposures = df.withColumns({HELD_OUT: held_out, SHARE: F.lit(float(share))})
    left = F.col(f"`{count}`") - F.col(HELD_OUT) if count else 1.0 - F.col(HELD_OUT)
    training = exposures.where(left > 0)
    if count:
        training = training.withColumn(count, left.cast(df.schema[count].dataType))
    return ExposureSplit(training.select(*[F.col(f"`{name}`") for name in df.columns]), exposures)


def held_out_likelihood(model: Any, exposures: DataFrame, share: float) -> float:
    """Compute the Poisson log-likelihood of held-out parts, of all pairs of a model, for each held-out exposure.

    With r the fitted rate, the held-out part has the rate s / (1 - s) r. Its sum over all pairs is a product of the
    sums of both sides' mean factors. log k! is left out: it is the same for all models.
    """
    thinned, rate = share / (1.0 - share), model.getOrDefault("exposureCol")
    pairs = model.transform(exposures.where(F.col(HELD_OUT) > 0)).where(F.col(rate).isNotNull())
    count = F.col(HELD_OUT)
    likely = F.sum(count * F.log(thinned * F.col(rate)))
    likelihood, total = pairs.agg(likely, F.sum(count)).collect()[0]
    tables = [collect_arrow(side.select("shape", "rate")) for side in (model.userFactors, model.itemFactors)]
    users, items = ((matrix_of(t["shape"]) / matrix_of(t["rate"])).sum(axis=0) for t in tables)
    return float((likelihood - thinned * float(users @ items)) / total)


def _held_out(user: str, item: str, count: str | None, share: float, seed: int) -> Column:
    ids = [F.col(f"`{name}`").cast("string") for name in (user, item)]

    def select_held_out(unit: Column) -> Column:
        # The upper 53 bits of the hash, as a number from 0 to 1.
        hashed = F.shiftrightunsigned(F.xxhash64(F.lit(seed).cast("long"), *ids, unit), 11)
        return hashed * 2.0**-53 < F.lit(float(share))

    if count is None:
        return select_held_out(F.lit(1).cast("long")).cast("double")
    total = F.col(f"`{count}`").cast("long")
    units = F.when(total > 0, F.sequence(F.lit(1).cast("long"), total)).otherwise(F.array().cast("array<bigint>"))
    return F.size(F.filter(units, select_held_out)).cast("double")
