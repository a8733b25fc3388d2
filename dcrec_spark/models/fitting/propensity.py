"""Inverse-propensity weights of the observed ratings: 1 / p, capped on request, then normalised to mean 1.

Self-normalisation keeps the scale of the objective, and with it the meaning of the regularisers. Where p comes from
ratings alone, k cancels, unless the cap or the limit p <= 1 bites. Ratings are few distinct values, so that k and the
mean weight come from how often each value occurs, on the cluster and in one process alike.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from pyspark.ml.param import Params
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.limits import SMALLEST_PROPENSITY
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.propensity import raw_weights, relative_propensity, solve_scale

# Ratings have a handful of values: a column with more than so many holds no ratings.
MOST_DISTINCT_RATINGS = 100_000
WEIGHT_COLUMN = "__weight"


@dataclass(frozen=True)
class PropensitySettings:
    """How propensities are computed. column : the one that holds p, or None: from the ratings.

    mean, decay, pivot : of p from the ratings, see :mod:`dcrec_spark.kernels.propensity`. cap : of 1 / p, or None.
    source : "ratings" or "exposure", of p without a column.
    """

    column: str | None
    mean: float
    decay: float
    pivot: float
    cap: float | None
    source: str = "ratings"

    @property
    def of_exposure(self) -> bool:
        """Whether propensities come from an exposure model."""
        return self.column is None and self.source == "exposure"

    @classmethod
    def of(cls, params: Params) -> Self:
        """Return the settings of an estimator."""
        of_ratings = ("propensityMean", "propensityDecay", "propensityPivot")
        names = ("propensityCol", *of_ratings, "weightCap", "propensitySource")
        return cls(*[params.getOrDefault(name) for name in names])

    @classmethod
    def of_refit(cls, params: Params) -> Self:
        """Return the settings of a refit, whose propensities are those of an exposure model."""
        return replace(cls.of(params), column=None, cap=params.getOrDefault("refitWeightCap"), source="exposure")


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
        """Return the normalised weights of ratings in this process, (n,); the propensities come from the ratings."""
        return _raw_weights(rating, self.scale or 1.0, self.settings) / self.mean_weight

    def as_json(self) -> dict[str, Any]:
        """Return the fitted numbers and their settings."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the propensity that :meth:`as_json` gave."""
        return cls(**{**values, "settings": PropensitySettings(**values["settings"])})


def fit_propensity(ratings: DataFrame, rating_col: str, settings: PropensitySettings) -> Propensity:
    """Solve for k, and find the mean weight, on the observed ratings.

    Raises
    ------
    DataError : a propensity that is null, outside (0, 1] or next to 0; ratings with too many distinct values.
    """
    if settings.column is None:
        return propensity_from_counts(*_counted(ratings, rating_col), settings)
    require_propensities(ratings, settings)
    mean = ratings.agg(F.avg(_raw_weight(settings, None, rating_col))).collect()[0][0]
    return Propensity(settings, None, float(mean or 1.0))


def propensity_from_counts(value: Floats, count: Floats, settings: PropensitySettings) -> Propensity:
    """Propensities from ratings alone.

    Parameters
    ----------
    value, count : (n,) each distinct rating, and how often it occurs.

    Raises
    ------
    ConfigError : the settings leave a rating no propensity.
    """
    if not len(value):
        return Propensity(settings, 1.0, 1.0)  # the layout refuses input without ratings, and says so better
    relative = relative_propensity(value, settings.decay, settings.pivot)
    if relative.min() < SMALLEST_PROPENSITY:
        raise ConfigError(
            f"propensityPivot={settings.pivot:g} and propensityDecay={settings.decay:g} make a rating of "
            f"{value.min():g} all but impossible, and its weight has no bounds: expected a pivot on the scale of the "
            "ratings, or a decay nearer to 1"
        )
    scale = solve_scale(relative, count, settings.mean)
    mean = float(_raw_weights(value, scale, settings) @ count / count.sum())
    return Propensity(settings, scale, mean)


def _raw_weights(rating: Floats, scale: float, settings: PropensitySettings) -> Floats:
    return raw_weights(rating, scale, settings.decay, settings.pivot, settings.cap)


def _raw_weight(settings: PropensitySettings, scale: float | None, rating_col: str) -> Column:
    if settings.column is not None:
        p = F.col(f"`{settings.column}`").cast("double")
    else:
        below = F.greatest(F.lit(0.0), F.lit(settings.pivot) - F.col(f"`{rating_col}`").cast("double"))
        p = F.least(F.lit(1.0), F.lit(scale) * F.pow(F.lit(settings.decay), below))
    weight = 1.0 / p
    return weight if settings.cap is None else F.least(weight, F.lit(settings.cap))


def _counted(ratings: DataFrame, rating_col: str) -> tuple[Floats, Floats]:
    counted = ratings.groupBy(F.col(f"`{rating_col}`").cast("double").alias("rating")).count()
    table = counted.where("rating is not null").limit(MOST_DISTINCT_RATINGS + 1).toPandas().sort_values("rating")
    if len(table) > MOST_DISTINCT_RATINGS:
        raise DataError(
            f"column {rating_col!r} has more than {MOST_DISTINCT_RATINGS:,} different values: propensities from "
            "ratings need a rating scale; give your own with propensityCol"
        )
    return table["rating"].to_numpy(np.float64), table["count"].to_numpy(np.float64)


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
    good = p.isNotNull() & (p >= SMALLEST_PROPENSITY) & (p <= 1)
    row = ratings.agg(F.count_if(~F.coalesce(good, F.lit(False))).alias("bad"), F.min(p), F.max(p)).collect()[0]
    if row["bad"]:
        raise DataError(
            f"{row['bad']} rows have a propensity in column {column!r} that is null or outside (0, 1], or below "
            f"{SMALLEST_PROPENSITY:g}; found values from {row[1]} to {row[2]}: a propensity is the probability that "
            "the pair is rated"
        )
