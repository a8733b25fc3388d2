"""Rates of nonzeros, and what rows draw from them: :mod:`dcrec_spark.kernels.poisson` and ``csr``, row by row.

Four nonzeros of a row go abreast: what is read and written of the row serves them all, and none waits for another.
"""

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled, inlined
from dcrec_spark.kernels.loops.tiles import fetch

ABREAST = 4
# So many nonzeros before they are multiplied their columns are asked for: they lie anywhere in memory.
AHEAD = 8

Four = tuple[float, float, float, float]


@inlined
def _products(own: Numbers, width: int, cols: Numbers, a: int, b: int, c: int, d: int) -> Four:
    """Multiply a row with four columns."""
    of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
    for k in range(width):
        number = own[k]
        of_a += number * cols[a, k]
        of_b += number * cols[b, k]
        of_c += number * cols[c, k]
        of_d += number * cols[d, k]
    return of_a, of_b, of_c, of_d


@inlined
def _product(own: Numbers, width: int, cols: Numbers, at: int) -> float:
    product = 0.0
    for k in range(width):
        product += own[k] * cols[at, k]
    return product


@inlined
def _ask_ahead(n: int, col: Places, cols: Numbers) -> None:
    """Ask for the columns of four nonzeros that come after n."""
    for ahead in range(n + AHEAD, min(n + AHEAD + ABREAST, len(col))):
        fetch(cols, col[ahead])


@compiled
def row_products(start: int, end: int, col: Places, own: Numbers, cols: Numbers, products: Numbers) -> None:
    """products[n - start] = own . cols[i] of the nonzeros n from ``start`` to ``end``, as far as ``own`` is long."""
    width, fours = len(own), end - (end - start) % ABREAST
    for n in range(start, fours, ABREAST):
        _ask_ahead(n, col, cols)
        at = n - start
        of_four = _products(own, width, cols, col[n], col[n + 1], col[n + 2], col[n + 3])
        products[at], products[at + 1], products[at + 2], products[at + 3] = of_four
    for n in range(fours, end):
        products[n - start] = _product(own, width, cols, col[n])


@compiled
def inner_products(
    first: int, last: int, row_ptr: Places, col: Places, rows: Numbers, cols: Numbers, products: Numbers
) -> None:
    """products[n] = rows[u] . cols[i] of each nonzero n = (u, i), as far as the rows are wide."""
    width = rows.shape[1]
    own = np.zeros(width)
    for row in range(first, last):
        for k in range(width):
            own[k] = rows[row, k]
        start, end = row_ptr[row], row_ptr[row + 1]
        row_products(start, end, col, own, cols, products[start:end])


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
        weight = own[width]
        added[:] = 0.0
        start, end = row_ptr[row], row_ptr[row + 1]
        fours = end - (end - start) % ABREAST
        for n in range(start, fours, ABREAST):
            _ask_ahead(n, col, cols)
            a, b, c, d = col[n], col[n + 1], col[n + 2], col[n + 3]
            of_a, of_b, of_c, of_d = _products(own, width, cols, a, b, c, d)
            if moves:
                of_a, of_b = of_a + weight * a_hat[n], of_b + weight * a_hat[n + 1]
                of_c, of_d = of_c + weight * a_hat[n + 2], of_d + weight * a_hat[n + 3]
            if has_offset:
                of_a, of_b = of_a + offset[n], of_b + offset[n + 1]
                of_c, of_d = of_c + offset[n + 2], of_d + offset[n + 3]
            # All four at once, without a branch between: one division of vectors.
            of_a, of_b, of_c, of_d = counts[n] / of_a, counts[n + 1] / of_b, counts[n + 2] / of_c, counts[n + 3] / of_d
            for k in range(width):
                added[k] += (of_a * cols[a, k] + of_b * cols[b, k]) + (of_c * cols[c, k] + of_d * cols[d, k])
            if moves:
                added[width] += of_a * a_hat[n] + of_b * a_hat[n + 1] + of_c * a_hat[n + 2] + of_d * a_hat[n + 3]
        for n in range(fours, end):
            at = col[n]
            of_one = _product(own, width, cols, at)
            if moves:
                of_one += weight * a_hat[n]
            if has_offset:
                of_one += offset[n]
            of_one = counts[n] / of_one
            for k in range(width):
                added[k] += of_one * cols[at, k]
            if moves:
                added[width] += of_one * a_hat[n]
        for k in range(geometric_mean.shape[1]):
            total[row, k] = added[k]
