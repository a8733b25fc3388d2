"""Exact least squares over all pairs, at the cost of the observed ones.

    J = sum_{all u,i} w_ui (y_ui - m_ui - gamma_u a_hat_ui - beta_0)^2 + regularisers

w_ui is ``weight`` on the observed pairs and ``unobserved`` (w0) off them; m_ui = theta_u . beta_i on the observed
pairs, and off them too when ``everywhere`` (z = 1: weighted MF; z = 0: probabilistic MF). The rows of ``users`` are
[theta_u, gamma_u] where each user has a confounder weight, else theta_u; those of ``items`` are beta_i; ``exposure`` is
E[pi_u] or E[lambda_i], and a_hat their product. Since a_hat is of low rank, every sum over all pairs is a product of
Gram matrices. The intercept and a global gamma are ``shared`` by all pairs and solved together.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, sposv

from dcrec_spark.kernels.csr import inner_products, pieces, row_sums
from dcrec_spark.kernels.gamma import Floats


class RatingBlock(NamedTuple):
    """Observed pairs of one block in row order; a_hat is zero-length where the model carries no confounder.

    row_ptr (n + 1,), col (nnz,) places in the inbox, rating, weight (nnz,), a_hat (nnz,) or (0,),
    exposure (n, L): the exposure factors of the rows, L = 0 without a confounder.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    rating: Floats
    weight: Floats
    a_hat: Floats
    exposure: Floats

    @property
    def has_confounder(self) -> bool:
        """Whether the model has the term gamma a_hat."""
        return bool(self.exposure.shape[1] > 0)


class Design(NamedTuple):
    """Which pairs carry which term.

    unobserved : w0, the weight of the unobserved pairs. everywhere : whether they carry the preference term (z).
    per_user : whether each user has a confounder weight of his own; else one is shared by all.
    """

    unobserved: float
    everywhere: bool
    per_user: bool = True

    @property
    def on_preference(self) -> float:
        """Weight z w0 of an unobserved pair in the preference term."""
        return self.unobserved if self.everywhere else 0.0


class Regulariser(NamedTuple):
    """1 / prior variance of each part, with unit noise."""

    user: float
    item: float
    confounder: float
    intercept: float


class Shared(NamedTuple):
    """What all pairs share: beta_0, and gamma where there is one for all users (else 0)."""

    intercept: float = 0.0
    gamma: float = 0.0


Array = NDArray[Any]
Sums = dict[str, NDArray[np.float64]]


def update_users(
    block: RatingBlock, items: Floats, sums: Mapping[str, Array], shared: Shared, design: Design, reg: Regulariser
) -> Floats:
    """Solve for the preference and the confounder weight of each user jointly: one Cholesky solve in K (+ 1) unknowns.

    Parameters
    ----------
    block : the ratings of n users. items : (m, K), the items of the inbox.
    sums : of :func:`item_sums`, over all items.
    shared : the terms of all pairs. design, reg : of the model.

    Returns
    -------
    (n, K + 1), the confounder weight last, or (n, K) where the users have none of their own.
    """
    return _solve_rows(block, users_system(block, items, sums, shared, design, reg))


def update_items(
    block: RatingBlock, users: Floats, sums: Mapping[str, Array], shared: Shared, design: Design, reg: Regulariser
) -> Floats:
    """Solve for the attributes of each item, given the users.

    Parameters
    ----------
    block : the ratings of n items. users : (m, K + 1) with the confounder weight last, or (m, K).
    sums : :func:`user_sums` over all users.
    shared : the terms of all pairs. design, reg : of the model.

    Returns
    -------
    (n, K).
    """
    gamma_per_user = block.has_confounder and design.per_user
    rank = users.shape[1] - gamma_per_user
    confounding = _confounding(block, users, rank, shared, design)
    theta = np.ascontiguousarray(users[:, :rank])
    gamma = 1.0 if gamma_per_user else shared.gamma
    return _solve_rows(
        block, preference_system(block, theta, sums, confounding, gamma, shared.intercept, design, reg.item)
    )


class System(NamedTuple):
    """The normal equations of each row: (base + border + X' diag(curvature) X) x = right + X' pull, X the sources.

    base : (F, F) the same for all rows. border : (n, F) the last row of each row's matrix, or (n, 0); with a border,
    the last column of X is a_hat, and the sources only hold its place. right : (n, F). curvature, pull : (nnz,).
    """

    sources: Floats
    curvature: Floats
    pull: Floats
    base: Floats
    border: Floats
    right: Floats


def users_system(
    block: RatingBlock, items: Floats, sums: Mapping[str, Array], shared: Shared, design: Design, reg: Regulariser
) -> System:
    """Set up the normal equations that :func:`update_users` solves."""
    if block.has_confounder and design.per_user:
        return joint_system(block, items, sums, shared.intercept, design, reg)
    confounding = shared.gamma * block.a_hat if block.has_confounder else np.zeros(len(block.col), items.dtype)
    return preference_system(block, items, sums, confounding, shared.gamma, shared.intercept, design, reg.user)


def joint_system(
    block: RatingBlock, items: Floats, sums: Mapping[str, Array], intercept: float, design: Design, reg: Regulariser
) -> System:
    """Set up the users' system where each of them has a confounder weight."""
    n, rank = len(block.row_ptr) - 1, items.shape[1]
    dtype, size = items.dtype, rank + 1
    w0, z_w0 = design.unobserved, design.on_preference

    base = np.zeros((size, size), dtype)
    base[:rank, :rank] = z_w0 * sums["gram"] + reg.user * np.eye(rank)
    exposure = block.exposure.astype(np.float64)
    border = np.empty((n, size), dtype)
    border[:, :rank] = z_w0 * (exposure @ sums["cross"].T)
    border[:, rank] = w0 * np.einsum("ul,lm,um->u", exposure, sums["exposure_gram"], exposure) + reg.confounder
    right = np.empty((n, size), dtype)
    right[:, :rank] = -z_w0 * intercept * sums["total"]
    right[:, rank] = -w0 * intercept * (exposure @ sums["exposure_total"])
    # On observed pairs the confounder stands off the observed part with w0, the preference with z w0.
    border[:, rank] -= (w0 - z_w0) * row_sums(block.row_ptr, np.square(block.a_hat))
    right[:, rank] += (w0 - z_w0) * intercept * row_sums(block.row_ptr, block.a_hat)
    return System(
        sources=np.hstack([items, np.zeros((len(items), 1), dtype)]),
        curvature=block.weight - dtype.type(z_w0),
        pull=block.weight * (block.rating - dtype.type(intercept)) + dtype.type(z_w0 * intercept),
        base=base,
        border=border,
        right=right,
    )


def preference_system(
    block: RatingBlock,
    sources: Floats,
    sums: Mapping[str, Array],
    confounding: Floats,
    gamma: float,
    intercept: float,
    design: Design,
    reg: float,
) -> System:
    """Set up the system of rows of preference alone, users or items, given the confounder.

    confounding : (nnz,) gamma a_hat of each nonzero. gamma : what ``sums["cross"]`` is still to be multiplied with.
    """
    n, rank = len(block.row_ptr) - 1, sources.shape[1]
    dtype, z_w0 = sources.dtype, design.on_preference
    right = np.tile(-z_w0 * intercept * sums["total"], (n, 1))
    if block.has_confounder:
        right -= z_w0 * gamma * (block.exposure @ sums["cross"].T)
    shift = confounding + dtype.type(intercept)
    return System(
        sources=sources,
        curvature=block.weight - dtype.type(z_w0),
        pull=block.weight * (block.rating - shift) + dtype.type(z_w0) * shift,
        base=(z_w0 * sums["gram"] + reg * np.eye(rank)).astype(dtype),
        border=np.zeros((n, 0), dtype),
        right=right.astype(dtype),
    )


def _confounding(block: RatingBlock, users: Floats, rank: int, shared: Shared, design: Design) -> Floats:
    """Compute gamma a_hat_ui of each nonzero of an item block."""
    if not block.has_confounder:
        return np.zeros(len(block.col), users.dtype)
    gamma = users[block.col, rank] if design.per_user else users.dtype.type(shared.gamma)
    return np.asarray(gamma * block.a_hat)


def _solve_rows(block: RatingBlock, system: System) -> Floats:
    """Solve each row's :class:`System`. A row whose matrix is not positive definite comes back as NaN."""
    solved = np.empty_like(system.right)
    for row, (matrix, right) in enumerate(assembled(block, system)):
        solved[row] = solve(matrix, right)
    return solved


def assembled(block: RatingBlock, system: System) -> Iterator[tuple[Floats, Floats]]:
    """Assemble each row's matrix, lower triangle, and right-hand side, in arrays that the next row overwrites."""
    sources, curvature, pull, base, border, right = system
    bordered = border.shape[1] > 0
    matrix, row_right = np.empty_like(base), np.empty_like(right[:1])[0]
    scale = np.sqrt(curvature) if len(curvature) == 0 or curvature.min() >= 0 else None
    walk = pieces(block.row_ptr)
    piece = next(walk, None)
    for row in range(len(right)):
        matrix[:] = base
        row_right[:] = right[row]
        if bordered:
            matrix[-1] += border[row]
        while piece is not None and piece[0] == row:
            start, end = piece[1], piece[2]
            gathered = gather(sources, block, start, end, bordered)
            row_right += pull[start:end] @ gathered
            if scale is None:
                matrix += gathered.T @ (gathered * curvature[start:end, None])
            else:
                gathered *= scale[start:end, None]
                matrix += gathered.T @ gathered
            piece = next(walk, None)
        yield matrix, row_right


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve matrix x = right, (F,) or (F, P), from the lower triangle of ``matrix``, which is overwritten.

    NaN where the matrix is not positive definite.
    """
    posv = dposv if matrix.dtype == np.float64 else sposv
    # The transpose hands LAPACK its own order, and reads the last row as the last column.
    _, solution, failed = posv(matrix.T, right, lower=0, overwrite_a=True)
    return np.full_like(solution, np.nan) if failed else solution


def gather(sources: Floats, block: RatingBlock, start: int, end: int, bordered: bool) -> Floats:
    """Gather the sources of some nonzeros, a_hat in the last column where the system is bordered."""
    gathered = sources[block.col[start:end]]
    if bordered:
        gathered[:, -1] = block.a_hat[start:end]
    return gathered


def item_sums(attributes: Floats, exposure: Floats) -> Sums:
    """Compute what the users need of all items: G_bb, sum beta, G_bl, G_ll, sum lambda (float64)."""
    b, e = attributes.astype(np.float64), exposure.astype(np.float64)
    return {
        "gram": b.T @ b,
        "total": b.sum(axis=0),
        "cross": b.T @ e,
        "exposure_gram": e.T @ e,
        "exposure_total": e.sum(axis=0),
    }


def user_sums(users: Floats, exposure: Floats, design: Design) -> Sums:
    """Compute what the items, the shared terms and the objective need of all users (float64).

    gram, total : Theta'Theta, sum theta. cross : Theta' diag(gamma) Pi. confounder_gram : Pi' diag(gamma^2) Pi.
    confounder_total : sum gamma pi. confounder_square : |gamma|^2. Where gamma is shared, it is left out of them.
    """
    gamma_per_user = exposure.shape[1] > 0 and design.per_user
    theta = users[:, : users.shape[1] - gamma_per_user].astype(np.float64)
    weighted = exposure.astype(np.float64)
    gamma = users[:, -1].astype(np.float64) if gamma_per_user else np.zeros(0)
    if gamma_per_user:
        weighted = weighted * gamma[:, None]
    return {
        "gram": theta.T @ theta,
        "total": theta.sum(axis=0),
        "cross": theta.T @ weighted,
        "confounder_gram": weighted.T @ weighted,
        "confounder_total": weighted.sum(axis=0),
        "confounder_square": np.array(gamma @ gamma),
    }


def observed_sums(block: RatingBlock, attributes: Floats, users: Floats, design: Design) -> Sums:
    """Compute what the shared terms and the objective need of the observed pairs of an item block.

    The shared terms are x = [beta_0 (, gamma)]. With d = [1 (, a_hat)], e = y - p - gamma_u a_hat and
    q = gamma_u a_hat + z p, where gamma_u = 0 if gamma is shared:
    sum (w e^2 - w0 q^2), sum (w e + w0 q) d, sum (w - w0) d d'  (float64).
    """
    error, shown, design_rows = _residuals(block, attributes, users, design)
    weight, w0 = block.weight.astype(np.float64), design.unobserved
    return {
        "square": np.array(weight @ np.square(error) - w0 * (shown @ shown)),
        "linear": design_rows @ (weight * error + w0 * shown),
        "curvature": (design_rows * (weight - w0)) @ design_rows.T,
    }


def held_out_sums(block: RatingBlock, attributes: Floats, users: Floats, design: Design) -> Sums:
    """Compute sum e^2, sum e d, sum d d' of held-out pairs, as :func:`observed_sums` has them (float64)."""
    error, _, design_rows = _residuals(block, attributes, users, design)
    return {
        "held_square": np.array(error @ error),
        "held_linear": design_rows @ error,
        "held_curvature": design_rows @ design_rows.T,
    }


def held_out_error(items: Mapping[str, Array], shared: Shared) -> float:
    """Compute the mean squared error of the held-out pairs from the sums of :func:`held_out_sums`."""
    x = np.array(shared)[: len(items["held_linear"])]
    total = items["held_square"] - 2.0 * x @ items["held_linear"] + x @ items["held_curvature"] @ x
    return float(total / items["held_curvature"][0, 0])


def _residuals(block: RatingBlock, attributes: Floats, users: Floats, design: Design) -> tuple[Array, Array, Array]:
    """Compute e, q and the rows of d, (1, nnz) or (2, nnz)."""
    gamma_per_user = block.has_confounder and design.per_user
    rank = attributes.shape[1]
    theta = np.ascontiguousarray(users[:, :rank])
    preference = inner_products(block.row_ptr, block.col, attributes, theta).astype(np.float64)
    confounding = _confounding(block, users, rank, Shared(), design).astype(np.float64)
    ones = np.ones((1, len(block.col)))
    rows = ones if gamma_per_user or not block.has_confounder else np.vstack([ones, block.a_hat])
    return block.rating - preference - confounding, confounding + preference * design.everywhere, rows


def shared_and_objective(
    users: Mapping[str, Array],
    items: Mapping[str, Array],
    n_pairs: float,
    design: Design,
    reg: Regulariser,
    fit_intercept: bool,
) -> tuple[Shared, float]:
    """Solve for the shared terms that minimise J given all factors, and J there. J is quadratic in them.

    Parameters
    ----------
    users : :func:`user_sums` of all users. items : :func:`item_sums` and :func:`observed_sums` of all items.
    n_pairs : U x I.
    design, reg : of the model. fit_intercept : whether beta_0 is free; else it is 0.
    """
    w0, z = design.unobserved, float(design.everywhere)
    confounding_square = np.vdot(users["confounder_gram"], items["exposure_gram"])
    confounding_total = users["confounder_total"] @ items["exposure_total"]
    product = z * np.vdot(users["cross"], items["cross"])
    global_gamma = len(items["linear"]) == 2
    preference = z * (users["total"] @ items["total"])

    slope, curvature = items["linear"].copy(), items["curvature"].copy()
    slope[0] -= w0 * (preference + (0.0 if global_gamma else confounding_total))
    curvature[0, 0] += w0 * n_pairs + reg.intercept
    if global_gamma:
        slope[1] -= w0 * product
        curvature[1, 1] += w0 * confounding_square + reg.confounder
        curvature[0, 1] += w0 * confounding_total
        curvature[1, 0] += w0 * confounding_total
    at_zero = (
        items["square"]
        + w0 * z * np.vdot(users["gram"], items["gram"])
        + (0.0 if global_gamma else w0 * (confounding_square + 2.0 * product))
        + reg.user * np.trace(users["gram"])
        + reg.item * np.trace(items["gram"])
        + reg.confounder * users["confounder_square"]
    )
    solution = np.zeros(len(slope))
    free = slice(0 if fit_intercept else 1, None)
    if len(solution[free]):
        solution[free] = np.linalg.lstsq(curvature[free, free], slope[free])[0]
    objective = at_zero - 2.0 * solution @ slope + solution @ curvature @ solution
    return Shared(*map(float, solution)), float(objective)
