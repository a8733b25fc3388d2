"""What each of a user's ratings contributes to his preference for an item, dense.

A preference is linear in the right-hand side of the user's system, and the right-hand side is a sum over pairs. Each
observed pair is credited with its own term, less what an unrated pair in its place would have put there; the baseline
is what is left: the same sum without any rating.
"""

from dataclasses import replace

import numpy as np

from . import poisson, ridge
from .poisson import Array

Parts = tuple[float, Array]  # baseline; contribution by item (I,), NaN where it is not rated


def of_least_squares(
    problem: ridge.Problem, x: ridge.Unknowns, observed: Array, unrated: tuple[float, float], u: int, i: int
) -> Parts:
    """unrated : weight and mask of a pair that is not rated.

    A pair whose mask is 0 when unrated has another row of the design then, and is credited with its whole own term.
    """
    matrix, right = ridge.user_system(problem, x, u)
    sought = np.zeros(len(right))
    sought[: x.beta.shape[1]] = x.beta[i]
    gain = np.linalg.solve(matrix, sought)
    contributions = np.full(observed.shape[1], np.nan)
    for j in np.flatnonzero(observed[u]):
        ratings, weights = problem.ratings.copy(), problem.weights.copy()
        ratings[u, j], weights[u, j] = 0.0, unrated[0] if unrated[1] else 0.0
        without = replace(problem, ratings=ratings, weights=weights)
        contributions[j] = gain @ (right - ridge.user_system(without, x, u)[1])
    return float(gain @ right) - float(np.nansum(contributions)), contributions


def of_poisson(
    state: poisson.State, data: poisson.Data, observed: Array, u: int, i: int, priors: poisson.Priors
) -> Parts:
    """The same for posterior means: the hidden counts of each rating, as parts of the shapes above the prior."""
    hidden = poisson.hidden_counts(state, data)[u, :, :-2] * observed[u][:, None]
    worth = state.item_mean[i] / state.user_rate[u]
    above = worth * (state.user_shape[u] - priors.user_shape)
    total = hidden.sum(axis=0)
    shares = hidden / np.where(total > 0.0, total, 1.0)
    return float(worth.sum() * priors.user_shape), np.where(observed[u], shares @ above, np.nan)
