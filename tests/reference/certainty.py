"""How sure a score is, dense: the covariance of a row's unknowns is sigma^2 A^-1, A the matrix of its regression."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from . import ridge
from .poisson import Array


class Certainty(NamedTuple):
    """variance (U, I) of each pair's prediction error; noise: of a pair of weight 1; leverage of users, of items."""

    variance: Array
    noise: float
    leverage: tuple[float, float]
    user_spread: Array
    item_spread: Array


def certainty(problem: ridge.Problem, x: ridge.Unknowns, observed: Array, predicted: Array) -> Certainty:
    """Of all pairs. observed : (U, I). predicted : (U, I) the confounder as it is predicted, not as it was fitted."""
    user_spread, fitted, item_spread = (np.zeros(observed.shape) for _ in range(3))
    for u in range(len(observed)):
        matrix, ones = ridge.user_system(problem, x, u)[0], np.ones(observed.shape[1])
        user_spread[u] = quadratics(ridge.user_design(problem, x, ones, predicted[u]), matrix)
        fitted[u] = quadratics(ridge.user_design(problem, x, ones, problem.h[u]), matrix)
    for i in range(observed.shape[1]):
        design = ridge.item_design(problem, x, np.ones(len(observed)))
        item_spread[:, i] = quadratics(design, ridge.item_system(problem, x, i)[0])
    leverage = tuple(float(np.sum(observed * problem.weights * spread)) for spread in (fitted, item_spread))
    residual = (problem.ratings - ridge.predict(problem, x, problem.h))[observed]
    n, weights = observed.sum(), problem.weights[observed]
    noise = float(weights @ residual**2 / (n * (1.0 - leverage[0] / n) * (1.0 - leverage[1] / n)))
    variance = noise * (1.0 / weights.mean() + user_spread + item_spread)
    return Certainty(variance, noise, (leverage[0], leverage[1]), user_spread, item_spread)


def quadratics(rows: Array, matrix: Array) -> Array:
    """row' A^-1 row of each row."""
    return np.einsum("nk,nk->n", rows, np.linalg.solve(matrix, rows.T).T)


def sensitivity_bounds(value: Array, propensity: Array, odds: float) -> tuple[float, float]:
    """Least and largest weighted mean over all corners of the box of inverse propensities."""
    against = 1.0 / propensity - 1.0
    corners = product(*[(1.0 + a / odds, 1.0 + a * odds) for a in against])
    means = [float(np.dot(w, value) / np.sum(w)) for w in corners]
    return min(means), max(means)


def odds_to_change(inside: Array, outside: Array, deviation: float) -> float:
    """Smallest odds by which some item outside may be as good as one inside, by halving."""
    # Means of equally likely parts of a standard normal variable.
    values = -20_000 * np.diff(norm.pdf(norm.ppf(np.linspace(0.0, 1.0, 20_001))))

    def may_change(odds: float) -> bool:
        high = np.arange(len(values)) >= len(values) * odds / (1.0 + odds)
        shift = deviation * float(np.mean(np.where(high, odds, 1.0 / odds) * values))
        return bool(min(inside) - shift <= max(outside) + shift)

    low, high = 0.0, np.log(1e6)
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (low, middle) if may_change(np.exp(middle)) else (middle, high)
    return float(np.exp(high))
