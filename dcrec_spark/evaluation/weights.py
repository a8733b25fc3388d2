"""Weights by which ratings that users chose to give represent all pairs: inverse propensities from an exposure model.

    p = 1 - exp(-a_hat)        exposure probability of a pair, if exposures are Poisson with mean a_hat
    weight = min(1 / p, cut)   cut: else few pairs would dominate

The mean of squared errors with these weights is the self-normalised estimate of Schnabel et al. (2016) of the error on
random pairs, as far as the exposure model is right.
"""

import math

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.exposure import SMALLEST, inverse_of_exposure
from dcrec_spark.models.fitting.checks import require_columns, require_new_columns
from dcrec_spark.spark.compat import collect_arrow

# The cut is the end of one of these bins of log weights, a quarter of a percent wide: the counts of bins do not depend
# on how rows are parted, and there are less than three thousand.
_WIDTH = 1 / 400
_USUAL_SHARE = 0.95


def weigh_by_exposure(
    pairs: DataFrame, exposureCol: str = "a_hat", weightCol: str = "weight", share: float = _USUAL_SHARE
) -> DataFrame:
    """Pairs with the weight that each has for all pairs.

    pairs : held-out ratings with their reconstructed exposure, as ``PoissonFactorizationModel.transform`` gives them.
        The model is fitted without them: it would else know that they were seen.
    exposureCol : column of a_hat.
    weightCol : column to add: 1 / (1 - exp(-a_hat)), at most the cut, and null where a_hat is.
    share : share of the pairs whose weight is not cut.

    Returns the columns of ``pairs``, and the weights. A Spark job counts them.
    Raises ConfigError: ``share`` is no share above 0. DataError: a column is missing, or there already.

    Examples
    --------
    >>> pairs = spark.createDataFrame([("u", "i", 0.1), ("u", "j", 2.0)], "user string, item string, a_hat double")
    >>> [round(row.weight, 2) for row in weigh_by_exposure(pairs, share=1.0).orderBy("item").collect()]
    [10.51, 1.16]
    """
    require_columns(pairs, [], [exposureCol])
    require_new_columns(pairs, {"weightCol": weightCol})
    weight = 1 / F.greatest(-F.expm1(-quoted(exposureCol).cast("double")), F.lit(SMALLEST))
    bins = pairs.select(F.floor(F.log(weight) / _WIDTH).alias("bin")).where("bin is not null").groupBy("bin").count()
    counted = collect_arrow(bins.orderBy("bin"))
    cut = _cut(counted["bin"].to_numpy(), counted["count"].to_numpy(), share)
    return pairs.withColumn(weightCol, F.when(quoted(exposureCol).isNotNull(), F.least(weight, F.lit(cut))))


def weights_by_exposure(a_hat: Array, share: float = _USUAL_SHARE) -> Array:
    """Compute the same weights of arrays in this process, (n,)."""
    weight = inverse_of_exposure(a_hat)
    bins, count = np.unique(np.floor(np.log(weight) / _WIDTH), return_counts=True)
    return np.asarray(np.minimum(weight, _cut(bins, count, share)))


def _cut(bins: Array, count: Array, share: float) -> float:
    if not 0 < share <= 1:
        raise ConfigError(f"share: found {share!r}, expected a share above 0, at most 1")
    if not len(bins):
        return math.inf
    reached = np.cumsum(count) >= share * count.sum()
    return math.exp((bins[int(np.argmax(reached))] + 1) * _WIDTH)
