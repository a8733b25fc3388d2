"""Least squares with biases, a common confounder weight and departures from it, dense: every pair is a row.

    J = sum_{all u,i} w_ui (y_ui - z_ui (theta_u . beta_i + kappa_u . q_i + rho_i . p_u + b_u + c_i)
                            - gamma_u h_ui - beta_0)^2
        + sum_u (n_u user_reg |theta_u|^2 + user_bias_reg b_u^2) + sum_i (n_i item_reg |beta_i|^2 + item_bias_reg c_i^2)
        + confounder_reg (sum_u |kappa_u|^2 + sum_i |rho_i|^2)
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
    p, q : (U, P) and (I, Q), covariates of the users and of the items, both or none.
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
    p: Array | None = None
    q: Array | None = None

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
    """theta (U, K), b (U,), gamma_u (U,), beta (I, K), c (I,), beta_0, gamma, kappa (U, Q), rho (I, P)."""

    theta: Array
    user_bias: Array
    weight: Array
    beta: Array
    item_bias: Array
    intercept: float
    gamma: float
    kappa: Array
    rho: Array


def covariates(problem: Problem) -> tuple[Array, Array]:
    """p (U, P) and q (I, Q)."""
    n_users, n_items = problem.ratings.shape
    p, q = problem.p, problem.q
    return np.empty((n_users, 0)) if p is None else p, np.empty((n_items, 0)) if q is None else q


def start(problem: Problem, beta: Array, rank: int, intercept: float) -> Unknowns:
    """Items at ``beta``, all else at zero."""
    n_users, n_items = problem.ratings.shape
    nothing, (p, q) = np.zeros(n_users), covariates(problem)
    slopes = np.zeros((n_users, q.shape[1])), np.zeros((n_items, p.shape[1]))
    return Unknowns(
        np.zeros((n_users, rank)), nothing, nothing, beta, np.zeros(n_items), intercept, 0.0, *slopes,
    )  # fmt: skip


def predict(problem: Problem, x: Unknowns) -> Array:
    """Potential outcome of every pair."""
    return preference(problem, x) + x.weight[:, None] * problem.h + x.intercept


def preference(problem: Problem, x: Unknowns) -> Array:
    """theta . beta + kappa . q + rho . p + b_u + c_i of every pair."""
    p, q = covariates(problem)
    return x.theta @ x.beta.T + x.kappa @ q.T + p @ x.rho.T + x.user_bias[:, None] + x.item_bias


def objective(problem: Problem, x: Unknowns) -> float:
    """J, pair by pair."""
    residual = problem.ratings - problem.mask * preference(problem, x) - x.weight[:, None] * problem.h - x.intercept
    total = np.sum(problem.weights * residual**2)
    total += problem.user_reg * problem.user_count @ np.sum(x.theta**2, axis=1)
    total += problem.item_reg * problem.item_count @ np.sum(x.beta**2, axis=1)
    total += problem.confounder_reg * (np.sum(x.kappa**2) + np.sum(x.rho**2))
    total += problem.user_bias_reg * np.sum(x.user_bias**2) + problem.item_bias_reg * np.sum(x.item_bias**2)
    total += problem.intercept_reg * x.intercept**2 + problem.reg_of_common * x.gamma**2
    if problem.weight_of == "global":
        return float(total)
    squares = np.sum((x.weight - x.gamma) ** 2)
    return float(total + problem.confounder_reg * squares)


def update_users(problem: Problem, x: Unknowns) -> Unknowns:
    """[theta_u, kappa_u, b_u, gamma_u - gamma] of each user."""
    theta, bias, weight, kappa = x.theta.copy(), x.user_bias.copy(), x.weight.copy(), x.kappa.copy()
    rank, (p, q) = theta.shape[1], covariates(problem)
    for u in range(len(theta)):
        z, h = problem.mask[u], problem.h[u]
        columns = [z[:, None] * x.beta, z[:, None] * q]
        regs = [problem.user_count[u] * problem.user_reg] * rank + [problem.confounder_reg] * q.shape[1]
        target = problem.ratings[u] - z * (x.item_bias + x.rho @ p[u]) - x.intercept - x.gamma * h
        if problem.biases:
            columns.append(z[:, None])
            regs.append(problem.user_bias_reg)
        if problem.own:
            columns.append(h[:, None])
            regs.append(problem.confounder_reg)
        left, right = normal_equations(np.hstack(columns), target, problem.weights[u], np.array(regs))
        solution = np.linalg.solve(left, right)
        theta[u], kappa[u] = solution[:rank], solution[rank : rank + q.shape[1]]
        bias[u] = solution[rank + q.shape[1]] if problem.biases else 0.0
        weight[u] = x.gamma + (solution[-1] if problem.own else 0.0)
    return replace(x, theta=theta, user_bias=bias, weight=weight, kappa=kappa)


def update_items(problem: Problem, x: Unknowns) -> Unknowns:
    """[beta_i, rho_i, c_i] of each item."""
    beta, bias, rho = x.beta.copy(), x.item_bias.copy(), x.rho.copy()
    rank, (p, q) = beta.shape[1], covariates(problem)
    for i in range(len(beta)):
        z = problem.mask[:, i]
        columns = [z[:, None] * x.theta, z[:, None] * p]
        regs = [problem.item_count[i] * problem.item_reg] * rank + [problem.confounder_reg] * p.shape[1]
        if problem.biases:
            columns.append(z[:, None])
            regs.append(problem.item_bias_reg)
        known = z * (x.user_bias + x.kappa @ q[i])
        target = problem.ratings[:, i] - known - x.intercept - x.weight * problem.h[:, i]
        solution = np.linalg.solve(*normal_equations(np.hstack(columns), target, problem.weights[:, i], np.array(regs)))
        beta[i], rho[i] = solution[:rank], solution[rank : rank + p.shape[1]]
        bias[i] = solution[rank + p.shape[1]] if problem.biases else 0.0
    return replace(x, beta=beta, item_bias=bias, rho=rho)


def update_shared(problem: Problem, x: Unknowns) -> Unknowns:
    """beta_0 and the common gamma together, the departures as they are."""
    departure = x.weight - x.gamma
    known = problem.mask * preference(problem, x) + departure[:, None] * problem.h
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
