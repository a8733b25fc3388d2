"""Inverse-propensity weights of the observed ratings: 1 / p, capped on request, then normalised to mean 1.

Self-normalisation keeps the scale of the objective, and with it the meaning of the regularisers. Where p comes from
ratings alone, k cancels, unless the cap or the limit p <= 1 bites.
"""

from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import DataError
from dcrec_spark.kernels.propensity import relative_propensity, solve_scale

# Ratings have a handful of values; a scale with more than so many is no rating scale.
MOST_DISTINCT_RATINGS = 100_000
WEIGHT_COLUMN = "__weight"


@dataclass(frozen=True)
class PropensitySettings:
    """What inverse-propensity weighting is told. column : of p, or None: from the ratings."""

    column: str | None
    mean: float
    decay: float
    pivot: float
    cap: float | None


@dataclass(frozen=True)
class Propensity:
    """Propensities as they were fitted: their scale k (None with a column) and the mean raw weight."""

    settings: PropensitySettings
    scale: float | None
    mean_weight: float

    def weight(self, rating_col: str) -> Column:
        """The normalised weight of each row."""
        return _raw_weight(self.settings, self.scale, rating_col) / F.lit(self.mean_weight)


def fit_propensity(ratings: DataFrame, rating_col: str, settings: PropensitySettings) -> Propensity:
    """Solve for k, and find the mean weight, on the observed ratings.

    Raises
    ------
    DataError : a propensity that is null or outside (0, 1]; ratings with too many distinct values.
    """
    require_propensities(ratings, settings)
    scale = None if settings.column is not None else _solved_scale(ratings, rating_col, settings)
    mean = ratings.agg(F.avg(_raw_weight(settings, scale, rating_col))).collect()[0][0]
    return Propensity(settings, scale, float(mean or 1.0))


def _raw_weight(settings: PropensitySettings, scale: float | None, rating_col: str) -> Column:
    if settings.column is not None:
        p = F.col(f"`{settings.column}`").cast("double")
    else:
        below = F.greatest(F.lit(0.0), F.lit(settings.pivot) - F.col(f"`{rating_col}`").cast("double"))
        p = F.least(F.lit(1.0), F.lit(scale) * F.pow(F.lit(settings.decay), below))
    weight = 1.0 / p
    return weight if settings.cap is None else F.least(weight, F.lit(settings.cap))


def _solved_scale(ratings: DataFrame, rating_col: str, settings: PropensitySettings) -> float:
    counted = ratings.groupBy(F.col(f"`{rating_col}`").cast("double").alias("rating")).count()
    table = counted.where("rating is not null").limit(MOST_DISTINCT_RATINGS + 1).toPandas().sort_values("rating")
    if len(table) > MOST_DISTINCT_RATINGS:
        raise DataError(
            f"column {rating_col!r} has more than {MOST_DISTINCT_RATINGS:,} different values: propensities from "
            "ratings need a rating scale; give your own with propensityCol"
        )
    if table.empty:
        return 1.0  # the layout refuses input without ratings, and says so better
    relative = relative_propensity(table["rating"].to_numpy(np.float64), settings.decay, settings.pivot)
    return solve_scale(relative, table["count"].to_numpy(np.float64), settings.mean)


def require_propensities(ratings: DataFrame, settings: PropensitySettings) -> None:
    """Refuse a propensity column with values that are none.

    Raises
    ------
    DataError : names the column, how many rows, what was found.
    """
    column = settings.column
    if column is None:
        return
    p = F.col(f"`{column}`").cast("double")
    good = p.isNotNull() & (p > 0) & (p <= 1)
    found = ratings.agg(F.count_if(~F.coalesce(good, F.lit(False))).alias("bad"), F.min(p), F.max(p)).collect()[0]
    if found["bad"]:
        raise DataError(
            f"{found['bad']} rows have a propensity in column {column!r} that is null or outside (0, 1]; found values "
            f"from {found[1]} to {found[2]}: a propensity is the probability that the pair is rated"
        )
