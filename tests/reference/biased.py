"""Least squares with biases, a common confounder weight and departures from it, dense: every pair is a row.

    J = sum_{all u,i} w_ui [ (y_ui - z_ui (theta_u . beta_i + b_u + c_i) - gamma_u h_ui - beta_0)^2 + gamma_u^2 Var_ui ]
        + sum_u n_u (user_reg |theta_u|^2 + user_bias_reg b_u^2) + sum_i n_i (item_reg |beta_i|^2 + item_bias_reg c_i^2)
        + r sum_u (gamma_u - gamma)^2 + common_reg gamma^2 + intercept_reg beta_0^2

Departures with an estimated variance 1 / r have a posterior N(gamma_u - gamma, v_u) each, and J is twice the bound:
+ sum_u v_u curvature_u + 2 KL(posterior || prior), with the squares of the departures left to the KL.
"""

from dataclasses import dataclass, replace

import numpy as np

from .poisson import Array
from .ridge import normal_equations


@dataclass(frozen=True)
class Problem:
    """Everything J needs besides the unknowns; the matrices are (U, I).

    mask : z, where the preference acts. h : the confounder of each pair, whatever it was made from. variance : of h, 0
    where it does not count. weight_of : "none", "user" (gamma = 0), "global" (no departures), "pooled" (both).
    user_count, item_count : what the regularisers of each row are multiplied with. common_reg : None is r where there
    are no departures, and 0 where there are.
    """

    ratings: Array
    weights: Array
    mask: Array
    h: Array
    variance: Array
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
    estimates_reg: bool = False
    common_reg: float | None = None

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
        default = self.confounder_reg if self.weight_of == "global" else 0.0
        return default if self.common_reg is None else self.common_reg


@dataclass(frozen=True)
class Unknowns:
    """theta (U, K), b (U,), gamma_u (U,), beta (I, K), c (I,), beta_0, gamma, r; v (U,) of the departures."""

    theta: Array
    user_bias: Array
    weight: Array
    beta: Array
    item_bias: Array
    intercept: float
    gamma: float
    reg: float
    posterior: Array


def start(problem: Problem, beta: Array, rank: int, intercept: float) -> Unknowns:
    """Items at ``beta``, all else at zero."""
    n_users, n_items = problem.ratings.shape
    nothing = np.zeros(n_users)
    return Unknowns(
        np.zeros((n_users, rank)), nothing, nothing, beta, np.zeros(n_items), intercept, 0.0, problem.confounder_reg,
        nothing,
    )  # fmt: skip


def predict(problem: Problem, x: Unknowns) -> Array:
    """Potential outcome of every pair."""
    return preference(x) + x.weight[:, None] * problem.h + x.intercept


def preference(x: Unknowns) -> Array:
    """theta . beta + b_u + c_i of every pair."""
    return x.theta @ x.beta.T + x.user_bias[:, None] + x.item_bias


def curvature(problem: Problem) -> Array:
    """What J curves in each gamma_u, without its prior."""
    return np.sum(problem.weights * (problem.h**2 + problem.variance), axis=1)


def objective(problem: Problem, x: Unknowns) -> float:
    """J, pair by pair."""
    residual = problem.ratings - problem.mask * preference(x) - x.weight[:, None] * problem.h - x.intercept
    total = np.sum(problem.weights * (residual**2 + x.weight[:, None] ** 2 * problem.variance))
    total += problem.user_count @ (
        problem.user_reg * np.sum(x.theta**2, axis=1) + problem.user_bias_reg * x.user_bias**2
    )
    total += problem.item_count @ (
        problem.item_reg * np.sum(x.beta**2, axis=1) + problem.item_bias_reg * x.item_bias**2
    )
    total += problem.intercept_reg * x.intercept**2 + problem.reg_of_common * x.gamma**2
    if problem.weight_of == "global":
        return float(total)
    squares = np.sum((x.weight - x.gamma) ** 2)
    if problem.estimates_reg:
        total += x.posterior @ curvature(problem) + np.sum(x.reg * x.posterior - 1.0 - np.log(x.reg * x.posterior))
    return float(total + x.reg * squares)


def update_users(problem: Problem, x: Unknowns) -> Unknowns:
    """[theta_u, b_u, gamma_u - gamma] of each user, and the variance of the last."""
    theta, bias, weight = x.theta.copy(), x.user_bias.copy(), x.weight.copy()
    rank = theta.shape[1]
    for u in range(len(theta)):
        z, h = problem.mask[u], problem.h[u]
        columns = [z[:, None] * x.beta]
        regs = [problem.user_count[u] * problem.user_reg] * rank
        target = problem.ratings[u] - z * x.item_bias - x.intercept - x.gamma * h
        if problem.biases:
            columns.append(z[:, None])
            regs.append(problem.user_count[u] * problem.user_bias_reg)
        if problem.own:
            columns.append(h[:, None])
            regs.append(x.reg)
        left, right = normal_equations(np.hstack(columns), target, problem.weights[u], np.array(regs))
        if problem.own:
            unsure = problem.weights[u] @ problem.variance[u]
            left[-1, -1] += unsure
            right[-1] -= unsure * x.gamma
        solution = np.linalg.solve(left, right)
        theta[u] = solution[:rank]
        bias[u] = solution[rank] if problem.biases else 0.0
        weight[u] = x.gamma + (solution[-1] if problem.own else 0.0)
    return replace(x, theta=theta, user_bias=bias, weight=weight, posterior=1.0 / (curvature(problem) + x.reg))


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
            regs.append(problem.item_count[i] * problem.item_bias_reg)
        target = problem.ratings[:, i] - z * x.user_bias - x.intercept - x.weight * problem.h[:, i]
        solution = np.linalg.solve(*normal_equations(np.hstack(columns), target, problem.weights[:, i], np.array(regs)))
        beta[i], bias[i] = solution[:rank], solution[rank] if problem.biases else 0.0
    return replace(x, beta=beta, item_bias=bias)


def update_shared(problem: Problem, x: Unknowns) -> Unknowns:
    """beta_0 and the common gamma together, the departures as they are; then r."""
    departure = x.weight - x.gamma
    known = problem.mask * preference(x) + departure[:, None] * problem.h
    columns, regs = [np.ones(problem.ratings.size)], [problem.intercept_reg]
    if problem.common:
        columns.append(problem.h.ravel())
        regs.append(problem.reg_of_common)
    left, right = normal_equations(
        np.column_stack(columns), (problem.ratings - known).ravel(), problem.weights.ravel(), np.array(regs)
    )
    if problem.common:
        unsure = problem.weights * problem.variance
        left[1, 1] += unsure.sum()
        right[1] -= departure @ unsure.sum(axis=1)
    solution = np.linalg.lstsq(left, right)[0]
    gamma = float(solution[1]) if problem.common else 0.0
    reg = x.reg
    if problem.estimates_reg:
        reg = len(departure) / float(departure @ departure + x.posterior.sum())
    return replace(x, intercept=float(solution[0]), gamma=gamma, weight=departure + gamma, reg=reg)


def sweep(problem: Problem, x: Unknowns, length: float = 1.0) -> Unknowns:
    """Users, items, each ``length`` times as far as to their optimum, then what all pairs share."""
    x = beyond(x, update_users(problem, x), length, ("theta", "user_bias", "weight"))
    x = beyond(x, update_items(problem, x), length, ("beta", "item_bias"))
    return update_shared(problem, x)


def beyond(before: Unknowns, after: Unknowns, length: float, names: tuple[str, ...]) -> Unknowns:
    """Go on in the direction of a step."""
    moved = {name: getattr(before, name) + length * (getattr(after, name) - getattr(before, name)) for name in names}
    return replace(after, **moved)
