"""Rates of nonzeros, and what rows draw from them: :mod:`dcrec_spark.kernels.poisson` and ``csr``, row by row."""

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled


@compiled
def inner_products(
    first: int, last: int, row_ptr: Places, col: Places, rows: Numbers, cols: Numbers, products: Numbers
) -> None:
    """products[n] = rows[u] . cols[i] of each nonzero n = (u, i)."""
    width = cols.shape[1]
    own = np.zeros(width)
    for row in range(first, last):
        for k in range(width):
            own[k] = rows[row, k]
        for n in range(row_ptr[row], row_ptr[row + 1]):
            at = col[n]
            product = 0.0
            for k in range(width):
                product += own[k] * cols[at, k]
            products[n] = product


@compiled
def drawn(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    counts: Numbers,
    a_hat: Numbers,
    offset: Numbers,
    geometric_mean: Numbers,
    cols: Numbers,
    total: Numbers,
) -> None:
    """total[u, k] = sum_i y_ui g_ik / rate_ui; what moves with the row stands in the last column, with a_hat for g."""
    width, moves, has_offset = cols.shape[1], len(a_hat) > 0, len(offset) > 0
    own, added = np.zeros(width + 1), np.zeros(width + 1)
    for row in range(first, last):
        for k in range(geometric_mean.shape[1]):
            own[k] = geometric_mean[row, k]
        added[:] = 0.0
        for n in range(row_ptr[row], row_ptr[row + 1]):
            at = col[n]
            rate = 0.0
            for k in range(width):
                rate += own[k] * cols[at, k]
            if moves:
                rate += own[width] * a_hat[n]
            if has_offset:
                rate += offset[n]
            share = counts[n] / rate
            for k in range(width):
                added[k] += share * cols[at, k]
            if moves:
                added[width] += share * a_hat[n]
        for k in range(geometric_mean.shape[1]):
            total[row, k] = added[k]
