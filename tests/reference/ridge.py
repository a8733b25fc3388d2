"""Gaussian models of the ratings, dense: probabilistic and weighted matrix factorization.

    J = sum_{all u,i} w_ui (y_ui - m_ui - gamma_u a_hat_ui - beta_0)^2
        + user_reg |Theta|^2 + item_reg |B|^2 + confounder_reg |gamma|^2 + intercept_reg beta_0^2

    model            m_ui rated      m_ui not rated    w_ui rated       w_ui not rated
    probabilistic    theta . beta    0                 1                0 classical, 1 deconfounded
    weighted         theta . beta    theta . beta      1 + alpha y      1

The classical models have gamma = 0. Inverse propensities multiply w on the rated pairs. Every block of
coordinates is solved by one generic ridge regression, whose rows are all pairs that the block touches.
"""

from dataclasses import dataclass, replace

import numpy as np

from .poisson import Array

ALPHA = 40.0


@dataclass(frozen=True)
class Problem:
    """Everything J needs besides the factors. The matrices are (U, I).

    ratings    y, zero where not rated (a rated pair may hold a zero as well)
    weights    w of every pair, rated or not
    mask       1 where m_ui = theta . beta, 0 where m_ui = 0
    a_hat      substitute confounder; zeros in a classical model
    confounder "none" (gamma fixed at 0), "user" (one gamma per user) or "global" (one gamma for all)
    """

    ratings: Array
    weights: Array
    mask: Array
    a_hat: Array
    confounder: str
    user_reg: float = 1.0
    item_reg: float = 1.0
    confounder_reg: float = 1.0
    intercept_reg: float = 1.0
    fit_intercept: bool = True


@dataclass(frozen=True)
class Factors:
    """Theta (U, K), B (I, K), gamma (U,) (all equal when global), beta_0."""

    user_preference: Array
    item_attribute: Array
    confounder_weight: Array
    intercept: float


def make_problem(
    outcome: str,
    confounder: str,
    ratings: Array,
    observed: Array,
    a_hat: Array | None = None,
    unobserved_weight: float | None = None,
    inverse_propensity: Array | None = None,
    alpha: float = ALPHA,
    **settings: float,
) -> Problem:
    """The table above, pair by pair; `outcome` is "probabilistic" or "weighted", `observed` is boolean."""
    if unobserved_weight is None:
        unobserved_weight = 0.0 if outcome == "probabilistic" and confounder == "none" else 1.0
    weights, mask, targets = np.zeros(ratings.shape), np.zeros(ratings.shape), np.zeros(ratings.shape)
    for u in range(ratings.shape[0]):
        for i in range(ratings.shape[1]):
            if observed[u, i]:
                mask[u, i] = 1.0
                targets[u, i] = ratings[u, i]
                weights[u, i] = 1.0 if outcome == "probabilistic" else 1.0 + alpha * ratings[u, i]
                weights[u, i] *= 1.0 if inverse_propensity is None else inverse_propensity[u, i]
            else:
                mask[u, i] = 0.0 if outcome == "probabilistic" else 1.0
                weights[u, i] = unobserved_weight
    confounding = np.zeros(ratings.shape) if a_hat is None or confounder == "none" else a_hat
    return Problem(targets, weights, mask, confounding, confounder, **settings)


def predict(problem: Problem, factors: Factors) -> Array:
    """Potential outcome of every pair, (U, I): theta . beta + gamma a_hat + beta_0, whether rated or not."""
    preference = factors.user_preference @ factors.item_attribute.T
    return preference + factors.confounder_weight[:, None] * problem.a_hat + factors.intercept


def objective(problem: Problem, factors: Factors) -> float:
    """J by a double loop."""
    total = 0.0
    for u in range(problem.ratings.shape[0]):
        for i in range(problem.ratings.shape[1]):
            preference = problem.mask[u, i] * (factors.user_preference[u] @ factors.item_attribute[i])
            confounding = factors.confounder_weight[u] * problem.a_hat[u, i]
            residual = problem.ratings[u, i] - preference - confounding - factors.intercept
            total += problem.weights[u, i] * residual**2
    return float(total + penalty(problem, factors))


def penalty(problem: Problem, factors: Factors) -> float:
    """The regularisers of J. A global gamma is one parameter and is charged once, not once per user."""
    gammas = factors.confounder_weight[:1] if problem.confounder == "global" else factors.confounder_weight
    return float(
        problem.user_reg * np.sum(factors.user_preference**2)
        + problem.item_reg * np.sum(factors.item_attribute**2)
        + problem.confounder_reg * np.sum(gammas**2)
        + problem.intercept_reg * factors.intercept**2
    )


def normal_equations(design: Array, target: Array, weight: Array, regs: Array) -> tuple[Array, Array]:
    """A and b of min_x sum_n weight_n (target_n - design_n . x)^2 + sum_j regs_j x_j^2, row by row."""
    left, right = np.diag(np.asarray(regs, dtype=float)), np.zeros(design.shape[1])
    for row, y, w in zip(design, target, weight, strict=True):
        left += w * np.outer(row, row)
        right += w * y * row
    return left, right


def user_system(problem: Problem, factors: Factors, u: int) -> tuple[Array, Array]:
    """A and b of [theta_u ; gamma_u], or of theta_u alone if gamma is not the user's; rows: all items."""
    design = problem.mask[u][:, None] * factors.item_attribute
    target = problem.ratings[u] - factors.intercept
    regs = [problem.user_reg] * design.shape[1]
    if problem.confounder == "user":
        design = np.column_stack([design, problem.a_hat[u]])
        regs.append(problem.confounder_reg)
    else:
        target = target - factors.confounder_weight[u] * problem.a_hat[u]
    return normal_equations(design, target, problem.weights[u], np.array(regs))


def item_system(problem: Problem, factors: Factors, i: int) -> tuple[Array, Array]:
    """A and b of beta_i; rows: all users."""
    design = problem.mask[:, i][:, None] * factors.user_preference
    target = problem.ratings[:, i] - factors.confounder_weight * problem.a_hat[:, i] - factors.intercept
    regs = np.full(design.shape[1], problem.item_reg)
    return normal_equations(design, target, problem.weights[:, i], regs)


def shared_system(problem: Problem, factors: Factors) -> tuple[Array, Array]:
    """A and b of [beta_0, gamma] where one gamma is for all, of beta_0 alone where not; rows: all pairs."""
    preference = problem.mask * (factors.user_preference @ factors.item_attribute.T)
    ones = np.ones(problem.ratings.size)
    if problem.confounder == "global":
        design, drawn, regs = np.column_stack([ones, problem.a_hat.ravel()]), 0.0, [problem.confounder_reg]
    else:
        design, drawn, regs = ones[:, None], factors.confounder_weight[:, None] * problem.a_hat, []
    regs = np.array([problem.intercept_reg, *regs])
    if not problem.fit_intercept:
        design, regs = design[:, 1:], regs[1:]
    target = (problem.ratings - preference - drawn).ravel()
    return normal_equations(design, target, problem.weights.ravel(), regs)


def update_users(problem: Problem, factors: Factors) -> Factors:
    """Every theta_u, and gamma_u with it when each user has one."""
    rank = factors.user_preference.shape[1]
    users, gammas = np.empty_like(factors.user_preference), factors.confounder_weight.copy()
    for u in range(len(users)):
        solution = np.linalg.solve(*user_system(problem, factors, u))
        users[u] = solution[:rank]
        if problem.confounder == "user":
            gammas[u] = solution[rank]
    return replace(factors, user_preference=users, confounder_weight=gammas)


def update_items(problem: Problem, factors: Factors) -> Factors:
    """Every beta_i."""
    items = np.empty_like(factors.item_attribute)
    for i in range(len(items)):
        items[i] = np.linalg.solve(*item_system(problem, factors, i))
    return replace(factors, item_attribute=items)


def update_shared(problem: Problem, factors: Factors) -> Factors:
    """beta_0 and, where it is global, the gamma of all users, together."""
    if not problem.fit_intercept and problem.confounder != "global":
        return factors
    solution = list(np.linalg.solve(*shared_system(problem, factors)))
    if problem.fit_intercept:
        factors = replace(factors, intercept=float(solution.pop(0)))
    if problem.confounder == "global":
        factors = replace(factors, confounder_weight=np.full_like(factors.confounder_weight, solution[0]))
    return factors


def sweep(problem: Problem, factors: Factors) -> Factors:
    """Users, items, then what all pairs share."""
    return update_shared(problem, update_items(problem, update_users(problem, factors)))
