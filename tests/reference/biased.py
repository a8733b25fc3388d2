"""Least squares with biases, a common confounder weight and departures from it, dense: every pair is a row.

    J = sum_{all u,i} w_ui (y_ui - z_ui (theta_u . beta_i + b_u + c_i) - gamma_u h_ui - beta_0)^2
        + sum_u (n_u user_reg |theta_u|^2 + user_bias_reg b_u^2) + sum_i (n_i item_reg |beta_i|^2 + item_bias_reg c_i^2)
        + confounder_reg sum_u (gamma_u - gamma)^2 + common_reg gamma^2 + intercept_reg beta_0^2

common_reg is confounder_reg where gamma is the users' only one, and 0 where theirs depart from it.
"""

from dataclasses import dataclass, replace

import numpy as np

from .poisson import Array
from .ridge import normal_equations


@dataclass(frozen=True)
class Problem:
    """Everything J needs besides the unknowns; the matrices are (U, I).

    mask : z, where the preference acts. h : the confounder of each pair, whatever it was made from.
    weight_of : "none", "user" (gamma = 0), "global" (no departures), "pooled" (both).
    user_count, item_count : what the regularisers of each row's factors are multiplied with.
    """

    ratings: Array
    weights: Array
    mask: Array
    h: Array
    weight_of: str
    user_count: Array
    item_count: Array
    biases: bool = True
    user_reg: float = 1.0
    item_reg: float = 1.0
    confounder_reg: float = 1.0
    intercept_reg: float = 1.0
    user_bias_reg: float = 1.0
    item_bias_reg: float = 1.0

    @property
    def own(self) -> bool:
        """Whether each user has a weight of the confounder."""
        return self.weight_of in ("user", "pooled")

    @property
    def common(self) -> bool:
        """Whether there is one for all."""
        return self.weight_of in ("global", "pooled")

    @property
    def reg_of_common(self) -> float:
        """What gamma^2 is multiplied with."""
        return self.confounder_reg if self.weight_of == "global" else 0.0


@dataclass(frozen=True)
class Unknowns:
    """theta (U, K), b (U,), gamma_u (U,), beta (I, K), c (I,), beta_0, gamma."""

    theta: Array
    user_bias: Array
    weight: Array
    beta: Array
    item_bias: Array
    intercept: float
    gamma: float


def start(problem: Problem, beta: Array, rank: int, intercept: float) -> Unknowns:
    """Items at ``beta``, all else at zero."""
    n_users, n_items = problem.ratings.shape
    nothing = np.zeros(n_users)
    return Unknowns(
        np.zeros((n_users, rank)), nothing, nothing, beta, np.zeros(n_items), intercept, 0.0,
    )  # fmt: skip


def predict(problem: Problem, x: Unknowns) -> Array:
    """Potential outcome of every pair."""
    return preference(x) + x.weight[:, None] * problem.h + x.intercept


def preference(x: Unknowns) -> Array:
    """theta . beta + b_u + c_i of every pair."""
    return x.theta @ x.beta.T + x.user_bias[:, None] + x.item_bias


def objective(problem: Problem, x: Unknowns) -> float:
    """J, pair by pair."""
    residual = problem.ratings - problem.mask * preference(x) - x.weight[:, None] * problem.h - x.intercept
    total = np.sum(problem.weights * residual**2)
    total += problem.user_reg * problem.user_count @ np.sum(x.theta**2, axis=1)
    total += problem.item_reg * problem.item_count @ np.sum(x.beta**2, axis=1)
    total += problem.user_bias_reg * np.sum(x.user_bias**2) + problem.item_bias_reg * np.sum(x.item_bias**2)
    total += problem.intercept_reg * x.intercept**2 + problem.reg_of_common * x.gamma**2
    if problem.weight_of == "global":
        return float(total)
    squares = np.sum((x.weight - x.gamma) ** 2)
    return float(total + problem.confounder_reg * squares)


def update_users(problem: Problem, x: Unknowns) -> Unknowns:
    """[theta_u, b_u, gamma_u - gamma] of each user."""
    theta, bias, weight = x.theta.copy(), x.user_bias.copy(), x.weight.copy()
    rank = theta.shape[1]
    for u in range(len(theta)):
        z, h = problem.mask[u], problem.h[u]
        columns = [z[:, None] * x.beta]
        regs = [problem.user_count[u] * problem.user_reg] * rank
        target = problem.ratings[u] - z * x.item_bias - x.intercept - x.gamma * h
        if problem.biases:
            columns.append(z[:, None])
            regs.append(problem.user_bias_reg)
        if problem.own:
            columns.append(h[:, None])
            regs.append(problem.confounder_reg)
        left, right = normal_equations(np.hstack(columns), target, problem.weights[u], np.array(regs))
        solution = np.linalg.solve(left, right)
        theta[u] = solution[:rank]
        bias[u] = solution[rank] if problem.biases else 0.0
        weight[u] = x.gamma + (solution[-1] if problem.own else 0.0)
    return replace(x, theta=theta, user_bias=bias, weight=weight)


def update_items(problem: Problem, x: Unknowns) -> Unknowns:
    """[beta_i, c_i] of each item."""
    beta, bias = x.beta.copy(), x.item_bias.copy()
    rank = beta.shape[1]
    for i in range(len(beta)):
        z = problem.mask[:, i]
        columns = [z[:, None] * x.theta]
        regs = [problem.item_count[i] * problem.item_reg] * rank
        if problem.biases:
            columns.append(z[:, None])
            regs.append(problem.item_bias_reg)
        target = problem.ratings[:, i] - z * x.user_bias - x.intercept - x.weight * problem.h[:, i]
        solution = np.linalg.solve(*normal_equations(np.hstack(columns), target, problem.weights[:, i], np.array(regs)))
        beta[i], bias[i] = solution[:rank], solution[rank] if problem.biases else 0.0
    return replace(x, beta=beta, item_bias=bias)


def update_shared(problem: Problem, x: Unknowns) -> Unknowns:
    """beta_0 and the common gamma together, the departures as they are."""
    departure = x.weight - x.gamma
    known = problem.mask * preference(x) + departure[:, None] * problem.h
    columns, regs = [np.ones(problem.ratings.size)], [problem.intercept_reg]
    if problem.common:
        columns.append(problem.h.ravel())
        regs.append(problem.reg_of_common)
    left, right = normal_equations(
        np.column_stack(columns), (problem.ratings - known).ravel(), problem.weights.ravel(), np.array(regs)
    )
    solution = np.linalg.lstsq(left, right)[0]
    gamma = float(solution[1]) if problem.common else 0.0
    return replace(x, intercept=float(solution[0]), gamma=gamma, weight=departure + gamma)


def sweep(problem: Problem, x: Unknowns) -> Unknowns:
    """Users, items, then what all pairs share."""
    return update_shared(problem, update_items(problem, update_users(problem, x)))
