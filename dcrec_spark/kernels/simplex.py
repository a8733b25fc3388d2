"""Least squares with weights that are not negative and sum to 1, by sums over observations, exactly."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# A weight below zero by less than rounding is zero.
_ROUNDING = 1e-12


def least_squares_on_simplex(gram: Floats, target: Floats) -> Floats:
    """Return the w >= 0 with sum 1 that make w' gram w - 2 w' target smallest, (k,).

    Every set of weights above zero is tried: the minimum of a convex function on the simplex is that of the equations
    with the multiplier of the sum on one of its faces. Among equal ones that with fewer weights is taken.

    Parameters
    ----------
    gram : (k, k) sum of p p' over observations, of k predictions each. target : (k,) sum of y p. k small: O(2^k k^3).
    """
    best, least = np.zeros(len(target)), np.inf
    for size in range(1, len(target) + 1):
        for face in map(list, combinations(range(len(target)), size)):
            weights = _on_face(gram[np.ix_(face, face)], target[face])
            if weights is None:
                continue
            value = float(weights @ gram[np.ix_(face, face)] @ weights - 2.0 * weights @ target[face])
            if value < least - _ROUNDING * (1.0 + abs(least) if np.isfinite(least) else 0.0):
                best, least = np.zeros(len(target)), value
                best[face] = weights
    return best


def _on_face(gram: Floats, target: Floats) -> Floats | None:
    """Solve where all weights are free but for their sum. None where one is negative."""
    size = len(target)
    system = np.ones((size + 1, size + 1))
    system[:size, :size], system[size, size] = gram, 0.0
    weights = np.linalg.lstsq(system, np.append(target, 1.0))[0][:size]
    if (weights < -_ROUNDING).any() or abs(weights.sum() - 1.0) > 1e-6:
        return None
    weights = np.maximum(weights, 0.0)
    return np.asarray(weights / weights.sum())
