"""How sure a score is, dense: every pair is a row of its user's and of its item's design.

The covariance of a row's unknowns is sigma^2 A^-1, A = X' W X + regularisers, X over all pairs of the row.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.stats import norm

from . import biased
from .poisson import Array


@dataclass(frozen=True)
class Certainty:
    """variance (U, I) of each pair's prediction error; noise: of a pair of weight 1; leverage of users, of items."""

    variance: Array
    noise: float
    leverage: tuple[float, float]
    user_spread: Array
    item_spread: Array


def certainty(problem: biased.Problem, x: biased.Unknowns, observed: Array, predicted: Array) -> Certainty:
    """Of all pairs. observed : (U, I). predicted : (U, I) the confounder as it is predicted, not as it was fitted."""
    n_users, n_items = observed.shape
    spread = np.zeros((2, n_users, n_items))
    leverage = np.zeros((2, n_users, n_items))
    for u in range(n_users):
        covariance = np.linalg.inv(user_matrix(problem, x, u))
        for i in range(n_items):
            spread[0, u, i] = quadratic(user_row(problem, x, i, 1.0, predicted[u, i]), covariance)
            fitted = quadratic(user_row(problem, x, i, 1.0, problem.h[u, i]), covariance)
            leverage[0, u, i] = observed[u, i] * problem.weights[u, i] * fitted
    for i in range(n_items):
        covariance = np.linalg.inv(item_matrix(problem, x, i))
        for u in range(n_users):
            spread[1, u, i] = quadratic(item_row(problem, x, u, 1.0), covariance)
            leverage[1, u, i] = observed[u, i] * problem.weights[u, i] * spread[1, u, i]
    residual = problem.ratings - biased.predict(problem, x)
    n, weights = observed.sum(), problem.weights[observed]
    freedom = n * (1.0 - leverage[0].sum() / n) * (1.0 - leverage[1].sum() / n)
    noise = float(np.sum(weights * residual[observed] ** 2) / freedom)
    variance = noise * (1.0 / weights.mean() + spread[0] + spread[1])
    return Certainty(variance, noise, (leverage[0].sum(), leverage[1].sum()), spread[0], spread[1])


def quadratic(row: Array, matrix: Array) -> float:
    return float(row @ matrix @ row)


def user_row(problem: biased.Problem, x: biased.Unknowns, i: int, z: float, h: float) -> Array:
    """What [theta_u, kappa_u, b_u, gamma_u] is multiplied with."""
    q = biased.covariates(problem)[1][i]
    return np.concatenate([z * x.beta[i], z * q, [z] * problem.biases, [h] * problem.own])


def item_row(problem: biased.Problem, x: biased.Unknowns, u: int, z: float) -> Array:
    """What [beta_i, rho_i, c_i] is multiplied with."""
    return np.concatenate([z * x.theta[u], z * biased.covariates(problem)[0][u], [z] * problem.biases])


def user_matrix(problem: biased.Problem, x: biased.Unknowns, u: int) -> Array:
    rank, count = x.theta.shape[1], problem.user_count[u]
    regs = [count * problem.user_reg] * rank + [problem.confounder_reg] * x.kappa.shape[1]
    regs += [problem.user_bias_reg] * problem.biases
    regs += [problem.confounder_reg] * problem.own
    matrix = np.diag(np.array(regs, dtype=float))
    for i in range(problem.ratings.shape[1]):
        row = user_row(problem, x, i, problem.mask[u, i], problem.h[u, i])
        matrix += problem.weights[u, i] * np.outer(row, row)
    return matrix


def item_matrix(problem: biased.Problem, x: biased.Unknowns, i: int) -> Array:
    rank, count = x.beta.shape[1], problem.item_count[i]
    regs = [count * problem.item_reg] * rank + [problem.confounder_reg] * x.rho.shape[1]
    regs += [problem.item_bias_reg] * problem.biases
    matrix = np.diag(np.array(regs, dtype=float))
    for u in range(problem.ratings.shape[0]):
        row = item_row(problem, x, u, problem.mask[u, i])
        matrix += problem.weights[u, i] * np.outer(row, row)
    return matrix


def sensitivity_bounds(value: Array, propensity: Array, odds: float) -> tuple[float, float]:
    """Least and largest weighted mean over all corners of the box of inverse propensities."""
    against = 1.0 / propensity - 1.0
    corners = product(*[(1.0 + a / odds, 1.0 + a * odds) for a in against])
    means = [float(np.dot(w, value) / np.sum(w)) for w in corners]
    return min(means), max(means)


def standard_normal(n: int) -> Array:
    """Means of n equally likely parts of a standard normal variable."""
    ends = norm.ppf(np.linspace(0.0, 1.0, n + 1))
    return np.asarray(-n * np.diff(norm.pdf(ends)))


def worst_shift(odds: float, n: int = 1000) -> float:
    """Largest mean of a normal variable whose parts weigh anything from 1 / odds to odds, and 1 on average."""
    values = standard_normal(n)
    found = linprog(-values / n, A_eq=np.full((1, n), 1.0 / n), b_eq=[1.0], bounds=(1.0 / odds, odds))
    return float(-found.fun)


def odds_to_change(inside: Array, outside: Array, deviation: float) -> float:
    """Smallest odds by which some item outside may be as good as one inside: every pair of them, odds by halving."""
    values = standard_normal(20_000)

    def may_change(odds: float) -> bool:
        high = np.arange(len(values)) >= len(values) * odds / (1.0 + odds)
        shift = deviation * float(np.mean(np.where(high, odds, 1.0 / odds) * values))
        return any(i - shift <= j + shift for i in inside for j in outside)

    low, high = 0.0, np.log(1e6)
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (low, middle) if may_change(np.exp(middle)) else (middle, high)
    return float(np.exp(high))
