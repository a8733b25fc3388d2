"""Propensities: from ratings alone, as in the paper (after Schnabel et al. 2016), and from an exposure model.

    p = k for y >= pivot, k decay^(pivot - y) below. At most 1. K such that the mean over all pairs is ``target``

The ratings of the unrated pairs are unknown. The observed distribution replaces theirs.

    p = 1 - exp(-a_hat)    of a pair whose exposure is Poisson with mean a_hat
"""

import numpy as np
from scipy.optimize import brentq

from dcrec_spark.kernels.gamma import Floats

# Smallest propensity of a rated pair. Where nothing speaks for a pair, its weight would be without bound, and a fit or
# a mean would be left to a few such pairs.
SMALLEST = 1e-3


def relative_propensity(rating: Floats, decay: float, pivot: float) -> Floats:
    """Compute p / k of each rating. (n,), in (0, 1]."""
    return np.asarray(np.power(decay, np.maximum(0.0, pivot - rating)))


def solve_scale(relative: Floats, count: Floats, target: float) -> float:
    """Solve for the k with which the mean of min(1, k * relative) is ``target``.

    relative, count : (n,) > 0, each distinct value and how often it occurs. target : in (0, 1].
    """
    share = count / count.sum()

    def excess(k: float) -> float:
        return float(np.minimum(1.0, k * relative) @ share) - target

    plain = target / float(relative @ share)
    if plain * relative.max() <= 1.0:
        return plain
    if target >= 1.0:
        return float(1.0 / relative.min())
    return float(brentq(excess, plain, 1.0 / relative.min(), xtol=1e-300, rtol=1e-14))


def raw_weights(rating: Floats, scale: float, decay: float, pivot: float, cap: float | None) -> Floats:
    """Compute 1 / p of each rating, (n,), at most ``cap``. P = min(1, scale * relative)."""
    weight: Floats = 1.0 / np.minimum(1.0, scale * relative_propensity(rating, decay, pivot))
    return weight if cap is None else np.minimum(weight, cap)


def inverse_of_exposure(a_hat: Floats) -> Floats:
    """Compute 1 / p of pairs with these exposures, (n,), at most 1 / :data:`SMALLEST`."""
    return np.asarray(1.0 / np.maximum(-np.expm1(-a_hat), SMALLEST))
