"""Sorting by group, and inner products of nonzeros.

Four nonzeros of a row are computed together: a number of the row is read once for all, and no sum waits for another.
"""

import numpy as np

from dcrec_spark.kernels.loops.jit import inline, jit
from dcrec_spark.kernels.threads import Numbers, Places

TOGETHER = 4

Four = tuple[float, float, float, float]


@jit
def group_values(group: Places, n_groups: int, values: Places) -> tuple[Places, Places]:
    """Return where each group begins, (n_groups + 1,), and the values group by group, in their order."""
    begins = np.zeros(n_groups + 1, np.int64)
    for number in group:
        if number < 0 or number >= n_groups:
            raise IndexError("a group is negative or not below the number of groups")
        begins[number + 1] += 1
    for number in range(n_groups):
        begins[number + 1] += begins[number]
    free, ordered = begins[:-1].copy(), np.empty(len(values), values.dtype)
    for entry in range(len(values)):
        place = free[group[entry]]
        ordered[place] = values[entry]
        free[group[entry]] = place + 1
    return begins, ordered


@inline
def four_products(own: Numbers, width: int, cols: Numbers, a: int, b: int, c: int, d: int) -> Four:
    """Multiply a row with four columns."""
    of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
    for k in range(width):
        number = own[k]
        of_a += number * cols[a, k]
        of_b += number * cols[b, k]
        of_c += number * cols[c, k]
        of_d += number * cols[d, k]
    return of_a, of_b, of_c, of_d


@inline
def one_product(own: Numbers, width: int, cols: Numbers, at: int) -> float:
    """Multiply a row with one column."""
    product = 0.0
    for k in range(width):
        product += own[k] * cols[at, k]
    return product


@jit
def row_products(start: int, end: int, col: Places, own: Numbers, cols: Numbers, products: Numbers) -> None:
    """products[n - start] = own . cols[i] of the nonzeros n from ``start`` to ``end``, as far as ``own`` is long."""
    width, fours = len(own), end - (end - start) % TOGETHER
    for n in range(start, fours, TOGETHER):
        at = n - start
        four = four_products(own, width, cols, col[n], col[n + 1], col[n + 2], col[n + 3])
        products[at], products[at + 1], products[at + 2], products[at + 3] = four
    for n in range(fours, end):
        products[n - start] = one_product(own, width, cols, col[n])


@jit
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
