"""Exact least squares over all pairs, at the cost of the observed ones.

    J = sum_{all u,i} w_ui (y_ui - m_ui - gamma_u a_hat_ui - beta_0)^2 + regularisers

w_ui is ``weight`` on the observed pairs and ``unobserved`` (w0) off them; m_ui = theta_u . beta_i on the observed
pairs, and off them too when ``everywhere`` (z = 1: weighted MF; z = 0: probabilistic MF). The rows of ``users`` are
[theta_u, gamma_u], those of ``items`` beta_i; ``exposure`` is E[pi_u] or E[lambda_i], and a_hat their product. Since
a_hat is of low rank, every sum over all pairs is a product of Gram matrices.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, sposv

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.rows import pieces


class RatingBlock(NamedTuple):
    """Observed pairs of one block in row order; a_hat is zero-length where the model carries no confounder.

    row_ptr (n + 1,), col (nnz,) places in the inbox, rating, weight (nnz,), a_hat (nnz,) or (0,),
    exposure (n, L): the rows' own exposure factors, L = 0 without a confounder.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    rating: Floats
    weight: Floats
    a_hat: Floats
    exposure: Floats


class Off(NamedTuple):
    """The unobserved pairs: their weight w0, and whether they carry the preference term (z)."""

    unobserved: float
    everywhere: bool

    @property
    def on_preference(self) -> float:
        """z w0: what an unobserved pair weighs in the preference term."""
        return self.unobserved if self.everywhere else 0.0


class Regulariser(NamedTuple):
    """1 / prior variance of each part, with unit noise."""

    user: float
    item: float
    confounder: float
    intercept: float


Array = NDArray[Any]
Sums = dict[str, NDArray[np.float64]]


def update_users(
    block: RatingBlock, items: Floats, sums: Mapping[str, Array], intercept: float, off: Off, reg: Regulariser
) -> Floats:
    """Jointly the preference and the confounder weight of each user: one Cholesky solve in K (+ 1) unknowns.

    items : (m, K), the items of the inbox. sums : the item sums of :func:`item_sums`, over all items.
    Returns (n, K + 1), the confounder weight last, or (n, K) without a confounder.
    """
    n, rank = len(block.row_ptr) - 1, items.shape[1]
    dtype, has_confounder = items.dtype, block.exposure.shape[1] > 0
    size = rank + has_confounder
    w0, z_w0 = off.unobserved, off.on_preference

    base = np.zeros((size, size), dtype)
    base[:rank, :rank] = z_w0 * sums["gram"] + reg.user * np.eye(rank)
    right = np.zeros((n, size), dtype)
    right[:, :rank] = -z_w0 * intercept * sums["total"]
    border = np.zeros((n, 0), dtype)
    if has_confounder:
        exposure = block.exposure.astype(np.float64)
        border = np.empty((n, size), dtype)
        border[:, :rank] = z_w0 * (exposure @ sums["cross"].T)
        border[:, rank] = w0 * np.einsum("ul,lm,um->u", exposure, sums["exposure_gram"], exposure) + reg.confounder
        right[:, rank] = -w0 * intercept * (exposure @ sums["exposure_total"])
        # On observed pairs the confounder stands off the observed part with w0, the preference with z w0.
        border[:, rank] -= (w0 - z_w0) * row_sums(block.row_ptr, np.square(block.a_hat))
        right[:, rank] += (w0 - z_w0) * intercept * row_sums(block.row_ptr, block.a_hat)
    return _solve_rows(
        block,
        np.hstack([items, np.zeros((len(items), size - rank), dtype)]),
        curvature=block.weight - dtype.type(z_w0),
        pull=block.weight * (block.rating - dtype.type(intercept)) + dtype.type(z_w0 * intercept),
        base=base,
        border=border,
        right=right,
    )


def update_items(
    block: RatingBlock, users: Floats, sums: Mapping[str, Array], intercept: float, off: Off, reg: Regulariser
) -> Floats:
    """The attributes of each item, given the users; (n, K).

    users : (m, K + 1) with the confounder weight last, or (m, K). sums : :func:`user_sums` over all users.
    """
    n, has_confounder = len(block.row_ptr) - 1, block.exposure.shape[1] > 0
    rank = users.shape[1] - has_confounder
    dtype, z_w0 = users.dtype, off.on_preference
    base = (z_w0 * sums["gram"] + reg.item * np.eye(rank)).astype(dtype)
    right = np.tile(-z_w0 * intercept * sums["total"], (n, 1))
    if has_confounder:
        right -= z_w0 * (block.exposure @ sums["cross"].T)
    shift = _confounding(block, users, rank) + dtype.type(intercept)
    plain = RatingBlock(*block[:4], np.empty(0, dtype), np.empty((n, 0), dtype))
    return _solve_rows(
        plain,
        np.ascontiguousarray(users[:, :rank]),
        curvature=block.weight - dtype.type(z_w0),
        pull=block.weight * (block.rating - shift) + dtype.type(z_w0) * shift,
        base=base,
        border=np.zeros((n, 0), dtype),
        right=right.astype(dtype),
    )


def _confounding(block: RatingBlock, users: Floats, rank: int) -> Floats:
    """gamma_u a_hat_ui of each nonzero of an item block."""
    if block.exposure.shape[1] == 0:
        return np.zeros(len(block.col), users.dtype)
    return np.asarray(users[block.col, rank] * block.a_hat)


def _solve_rows(
    block: RatingBlock,
    sources: Floats,
    curvature: Floats,
    pull: Floats,
    base: Floats,
    border: Floats,
    right: Floats,
) -> Floats:
    """Row by row: (base + border + X' diag(curvature) X) x = right + X' pull, X the sources.

    base : (F, F) the same for all rows. border : (n, F) the last row of each row's matrix, or (n, 0); with a border,
    the last column of X is a_hat, and the sources only hold its place.
    A row whose matrix is not positive definite comes back as NaN.
    """
    bordered = border.shape[1] > 0
    posv = dposv if base.dtype == np.float64 else sposv
    solved = np.empty_like(right)
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
            gathered = _gather(sources, block, start, end, bordered)
            row_right += pull[start:end] @ gathered
            if scale is None:
                matrix += gathered.T @ (gathered * curvature[start:end, None])
            else:
                gathered *= scale[start:end, None]
                matrix += gathered.T @ gathered
            piece = next(walk, None)
        # The transpose hands LAPACK its own order, and reads the last row as the last column.
        _, solution, failed = posv(matrix.T, row_right, lower=0, overwrite_a=True)
        solved[row] = np.nan if failed else solution
    return solved


def _gather(sources: Floats, block: RatingBlock, start: int, end: int, bordered: bool) -> Floats:
    gathered = sources[block.col[start:end]]
    if bordered:
        gathered[:, -1] = block.a_hat[start:end]
    return gathered


def row_sums(row_ptr: NDArray[np.int64], values: Floats) -> NDArray[np.float64]:
    """Sum of each row's values; (n,), zero for an empty row."""
    row = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    return np.bincount(row, weights=values, minlength=len(row_ptr) - 1).astype(np.float64, copy=False)


def item_sums(attributes: Floats, exposure: Floats) -> Sums:
    """What the users need of all items: G_bb, sum beta, G_bl, G_ll, sum lambda (float64)."""
    b, e = attributes.astype(np.float64), exposure.astype(np.float64)
    return {
        "gram": b.T @ b,
        "total": b.sum(axis=0),
        "cross": b.T @ e,
        "exposure_gram": e.T @ e,
        "exposure_total": e.sum(axis=0),
    }


def user_sums(users: Floats, exposure: Floats) -> Sums:
    """What the items, the intercept and the objective need of all users (float64).

    gram, total : Theta'Theta, sum theta. cross : Theta' diag(gamma) Pi. confounder_gram : Pi' diag(gamma^2) Pi.
    confounder_total : sum gamma pi. confounder_square : |gamma|^2.
    """
    has_confounder = exposure.shape[1] > 0
    theta = users[:, : users.shape[1] - has_confounder].astype(np.float64)
    weighted = exposure.astype(np.float64)
    if has_confounder:
        weighted = weighted * users[:, -1:].astype(np.float64)
    gamma = users[:, -1].astype(np.float64) if has_confounder else np.zeros(0)
    return {
        "gram": theta.T @ theta,
        "total": theta.sum(axis=0),
        "cross": theta.T @ weighted,
        "confounder_gram": weighted.T @ weighted,
        "confounder_total": weighted.sum(axis=0),
        "confounder_square": np.array(gamma @ gamma),
    }


def observed_sums(block: RatingBlock, attributes: Floats, users: Floats, off: Off) -> Sums:
    """What the intercept and the objective need of the observed pairs of an item block (float64).

    With e = y - p - gamma a_hat, q = gamma a_hat + z p:  sum (w e^2 - w0 q^2),  sum (w e + w0 q),  sum (w - w0).
    """
    rank = attributes.shape[1]
    preference = np.empty(len(block.col), np.float64)
    for row, start, end in pieces(block.row_ptr):
        preference[start:end] = users[block.col[start:end], :rank] @ attributes[row]
    confounding = _confounding(block, users, rank).astype(np.float64)
    weight = block.weight.astype(np.float64)
    error = block.rating - preference - confounding
    shown = confounding + preference * off.everywhere
    return {
        "square": np.array(weight @ np.square(error) - off.unobserved * (shown @ shown)),
        "linear": np.array(weight @ error + off.unobserved * shown.sum()),
        "constant": np.array((weight - off.unobserved).sum()),
    }


def intercept_and_objective(
    users: Mapping[str, Array],
    items: Mapping[str, Array],
    n_pairs: float,
    off: Off,
    reg: Regulariser,
    fit_intercept: bool,
) -> tuple[float, float]:
    """beta_0 that minimises J given all factors, and J there. J is a parabola in beta_0.

    users : :func:`user_sums` of all users. items : :func:`item_sums` and :func:`observed_sums` of all items.
    n_pairs : U x I.
    """
    w0, z = off.unobserved, float(off.everywhere)
    slope = (
        items["linear"]
        - w0 * z * (users["total"] @ items["total"])
        - w0 * (users["confounder_total"] @ items["exposure_total"])
    )
    curvature = items["constant"] + w0 * n_pairs + reg.intercept
    intercept = float(slope / curvature) if fit_intercept else 0.0
    at_zero = (
        items["square"]
        + w0 * np.vdot(users["confounder_gram"], items["exposure_gram"])
        + w0 * z * (np.vdot(users["gram"], items["gram"]) + 2.0 * np.vdot(users["cross"], items["cross"]))
        + reg.user * np.trace(users["gram"])
        + reg.item * np.trace(items["gram"])
        + reg.confounder * users["confounder_square"]
    )
    return intercept, float(at_zero - 2.0 * intercept * slope + curvature * intercept**2)
