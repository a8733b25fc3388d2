"""Gaussian models of the ratings, dense: every pair is a row of its user's and of its item's regression.

    J = sum_{all u,i} w_ui (y_ui - z_ui m_ui - gamma_u h_ui - beta_0)^2
        + sum_u (n_u user_reg |theta_u|^2 + user_bias_reg b_u^2) + sum_i (n_i item_reg |beta_i|^2 + item_bias_reg c_i^2)
        + confounder_reg (sum_u |kappa_u|^2 + sum_i |rho_i|^2)
        + confounder_reg sum_u (gamma_u - gamma)^2 + common_reg gamma^2 + intercept_reg beta_0^2

m_ui = theta_u . beta_i + kappa_u . q_i + rho_i . p_u + b_u + c_i, with covariates p of users and q of items. common_reg
is confounder_reg where gamma is the users' only one, and 0 where theirs depart from it.

    model            z rated    z not rated    w rated        w not rated
    probabilistic    1          0              1              0 classical, 1 deconfounded
    weighted         1          1              1 + alpha y    1

Inverse propensities multiply w on the rated pairs.
"""

from dataclasses import astuple, dataclass, replace

import numpy as np

from .poisson import Array

System = tuple[Array, Array]


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
    fit_intercept: bool = True
    p: Array | None = None
    q: Array | None = None

    @property
    def covariates(self) -> tuple[Array, Array]:
        none = [np.empty((n, 0)) for n in self.ratings.shape]
        return (none[0] if self.p is None else self.p), (none[1] if self.q is None else self.q)

    @property
    def own(self) -> bool:
        return self.weight_of in ("user", "pooled")

    @property
    def common(self) -> bool:
        return self.weight_of in ("global", "pooled")

    @property
    def common_reg(self) -> float:
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


def start(problem: Problem, beta: Array, intercept: float) -> Unknowns:
    """Items at ``beta``, all else at zero."""
    n_users, n_items = problem.ratings.shape
    theta, nothing = np.zeros((n_users, beta.shape[1])), np.zeros(n_users)
    p, q = problem.covariates
    slopes = np.zeros((n_users, q.shape[1])), np.zeros((n_items, p.shape[1]))
    return Unknowns(theta, nothing, nothing, beta, np.zeros(n_items), intercept, 0.0, *slopes)


def preference(problem: Problem, x: Unknowns) -> Array:
    p, q = problem.covariates
    return x.theta @ x.beta.T + x.kappa @ q.T + p @ x.rho.T + x.user_bias[:, None] + x.item_bias


def predict(problem: Problem, x: Unknowns, h: Array) -> Array:
    return preference(problem, x) + x.weight[:, None] * h + x.intercept


def objective(problem: Problem, x: Unknowns) -> float:
    """J, pair by pair."""
    residual = problem.ratings - problem.mask * preference(problem, x) - x.weight[:, None] * problem.h - x.intercept
    total = np.sum(problem.weights * residual**2)
    total += problem.user_reg * problem.user_count @ np.sum(x.theta**2, axis=1)
    total += problem.item_reg * problem.item_count @ np.sum(x.beta**2, axis=1)
    total += problem.confounder_reg * (np.sum(x.kappa**2) + np.sum(x.rho**2))
    total += problem.user_bias_reg * np.sum(x.user_bias**2) + problem.item_bias_reg * np.sum(x.item_bias**2)
    total += problem.intercept_reg * x.intercept**2 + problem.common_reg * x.gamma**2
    return float(total + problem.confounder_reg * np.sum((x.weight - x.gamma) ** 2) * problem.own)


def normal_equations(design: Array, target: Array, weight: Array, regs: Array) -> System:
    """A and b of min_x sum_n weight_n (target_n - design_n . x)^2 + sum_j regs_j x_j^2."""
    weighted = design.T * weight
    return weighted @ design + np.diag(regs), weighted @ target


def user_design(problem: Problem, x: Unknowns, z: Array, h: Array) -> Array:
    """What [theta_u, kappa_u, b_u, gamma_u - gamma] is multiplied with in each pair of a user; z, h : (I,)."""
    return np.hstack(
        [
            z[:, None] * x.beta,
            z[:, None] * problem.covariates[1],
            *[z[:, None]] * problem.biases,
            *[h[:, None]] * problem.own,
        ]
    )


def item_design(problem: Problem, x: Unknowns, z: Array) -> Array:
    """What [beta_i, rho_i, c_i] is multiplied with in each pair of an item; z : (U,)."""
    return np.hstack([z[:, None] * x.theta, z[:, None] * problem.covariates[0], *[z[:, None]] * problem.biases])


def user_system(problem: Problem, x: Unknowns, u: int) -> System:
    z, h = problem.mask[u], problem.h[u]
    known = z * (x.item_bias + x.rho @ problem.covariates[0][u])
    target = problem.ratings[u] - known - x.intercept - x.gamma * h
    regs = [problem.user_count[u] * problem.user_reg] * x.theta.shape[1]
    regs += [problem.confounder_reg] * x.kappa.shape[1] + [problem.user_bias_reg] * problem.biases
    regs += [problem.confounder_reg] * problem.own
    return normal_equations(user_design(problem, x, z, h), target, problem.weights[u], np.array(regs))


def item_system(problem: Problem, x: Unknowns, i: int) -> System:
    z = problem.mask[:, i]
    known = z * (x.user_bias + x.kappa @ problem.covariates[1][i])
    target = problem.ratings[:, i] - known - x.intercept - x.weight * problem.h[:, i]
    regs = [problem.item_count[i] * problem.item_reg] * x.beta.shape[1]
    regs += [problem.confounder_reg] * x.rho.shape[1] + [problem.item_bias_reg] * problem.biases
    return normal_equations(item_design(problem, x, z), target, problem.weights[:, i], np.array(regs))


def update_users(problem: Problem, x: Unknowns) -> Unknowns:
    solved = np.array([np.linalg.solve(*user_system(problem, x, u)) for u in range(len(x.theta))])
    rank, end = x.theta.shape[1], x.theta.shape[1] + x.kappa.shape[1]
    bias = solved[:, end] if problem.biases else x.user_bias
    weight = x.gamma + (solved[:, -1] if problem.own else np.zeros(len(solved)))
    return replace(x, theta=solved[:, :rank], kappa=solved[:, rank:end], user_bias=bias, weight=weight)


def update_items(problem: Problem, x: Unknowns) -> Unknowns:
    solved = np.array([np.linalg.solve(*item_system(problem, x, i)) for i in range(len(x.beta))])
    rank, end = x.beta.shape[1], x.beta.shape[1] + x.rho.shape[1]
    bias = solved[:, end] if problem.biases else x.item_bias
    return replace(x, beta=solved[:, :rank], rho=solved[:, rank:end], item_bias=bias)


def update_shared(problem: Problem, x: Unknowns) -> Unknowns:
    """beta_0 and the common gamma together, the departures as they are."""
    departure = x.weight - x.gamma
    known = problem.mask * preference(problem, x) + departure[:, None] * problem.h
    of_shared = [(np.ones(problem.ratings.size), problem.intercept_reg)] * problem.fit_intercept
    of_shared += [(problem.h.ravel(), problem.common_reg)] * problem.common
    if not of_shared:
        return x
    columns, regs = zip(*of_shared, strict=True)
    target, weights = (problem.ratings - known).ravel(), problem.weights.ravel()
    solution = np.linalg.lstsq(*normal_equations(np.column_stack(columns), target, weights, np.array(regs)))[0]
    gamma = float(solution[-1]) if problem.common else 0.0
    intercept = float(solution[0]) if problem.fit_intercept else 0.0
    return replace(x, intercept=intercept, gamma=gamma, weight=departure + gamma)


def sweep(problem: Problem, x: Unknowns) -> Unknowns:
    return update_shared(problem, update_items(problem, update_users(problem, x)))


def long_sweep(problem: Problem, x: Unknowns, length: float) -> Unknowns:
    """A sweep in which both sides go ``length`` times as far as to their solutions."""
    for update in (update_users, update_items):
        solved = update(problem, x)
        parts = zip(astuple(x), astuple(solved), strict=True)
        x = Unknowns(*(before + length * (after - before) for before, after in parts))
    return update_shared(problem, x)
