"""CSR blocks: nonzeros in the order of rows, and sums over the nonzeros of each row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dcrec_spark.kernels.threads import loop_input, make_in_pieces, over_rows

Floats = NDArray[np.floating]
Pointers = NDArray[np.int64]


NOTHING = np.empty(0)


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
    from dcrec_spark.kernels.loops import csr

    begins, ordered = csr.group_values(loop_input(group), n_groups, loop_input(values))
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
    from dcrec_spark.kernels.loops import csr

    products = np.empty(len(col), cols.dtype)
    over_rows(csr.inner_products, row_ptr, *map(loop_input, (row_ptr, col, rows, cols)), products)
    return products


def row_products(row_ptr: Pointers, col: NDArray[Any], values: Floats, cols: Floats) -> NDArray[np.float64]:
    """Add up value times cols[i] over each row's nonzeros (u, i). (n, F). values (nnz,), cols (m, F), col (nnz,)."""
    shape = len(row_ptr) - 1, len(cols)
    matrix = csr_array((values.astype(np.float64, copy=False), col, row_ptr), shape=shape)
    return np.asarray(matrix @ cols.astype(np.float64, copy=False))
