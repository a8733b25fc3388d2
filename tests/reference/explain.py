"""What each of a user's ratings contributes to his preference for an item, dense.

A preference is linear in the right-hand side of the user's system, and the right-hand side is a sum over pairs. Each
observed pair is credited with its own term, less what an unrated pair in its place would have put there; the baseline
is what is left: the same sum without any rating.
"""

from dataclasses import replace

import numpy as np

from . import poisson_outcome as outcome
from . import ridge
from .poisson import Array


def of_least_squares(
    problem: ridge.Problem, factors: ridge.Factors, observed: Array, unrated: tuple[float, float], u: int, i: int
) -> tuple[float, dict[int, float]]:
    """Baseline, and contribution by rated item. unrated : weight and mask of a pair that is not rated.

    A pair whose mask is 0 when unrated has another row of the design then, and is credited with its whole own term.
    """
    matrix, right = ridge.user_system(problem, factors, u)
    sought = np.zeros(len(right))
    sought[: factors.item_attribute.shape[1]] = factors.item_attribute[i]
    gain = np.linalg.solve(matrix, sought)
    contributions = {}
    for j in np.flatnonzero(observed[u]):
        credited = right - ridge.user_system(_without(problem, u, j, *unrated), factors, u)[1]
        contributions[int(j)] = float(gain @ credited)
    return float(gain @ right) - sum(contributions.values()), contributions


def _without(problem: ridge.Problem, u: int, j: int, weight: float, mask: float) -> ridge.Problem:
    ratings, weights = problem.ratings.copy(), problem.weights.copy()
    ratings[u, j], weights[u, j] = 0.0, weight if mask else 0.0
    return replace(problem, ratings=ratings, weights=weights)


def of_poisson(
    state: outcome.OutcomeState,
    data: outcome.OutcomeData,
    observed: Array,
    u: int,
    i: int,
    priors: outcome.OutcomePriors,
) -> tuple[float, dict[int, float]]:
    """The same for posterior means: the hidden counts of each rating, as parts of the shapes above the prior."""
    phi = outcome.outcome_responsibilities(state, data)[u]
    baseline, contributions = 0.0, dict.fromkeys(map(int, np.flatnonzero(observed[u])), 0.0)
    for k in range(state.user_shape.shape[1]):
        worth = state.item_mean[i, k] / state.user_rate[u, k]
        baseline += worth * priors.user_shape
        hidden = {j: data.weights[u, j] * data.ratings[u, j] * phi[j, k] for j in contributions}
        for j in contributions:
            if hidden[j]:
                share = hidden[j] / sum(hidden.values())
                contributions[j] += worth * (state.user_shape[u, k] - priors.user_shape) * share
    return float(baseline), contributions
