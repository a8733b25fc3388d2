"""The systems of `ridge` in the cost of the rated pairs: sums over all pairs as Gram matrices.

a_hat = Pi Lambda' and, in the weighted model, m = Theta B' are low rank, so a sum over all pairs is a Gram
matrix plus a correction on the rated pairs. z is 1 where pairs not rated have m = theta . beta, 0 where they
have m = 0.
"""

from dataclasses import dataclass

import numpy as np

from .poisson import Array
from .ridge import Factors


@dataclass(frozen=True)
class LowRankProblem:
    """The rated pairs as triplets with their weights; the others are w0 and z; a_hat is Pi Lambda'."""

    user: Array
    item: Array
    rating: Array
    weight: Array
    unobserved_weight: float
    z: float
    user_exposure: Array
    item_exposure: Array
    user_reg: float = 1.0
    item_reg: float = 1.0
    confounder_reg: float = 1.0
    intercept_reg: float = 1.0

    @property
    def a_hat(self) -> Array:
        """Substitute confounder of the rated pairs, (nnz,)."""
        return np.sum(self.user_exposure[self.user] * self.item_exposure[self.item], axis=1)


def user_system(problem: LowRankProblem, factors: Factors, u: int) -> tuple[Array, Array]:
    """A and b of [theta_u ; gamma_u]."""
    rows = problem.user == u
    beta, a_hat = factors.item_attribute[problem.item[rows]], problem.a_hat[rows]
    y, w, w0, z = problem.rating[rows], problem.weight[rows], problem.unobserved_weight, problem.z
    pi, intercept, items = problem.user_exposure[u], factors.intercept, factors.item_attribute
    rank = items.shape[1]
    left, right = np.empty((rank + 1, rank + 1)), np.empty(rank + 1)
    left[:rank, :rank] = z * w0 * items.T @ items + (beta.T * (w - z * w0)) @ beta + problem.user_reg * np.eye(rank)
    left[:rank, rank] = z * w0 * (items.T @ problem.item_exposure) @ pi + beta.T @ ((w - z * w0) * a_hat)
    left[rank, :rank] = left[:rank, rank]
    left[rank, rank] = w0 * pi @ (problem.item_exposure.T @ problem.item_exposure) @ pi
    left[rank, rank] += np.sum((w - w0) * a_hat**2) + problem.confounder_reg
    right[:rank] = -z * w0 * intercept * items.sum(axis=0) + beta.T @ (w * (y - intercept) + z * w0 * intercept)
    right[rank] = -w0 * intercept * pi @ problem.item_exposure.sum(axis=0)
    right[rank] += np.sum((w * (y - intercept) + w0 * intercept) * a_hat)
    return left, right


def item_system(problem: LowRankProblem, factors: Factors, i: int) -> tuple[Array, Array]:
    """A and b of beta_i."""
    rows = problem.item == i
    owner = problem.user[rows]
    users, theta, w0z = (
        factors.user_preference,
        factors.user_preference[owner],
        problem.z * problem.unobserved_weight,
    )
    y, w, added = (
        problem.rating[rows],
        problem.weight[rows],
        factors.confounder_weight[owner] * problem.a_hat[rows],
    )
    left = w0z * users.T @ users + (theta.T * (w - w0z)) @ theta + problem.item_reg * np.eye(users.shape[1])
    mixed = (users.T * factors.confounder_weight) @ problem.user_exposure
    right = -w0z * (mixed @ problem.item_exposure[i] + factors.intercept * users.sum(axis=0))
    right += theta.T @ (w * (y - added - factors.intercept) + w0z * (added + factors.intercept))
    return left, right


def confounder_system(problem: LowRankProblem, factors: Factors) -> tuple[float, float]:
    """A and b of a gamma shared by all users."""
    users, items, pi, lam = (
        factors.user_preference, factors.item_attribute, problem.user_exposure, problem.item_exposure
    )  # fmt: skip
    w, w0, z, a_hat, intercept = (
        problem.weight,
        problem.unobserved_weight,
        problem.z,
        problem.a_hat,
        factors.intercept,
    )
    p = np.sum(users[problem.user] * items[problem.item], axis=1)
    left = w0 * np.sum((pi.T @ pi) * (lam.T @ lam)) + np.sum((w - w0) * a_hat**2) + problem.confounder_reg
    right = np.sum((w * (problem.rating - p - intercept) + w0 * (z * p + intercept)) * a_hat)
    right -= w0 * z * np.sum((users.T @ pi) * (items.T @ lam))
    right -= w0 * intercept * pi.sum(axis=0) @ lam.sum(axis=0)
    return float(left), float(right)


def intercept_system(problem: LowRankProblem, factors: Factors) -> tuple[float, float]:
    """A and b of beta_0."""
    users, items = factors.user_preference, factors.item_attribute
    w, w0, z = problem.weight, problem.unobserved_weight, problem.z
    p = np.sum(users[problem.user] * items[problem.item], axis=1)
    added = factors.confounder_weight[problem.user] * problem.a_hat
    left = np.sum(w - w0) + w0 * len(users) * len(items) + problem.intercept_reg
    right = np.sum(w * (problem.rating - p - added) + w0 * (z * p + added))
    right -= w0 * z * users.sum(axis=0) @ items.sum(axis=0)
    right -= w0 * (factors.confounder_weight @ problem.user_exposure) @ problem.item_exposure.sum(axis=0)
    return float(left), float(right)


def objective_without_penalty(problem: LowRankProblem, factors: Factors) -> float:
    """The weighted squares of J."""
    users, items, gamma = factors.user_preference, factors.item_attribute, factors.confounder_weight
    pi, lam, intercept = problem.user_exposure, problem.item_exposure, factors.intercept
    w0, z = problem.unobserved_weight, problem.z
    p = np.sum(users[problem.user] * items[problem.item], axis=1)
    added = gamma[problem.user] * problem.a_hat
    residual = problem.rating - p - added - intercept
    rated = np.sum(problem.weight * residual**2 - w0 * (intercept + added + z * p) ** 2)
    every = len(users) * len(items) * intercept**2
    every += np.sum(((pi.T * gamma**2) @ pi) * (lam.T @ lam))
    every += 2.0 * intercept * (gamma @ pi) @ lam.sum(axis=0)
    preference = np.sum((users.T @ users) * (items.T @ items))
    preference += 2.0 * intercept * users.sum(axis=0) @ items.sum(axis=0)
    preference += 2.0 * np.sum(((users.T * gamma) @ pi) * (items.T @ lam))
    return float(rated + w0 * (every + z * preference))
