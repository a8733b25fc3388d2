"""Sensitivity to unobserved confounding: bounds on a mean of ratings and on the order of a list.

The marginal sensitivity model (Tan 2006): given all unobserved facts of a pair, its odds of exposure are those of
the exposure model up to a factor, ``odds`` >= 1. That bounds

    a weighted mean of rated pairs      1 / p is anything from 1 + (1 / p - 1) / odds to 1 + (1 / p - 1) odds
    the mean of a pair without rating   its density is that of a rated one times something from 1 / odds to odds
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dcrec_spark.kernels.gamma import Floats

# Larger shifts count as this one, whose odds, 10^197, are still finite.
_LARGEST_SHIFT = 30.0
_HALVINGS = 60


class Bounds(NamedTuple):
    """The mean of potential ratings, and the least and the largest that it could be."""

    mean: float
    low: float
    high: float


def sensitivity_bounds(value: Floats, propensity: Floats, odds: float) -> Bounds:
    """Bound the inverse-propensity mean of values, (n,), if each pair's odds of exposure were wrong by a factor >= 1.

    The mean is extreme where all values below some threshold weigh as little as they may, and all above as much, or the
    other way round (Zhao, Small, Bhattacharya 2019): O(n log n).
    """
    against = 1.0 / propensity - 1.0
    least, most = 1.0 + against / odds, 1.0 + against * odds
    order = np.argsort(value, kind="stable")
    ordered = value[order], least[order], most[order]
    mean = float((1.0 + against) @ value / (1.0 + against).sum())
    return Bounds(mean, -_largest_mean(-ordered[0][::-1], *(w[::-1] for w in ordered[1:])), _largest_mean(*ordered))


def _largest_mean(value: Floats, least: Floats, most: Floats) -> float:
    def totals(weight_low: NDArray[np.floating], weight_high: NDArray[np.floating]) -> Floats:
        below = np.concatenate([[0.0], np.cumsum(weight_low)])
        above = np.concatenate([np.cumsum(weight_high[::-1])[::-1], [0.0]])
        return np.asarray(below + above)

    return float((totals(least * value, most * value) / totals(least, most)).max())


def odds_of_shift(shift: Floats) -> Floats:
    """Compute the least odds by which the mean of a normal variable may move so many standard deviations, (n,) >= 0.

    Its density is multiplied by something from 1 / odds to odds, with mean 1. The mean moves farthest where that is
    1 / odds below a quantile z and odds above it. The mean of 1 puts it at P(Z <= z) = odds / (1 + odds):
    shift = (odds - 1 / odds) phi(z). NaN stays NaN.
    """
    shift = np.minimum(shift, _LARGEST_SHIFT)
    # z moves the mean by at least z, so that it lies between 0 and the shift.
    low, high = np.zeros_like(shift), shift
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        # The worst shift of the odds P(Z <= z) / P(Z > z).
        density = np.exp(-(middle**2) / 2.0) / np.sqrt(2.0 * np.pi)
        enough = 2.0 * density * np.sinh(log_ndtr(middle) - log_ndtr(-middle)) >= shift
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(np.exp(log_ndtr(high) - log_ndtr(-high)))
