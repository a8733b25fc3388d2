"""CSR blocks: how nonzeros are put in the order of rows, and walked over in pieces that stay in the cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.threads import made_in_pieces, over_rows

Floats = NDArray[np.floating]
Pointers = NDArray[np.int64]

# A heavy row is taken in pieces of this many nonzeros, so that the gathered source rows stay small.
PIECE = 1 << 15
# Rows of fewer numbers on average are worked on together: three times faster at 100 nonzeros of 10 numbers, no faster
# at 200 of 50. So many numbers of either side are gathered at a time, a megabyte in double precision.
LONG_ROW, GATHERED = 4096, 1 << 17
# To compare entries takes NumPy as long as so many multiplications each.
COMPARED = 4


def grouped(group: NDArray[Any], n_groups: int, values: NDArray[Any]) -> tuple[Pointers, NDArray[Any]]:
    """Put values in the order of their groups; those of one group stay in the order they came in.

    Parameters
    ----------
    group : (n,) that of each value, from 0. values : (n,).

    Returns
    -------
    Where each group begins, (n_groups + 1,), and the values, group by group.
    """
    if pays(COMPARED * len(values)):
        from dcrec_spark.kernels.loops import order

        begins, ordered = order.grouped(plain(group), n_groups, plain(values))
        return begins, ordered
    begins = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    return begins, values[np.argsort(group, kind="stable")]


def by_row(
    row: NDArray[Any], col: NDArray[Any], n_rows: int, n_cols: int
) -> tuple[Pointers, NDArray[np.signedinteger[Any]]]:
    """Put nonzeros in the order of their rows, and of their columns within a row.

    Returns
    -------
    Where each row begins, (n_rows + 1,), and the nonzeros, row by row.
    """
    if len(row) < n_cols or not pays(COMPARED * len(row)):  # to count what few columns are named would take longer
        order = np.argsort(row.astype(np.int64) * n_cols + col, kind="stable")
        return np.searchsorted(row[order], np.arange(n_rows + 1)), order
    by_col = grouped(col, n_cols, np.arange(len(col), dtype=index_type(len(col))))[1]
    return grouped(taken(row, by_col), n_rows, by_col)


def index_type(length: int) -> type[np.signedinteger[Any]]:
    """Choose the type of places among so many: what is halved is both memory and the time to read it."""
    return np.int32 if length < 2**31 else np.int64


def taken(values: NDArray[Any], places: NDArray[np.integer]) -> NDArray[Any]:
    """Return the values at these places, (n,): piece by piece, for NumPy would copy all places first."""
    return made_in_pieces(lambda at: values[places[at]], len(places), values.dtype)


def pieces(row_ptr: Pointers) -> Iterator[tuple[int, int, int]]:
    """Walk over (row, start, end) of each piece of each row, in order; a row without nonzeros has none."""
    pointer = row_ptr.tolist()
    for row in range(len(pointer) - 1):
        start, end = pointer[row], pointer[row + 1]
        while start < end:
            piece_end = min(end, start + PIECE)
            yield row, start, piece_end
            start = piece_end


def are_short(row_ptr: Pointers, width: int) -> bool:
    """Whether the rows, of so many numbers a nonzero, are too short for a step of Python each."""
    return bool(row_ptr[-1] * width < LONG_ROW * (len(row_ptr) - 1))


def inner_products(row_ptr: Pointers, col: NDArray[Any], rows: Floats, cols: Floats) -> Floats:
    """Compute rows[u] . cols[i] of each nonzero (u, i), in row order; (nnz,).

    rows : (n, F). cols : (m, F or more), of which the first F count. col : (nnz,).
    """
    products, width = np.empty(len(col), cols.dtype), rows.shape[1]
    if pays(len(col) * width):
        from dcrec_spark.kernels.loops import poisson as loops

        arrays = [plain(array) for array in (row_ptr, col, rows, cols)]
        over_rows(lambda first, last: loops.inner_products(first, last, *arrays, products), row_ptr)
        return products
    cols = cols[:, :width]
    if not are_short(row_ptr, width):
        for row, start, end in pieces(row_ptr):
            products[start:end] = cols[col[start:end]] @ rows[row]
        return products
    row_of = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    step = max(1, GATHERED // max(1, width))
    for start in range(0, len(col), step):
        at = slice(start, start + step)
        products[at] = np.einsum("nf,nf->n", rows[row_of[at]], cols[col[at]])
    return products


def row_sums(row_ptr: Pointers, values: Floats) -> NDArray[np.float64]:
    """Add up each row's values; (n,), zero for an empty row."""
    sums, filled = np.zeros(len(row_ptr) - 1), np.flatnonzero(np.diff(row_ptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, row_ptr[filled], dtype=np.float64)
    return sums


def row_products(row_ptr: Pointers, col: NDArray[Any], values: Floats, cols: Floats) -> NDArray[np.float64]:
    """Add up value times cols[i] of each row's nonzeros (u, i); (n, F). values (nnz,), cols (m, F), col (nnz,)."""
    products = np.zeros((len(row_ptr) - 1, cols.shape[1]))
    for row, start, end in pieces(row_ptr):
        products[row] += values[start:end] @ cols[col[start:end]]
    return products
