"""Sums over all pairs at the cost of both sides' rows. Shared terms, objective and held-out error from them.

What the model says of any pair is a sum of terms, each a product of a part of the augmented row of its user and one of
its item (:class:`dcrec_spark.kernels.ridge_terms.TermColumns`)::

    preference  [kappa_u, theta_u, p_u, b_u, 1] . [q_i, beta_i, rho_i, 1, c_i]      own     gamma_u pi_u . lambda_i
    one         1 . 1                                                               common  pi_u . lambda_i

So the sum over all pairs of one term times another is the product of two blocks of the sides' Gram matrices. J is
quadratic in the shared terms, with numbers that these products give.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock, Shared, Sums, TermColumns
from dcrec_spark.kernels.threads import loop_input, loop_inputs, over_rows


def side_sums(rows: Floats, exposure: Floats, design: Design, is_user: bool) -> Sums:
    """Compute what the other side, the shared terms and the objective need of all rows of a side (float64).

    gram : (K, K) of the factors. augmented : of the rows [kappa, theta, p, (b,) 1, (gamma pi,) (pi)] of users, and
    [q, beta, rho, 1, (c,) lambda] of items.

    rows : (n, Q + K + P (+ 1) (+ 1)) [kappa, theta, p (, b) (, gamma)], or [q, beta, rho (, c)]. exposure : (n, L).
    """
    one, exposed = np.ones((len(rows), 1)), exposure.astype(np.float64)
    if is_user:
        own_weight = exposure.shape[1] > 0 and design.per_user
        parts = [rows[:, : rows.shape[1] - own_weight], one]
        parts += [exposed * rows[:, -1:]] * own_weight + [exposed] * design.shares_gamma
    else:
        end = rows.shape[1] - design.biases
        parts = [rows[:, :end], one, rows[:, end:], exposed]
    augmented = np.hstack([part.astype(np.float64, copy=False) for part in parts])
    gram = augmented.T @ augmented
    return {"gram": np.ascontiguousarray(gram[design.factors, design.factors]), "augmented": gram}


def penalty(rows: Floats, block: RatingBlock, is_user: bool, shared: Shared, design: Design) -> dict[str, Array]:
    """Compute the regularisers of a block's rows, and the users' squared departures from gamma (float64).

    rows : the block's, as :func:`side_sums` takes them.
    """
    penalised = design.penalty(rows.astype(np.float64, copy=False), block.n_pairs, is_user)
    sums = {"penalty": np.array(penalised)}
    if is_user and block.has_confounder and design.per_user:
        departure = rows[:, -1].astype(np.float64) - shared.gamma
        sums["departure_square"] = np.array(departure @ departure)
    return sums


def observed_sums(
    block: RatingBlock, rows: Floats, others: Floats, shared: Shared, design: Design, is_user: bool = False
) -> Sums:
    """Compute what the shared terms and the objective need of the observed pairs of a block, of items by default.

    The shared terms are x = [beta_0 (, gamma)], delta_u = gamma_u - gamma is the departure of a user. With
    d = [1 (, h)], e = y - p - delta_u h and q = delta_u h + z p the sums are: sum (w e^2 - w0 q^2),
    sum (w e d + w0 q d), sum (w - w0) d d', w0 meeting h as the product of the exposures (float64).
    """
    from dcrec_spark.kernels.loops import pairs

    departs = block.has_confounder and design.per_user
    given = loop_inputs(block), loop_input(rows), loop_input(others)
    shape = design.width, design.biases, departs and is_user, departs and not is_user
    sums = np.empty((len(rows), 6))
    numbers = float(shared.gamma), float(design.unobserved), design.everywhere
    over_rows(pairs.scores, block.row_ptr, *given, *shape, *numbers, sums)
    square, linear, linear_h, curve, curve_h, curve_hh = sums.sum(axis=0)
    terms = 1 + (block.has_confounder and design.shares_gamma)
    curvature = np.array([[curve, curve_h], [curve_h, curve_hh]])
    return {"square": square, "linear": np.array([linear, linear_h])[:terms], "curvature": curvature[:terms, :terms]}


def held_out_sums(
    block: RatingBlock, rows: Floats, others: Floats, shared: Shared, design: Design, is_user: bool = False
) -> Sums:
    """Compute sum e^2, sum e d, sum d d' of held-out pairs, as :func:`observed_sums` has them (float64)."""
    equal = block._replace(weight=np.ones_like(block.weight))
    sums = observed_sums(equal, rows, others, shared, design._replace(unobserved=0.0), is_user)
    return {f"held_{name}": total for name, total in sums.items()}


def held_out_error(items: Mapping[str, Array], shared: Shared) -> float:
    """Compute the mean squared error of the held-out pairs from the sums of :func:`held_out_sums`."""
    x = np.array(shared)[: len(items["held_linear"])]
    total = items["held_square"] - 2.0 * x @ items["held_linear"] + x @ items["held_curvature"] @ x
    return float(total / items["held_curvature"][0, 0])


def shared_and_objective(
    users: Mapping[str, Array],
    items: Mapping[str, Array],
    shared: Shared,
    design: Design,
    fit_intercept: bool,
) -> tuple[Shared, float]:
    """Solve for the shared terms that minimise J given all else, and J there. J is quadratic in them.

    users, items : :func:`side_sums` and :func:`penalty` of all rows, and the items' :func:`observed_sums`.
    fit_intercept : whether beta_0 is free, else it is 0.
    """
    of_shared = _OfShared.of(users, items, shared, design)
    solution = np.zeros(len(of_shared.slope))
    free = slice(0 if fit_intercept else 1, len(solution))
    if len(solution[free]):
        solution[free] = np.linalg.lstsq(of_shared.curvature[free, free], of_shared.slope[free])[0]
    intercept, gamma = [*map(float, solution), 0.0][:2]
    moved = gamma - shared.gamma if design.per_user else 0.0
    return Shared(intercept, gamma, moved), of_shared.at(solution)


def objective(users: Mapping[str, Array], items: Mapping[str, Array], shared: Shared, design: Design) -> float:
    """Compute J where the shared terms are those that the rows were solved with, from the sums of both sides."""
    of_shared = _OfShared.of(users, items, shared, design)
    return of_shared.at(np.array([shared.intercept, shared.gamma])[: len(of_shared.slope)])


class _OfShared(NamedTuple):
    """J as a function of the shared terms."""

    at_zero: float
    slope: Array
    curvature: Array

    @classmethod
    def of(cls, users: Mapping[str, Array], items: Mapping[str, Array], shared: Shared, design: Design) -> "_OfShared":
        w0, reg, has_gamma = design.unobserved, design.reg, len(items["linear"]) == 2
        product = _products(users, items, design)
        # z p + delta_u h: what departs from gamma is gamma_u - gamma, where the users have a weight of their own.
        residual = np.array([float(design.everywhere), 1.0, -shared.gamma * design.per_user, 0.0])
        drawn = np.array([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])[: 1 + has_gamma]
        regs = [reg.intercept, 0.0 if design.pooled else reg.confounder][: 1 + has_gamma]
        at_zero = items["square"] + w0 * residual @ product @ residual + users["penalty"] + items["penalty"]
        at_zero += reg.confounder * users.get("departure_square", 0.0)
        slope = items["linear"] - w0 * drawn @ product @ residual
        return cls(float(at_zero), slope, items["curvature"] + w0 * drawn @ product @ drawn.T + np.diag(regs))

    def at(self, terms: Array) -> float:
        return float(self.at_zero - 2.0 * terms @ self.slope + terms @ self.curvature @ terms)


def _products(users: Mapping[str, Array], items: Mapping[str, Array], design: Design) -> NDArray[np.float64]:
    """Add up, over all pairs, each product of two of the terms preference, own, common and one. (4, 4)."""
    user_gram, item_gram = users["augmented"], items["augmented"]
    exposure_rank = len(item_gram) - design.width - 1 - design.biases
    of_users, of_items = (TermColumns.of(design, exposure_rank, is_user).terms for is_user in (True, False))
    products = np.zeros((4, 4))
    for a, b in np.ndindex(4, 4):
        user_block = user_gram[of_users[a], of_users[b]]
        if user_block.size:
            products[a, b] = np.vdot(user_block, item_gram[of_items[a], of_items[b]])
    return products
