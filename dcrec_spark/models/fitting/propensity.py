"""Values of a block's pairs: counts, ratings, and their inverse-propensity weights, 1 / p, capped if so set, of mean 1.

Self-normalisation keeps the scale of the objective, and with it the meaning of the regularisers. Where p comes from
ratings alone, k cancels, unless the cap or the limit p <= 1 bites. Ratings are few distinct values, so that k and the
mean weight come from how often each value occurs, on the cluster and in one process alike.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from pyspark.ml.param import Params
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.limits import SMALLEST_PROPENSITY
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.exposure import DECAY, PIVOT, raw_weights, relative_propensity, solve_scale
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.fitting.checks import require_columns

# Ratings have a handful of values: a column with more than so many holds no ratings.
MOST_DISTINCT_RATINGS = 100_000
WEIGHT_COLUMN = "__weight"


@dataclass(frozen=True)
class PropensitySettings:
    """Settings of propensities. column : the one that holds p. None: from the ratings. cap : of 1 / p, or None."""

    column: str | None
    cap: float | None

    @classmethod
    def of(cls, params: Params) -> Self:
        return cls(params.getOrDefault("propensityCol"), params.getOrDefault("weightCap"))


@dataclass(frozen=True)
class Propensity:
    """Propensities as they were fitted: their scale k (None unless from the ratings) and the mean raw weight."""

    settings: PropensitySettings
    scale: float | None
    mean_weight: float

    def weight(self, rating_col: str) -> Column:
        """Return the normalised weight of each row."""
        return _raw_weight(self.settings, self.scale, rating_col) / F.lit(self.mean_weight)

    def weights(self, rating: Floats) -> Floats:
        """Return the normalised weights of ratings in this process, (n,). The propensities come from the ratings."""
        return raw_weights(rating, self.scale or 1.0, self.settings.cap) / self.mean_weight


def fit_propensity(ratings: DataFrame, rating_col: str, settings: PropensitySettings) -> Propensity:
    """Solve for k, and find the mean weight, on the observed ratings."""
    if settings.column is not None:
        require_propensities(ratings, settings)
        mean = ratings.agg(F.avg(_raw_weight(settings, None, rating_col))).collect()[0][0]
        return Propensity(settings, None, float(mean or 1.0))
    counted = ratings.groupBy(F.col(f"`{rating_col}`").cast("double").alias("rating")).count()
    table = counted.where("rating is not null").limit(MOST_DISTINCT_RATINGS + 1).toPandas().sort_values("rating")
    if len(table) > MOST_DISTINCT_RATINGS:
        raise DataError(
            f"column {rating_col!r} has more than {MOST_DISTINCT_RATINGS:,} different values: propensities from "
            "ratings need a rating scale; give your own with propensityCol"
        )
    value, count = (table[name].to_numpy(np.float64) for name in ("rating", "count"))
    return propensity_from_counts(value, count, settings)


def propensity_from_counts(value: Floats, count: Floats, settings: PropensitySettings) -> Propensity:
    """Propensities from ratings alone: (n,) distinct values, and how often each occurs.

    Raises DataError: a rating is so far below the pivot that it has no propensity.
    """
    if not len(value):
        return Propensity(settings, 1.0, 1.0)  # the layout refuses input without ratings, and says so better
    relative = relative_propensity(value)
    if relative.min() < SMALLEST_PROPENSITY:
        raise DataError(
            f"adjustment=ipw: a rating of {value.min():g} has next to no propensity, which is multiplied by {DECAY:g} "
            f"with each step below {PIVOT:g}: expected ratings on a scale to about 5, or propensityCol"
        )
    scale = solve_scale(relative, count)
    mean = float(raw_weights(value, scale, settings.cap) @ count / count.sum())
    return Propensity(settings, scale, mean)


def _raw_weight(settings: PropensitySettings, scale: float | None, rating_col: str) -> Column:
    if settings.column is not None:
        p = F.col(f"`{settings.column}`").cast("double")
    else:
        below = F.greatest(F.lit(0.0), F.lit(PIVOT) - F.col(f"`{rating_col}`").cast("double"))
        p = F.least(F.lit(1.0), F.lit(scale) * F.pow(F.lit(DECAY), below))
    weight = 1.0 / p
    return weight if settings.cap is None else F.least(weight, F.lit(settings.cap))


def require_propensities(ratings: DataFrame, settings: PropensitySettings) -> None:
    """Refuse a propensity column with values that are none."""
    column = settings.column
    if column is None:
        return
    p = F.col(f"`{column}`").cast("double")
    good = p.isNotNull() & (p >= SMALLEST_PROPENSITY) & (p <= 1)
    row = ratings.agg(F.count_if(~F.coalesce(good, F.lit(False))).alias("bad"), F.min(p), F.max(p)).collect()[0]
    if row["bad"]:
        raise DataError(
            f"{row['bad']} rows have a propensity in column {column!r} that is null or outside (0, 1], or below "
            f"{SMALLEST_PROPENSITY:g}; found values from {row[1]} to {row[2]}: a propensity is the probability that "
            "the pair is rated"
        )


def exposure_values(count_column: str | None) -> dict[str, str]:
    """Return the counts of exposures, without a column each pair counts once."""
    return {"exposure_count": f"`{count_column}`" if count_column else "1.0D"}


def weighted_ratings(
    dataset: DataFrame, rating: str, propensity: Propensity | None
) -> tuple[DataFrame, dict[str, str]]:
    """Return the ratings, weighted by inverse propensities where there are any, and the arrays to make of them."""
    if propensity is None:
        return dataset, {"rating": f"`{rating}`"}
    weighted = dataset.withColumn(WEIGHT_COLUMN, propensity.weight(rating))
    return weighted, {"rating": f"`{rating}`", "weight": f"`{WEIGHT_COLUMN}`"}


def require_ratings(dataset: DataFrame, params: Params, propensity: Propensity | None) -> None:
    """Refuse new ratings that lack what a fitted model takes from them."""
    get = params.getOrDefault
    numbers = [get("ratingCol")]
    if propensity is not None and propensity.settings.column:
        numbers.append(propensity.settings.column)
    require_columns(dataset, [get("userCol"), get("itemCol")], numbers)
    if propensity is not None:
        require_propensities(dataset, propensity.settings)
