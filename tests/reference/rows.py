"""Sums over the pairs of each row, dense references: one row at a time, in double precision."""

import numpy as np

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.ridge import Known
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Shared, System

from .poisson import Array

Equations = list[tuple[Array, Array]]


def rows_of(row_ptr: Array) -> Array:
    """The row of each pair, (nnz,)."""
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def inner_products(row_ptr: Array, col: Array, rows: Array, cols: Array) -> Array:
    """rows[u] . cols[i] of each pair, (nnz,)."""
    return np.einsum("nf,nf->n", rows[rows_of(row_ptr)].astype(float), cols[col].astype(float))


def updated_shapes(prior: float, block: CountBlock, own: Array, cols: Array) -> Array:
    """prior + g_uk sum_i y_ui g_ik / rate_ui, with a_hat for g_ik in a last column."""
    shape = np.full(own.shape, prior, float)
    for u in range(len(own)):
        pairs = slice(block.row_ptr[u], block.row_ptr[u + 1])
        source = cols[block.col[pairs]].astype(float)
        if len(block.a_hat):
            source = np.column_stack([source, block.a_hat[pairs]])
        rate = source @ own[u] + (block.offset[pairs] if len(block.offset) else 0.0)
        shape[u] += own[u] * ((block.counts[pairs] / rate) @ source)
    return shape


def row_equations(block: RatingBlock, system: System) -> Equations:
    """A = base + diag(ridge) + border + X' diag(curvature) X and b = right + X' pull of each row."""
    equations = []
    for u in range(len(system.right)):
        pairs = slice(block.row_ptr[u], block.row_ptr[u + 1])
        columns = [system.sources[block.col[pairs], : system.rank].astype(float)]
        if system.has_bias:
            columns.append(np.ones((len(columns[0]), 1)))
        left = system.base + np.diag(system.ridge[u].astype(float))
        if system.is_bordered:
            columns.append(block.a_hat[pairs, None])
            left[-1] += system.border[u]
            left[:-1, -1] += system.border[u, :-1]
        x = np.hstack(columns)
        equations.append((left + (x.T * system.curvature[pairs]) @ x, system.right[u] + system.pull[pairs] @ x))
    return equations


def curvatures_and_pulls(block: RatingBlock, known: Known, design: Design) -> Array:
    """w - z w0 and w (y - k - gamma h) + z w0 (k + gamma p) of each pair, one after the other."""
    of_source = np.broadcast_to(known.of_source, block.col.max() + 1)[block.col]
    gamma = np.broadcast_to(known.gamma, block.col.max() + 1)[block.col] if len(known.gamma) else 0.0
    h, p = (block.a_hat, block.product) if len(known.gamma) else (0.0, 0.0)
    pull = block.weight * (block.rating - of_source - gamma * h) + design.on_preference * (of_source + gamma * p)
    return np.concatenate([block.weight - design.on_preference, pull])


def confounder_sums(block: RatingBlock, known: Known, shown: Known, design: Design) -> Array:
    """Sums of z w0 h^2 - w0 p^2, then of w0 shown p - z w0 known h, over each row's pairs."""
    square = design.on_preference * block.a_hat**2 - design.unobserved * block.product**2
    pull = design.unobserved * shown.of_source[block.col] * block.product
    pull -= design.on_preference * known.of_source[block.col] * block.a_hat
    row, n_rows = rows_of(block.row_ptr), len(block.row_ptr) - 1
    return np.concatenate([np.bincount(row, each, n_rows) for each in (square, pull)])


def observed_sums(
    block: RatingBlock, rows: Array, others: Array, rank: int, shared: Shared, design: Design, is_user: bool
) -> dict[str, Array]:
    """sum (w e^2 - w0 q^2), sum (w e d + w0 q d), sum (w - w0) d d', as the kernel of this name says."""
    own, other = rows[rows_of(block.row_ptr)].astype(float), others[block.col].astype(float)
    p = np.einsum("nf,nf->n", own[:, :rank], other[:, :rank])
    if design.biases:
        p += own[:, rank] + other[:, rank]
    ones, departure = np.ones(len(p)), np.zeros(len(p))
    h, product = (block.a_hat, block.product) if block.has_confounder else (0.0 * ones, 0.0 * ones)
    if block.has_confounder and design.per_user:
        departure = (own if is_user else other)[:, -1] - shared.gamma
    w, w0 = block.weight.astype(float), design.unobserved
    error, shown = block.rating - p - departure * h, departure * product + p * design.everywhere
    d, d_product = np.vstack([ones, h]), np.vstack([ones, product])
    square = w @ error**2 - w0 * (shown @ shown)
    linear, curvature = d @ (w * error) + w0 * (d_product @ shown), (d * w) @ d.T - w0 * (d_product @ d_product.T)
    terms = 1 + (block.has_confounder and design.shares_gamma)
    return {"square": square, "linear": linear[:terms], "curvature": curvature[:terms, :terms]}
