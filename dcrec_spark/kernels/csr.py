"""CSR blocks: nonzeros in the order of rows, and sums over the nonzeros of each row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dcrec_spark.kernels.loops.jit import inline, jit
from dcrec_spark.kernels.threads import Numbers, Places, loop_input, make_in_pieces, over_rows

Floats = NDArray[np.floating]
Pointers = NDArray[np.int64]

NOTHING = np.empty(0)
# Nonzeros of a row that loops compute together: a number of the row is read once for all, and no sum waits for another.
TOGETHER = 4
Four = tuple[float, float, float, float]


class CountBlock(NamedTuple):
    """Counts of one block in row order.

    row_ptr (n + 1,), col (nnz,) places in ``cols``, counts (nnz,) >= 0, times the pair's weight if it has one.
    a_hat (nnz,) or (0,): the factor of the last column of the rows.
    offset (nnz,) or (0,): a known part of each rate, in geometric means.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    counts: Floats
    a_hat: Floats = NOTHING
    offset: Floats = NOTHING


def rows_of(row_ptr: Pointers) -> Pointers:
    """Return the row of each nonzero, (nnz,)."""
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def group_values(group: NDArray[Any], n_groups: int, values: NDArray[Any]) -> tuple[Pointers, NDArray[Any]]:
    """Sort values by group, from 0, in their order: where each group begins, (n_groups + 1,), and the values.

    Raises IndexError: a group is not below n_groups.
    """
    begins, ordered = _group_values(loop_input(group), n_groups, loop_input(values))
    return begins, ordered


def by_row(
    row: NDArray[Any], col: NDArray[Any], n_rows: int, n_cols: int
) -> tuple[Pointers, NDArray[np.signedinteger[Any]]]:
    """Sort nonzeros by row, then column: where each row begins, (n_rows + 1,), and the places of the nonzeros."""
    if len(row) < n_cols:  # counting the columns would take longer than sorting
        order = np.argsort(row.astype(np.int64) * n_cols + col, kind="stable")
        return np.searchsorted(row[order], np.arange(n_rows + 1)), order
    by_col = group_values(col, n_cols, np.arange(len(col), dtype=index_type(len(col))))[1]
    return group_values(take(row, by_col), n_rows, by_col)


def index_type(length: int) -> type[np.signedinteger[Any]]:
    """Choose the integer type of places among so many. Half the bytes take half the time to read."""
    return np.int32 if length < 2**31 else np.int64


def take(values: NDArray[Any], places: NDArray[np.integer]) -> NDArray[Any]:
    """Return the values at these places, (n,). Piece by piece, because NumPy would first copy all places as int64."""
    return make_in_pieces(lambda at: values[places[at]], len(places), values.dtype)


def inner_products(row_ptr: Pointers, col: NDArray[Any], rows: Floats, cols: Floats) -> Floats:
    """Compute rows[u] . cols[i] of each nonzero (u, i), in row order. (nnz,), of the type of ``cols``.

    rows : (n, F). cols : (m, F or more), of which the first F count. col : (nnz,).
    """
    products = np.empty(len(col), cols.dtype)
    over_rows(_inner_products, row_ptr, *map(loop_input, (row_ptr, col, rows, cols)), products)
    return products


def row_products(row_ptr: Pointers, col: NDArray[Any], values: Floats, cols: Floats) -> NDArray[np.float64]:
    """Add up value times cols[i] over each row's nonzeros (u, i). (n, F). values (nnz,), cols (m, F), col (nnz,)."""
    shape = len(row_ptr) - 1, len(cols)
    matrix = csr_array((values.astype(np.float64, copy=False), col, row_ptr), shape=shape)
    return np.asarray(matrix @ cols.astype(np.float64, copy=False))


# ---- loops


@jit
def _group_values(group: Places, n_groups: int, values: Places) -> tuple[Places, Places]:
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
def products_of_row(start: int, end: int, col: Places, own: Numbers, cols: Numbers, products: Numbers) -> None:
    """products[n - start] = own . cols[i] of the nonzeros n from ``start`` to ``end``, as far as ``own`` is long."""
    width, fours = len(own), end - (end - start) % TOGETHER
    for n in range(start, fours, TOGETHER):
        at = n - start
        four = four_products(own, width, cols, col[n], col[n + 1], col[n + 2], col[n + 3])
        products[at], products[at + 1], products[at + 2], products[at + 3] = four
    for n in range(fours, end):
        products[n - start] = one_product(own, width, cols, col[n])


@jit
def _inner_products(
    first: int, last: int, row_ptr: Places, col: Places, rows: Numbers, cols: Numbers, products: Numbers
) -> None:
    """products[n] = rows[u] . cols[i] of each nonzero n = (u, i), as far as the rows are wide."""
    width = rows.shape[1]
    own = np.zeros(width)
    for row in range(first, last):
        for k in range(width):
            own[k] = rows[row, k]
        start, end = row_ptr[row], row_ptr[row + 1]
        products_of_row(start, end, col, own, cols, products[start:end])
