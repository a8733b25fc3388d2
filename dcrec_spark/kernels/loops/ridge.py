"""Normal equations of least squares, assembled and solved row by row.

The matrix and the right-hand side of a row are one upper triangle. Its last column is the right-hand side. Cholesky's
method, A = U'U, leaves U'^-1 b there.

Matrices are cut into panels of PANEL columns, and a panel is a contiguous block of memory::

    entry (row, k) of a matrix of n rows is at  ((k // PANEL) * n + row) * PANEL + k % PANEL

The distance of two rows in memory is then known to the compiler, which makes vector code of loops over columns. With
2-d arrays it would have to prove at run time that rows do not overlap, and gives up. Places are
unsigned integers: of signed ones numba checks whether they count from the end.
"""

from typing import Any

import numpy as np

from dcrec_spark.kernels.loops.jit import inline, jit
from dcrec_spark.kernels.ridge_terms import RowSystems
from dcrec_spark.kernels.threads import Numbers

# Rows of a product that are made at a time, and nonzeros added up at a time: their 16 factors stay in registers.
TILE = 4
# Nonzeros of a row that are gathered at a time: they stay in the L1 cache. A multiple of TILE.
PIECE = 32
PANEL = 64
# Columns are worked on in runs of so many, whole vectors of any processor. Divides PANEL.
VECTOR = 8
ROW_1, ROW_2, ROW_3 = np.uint64(PANEL), np.uint64(2 * PANEL), np.uint64(3 * PANEL)
COLUMN_1, COLUMN_2, COLUMN_3 = np.uint64(1), np.uint64(2), np.uint64(3)


@inline
def add_products(
    target: Numbers, to: int, sign: Any, left: Numbers, at_left: int, right: Numbers, at_right: int,
    length: int, begin: int, end: int,
) -> None:  # fmt: skip
    """Add sign left' right to four rows of the target, in columns from ``begin`` to ``end`` of one panel.

    to, at_right : places of the first row of the panel. at_left : place of the first of four columns.
    length : rows of left and right, a multiple of TILE.
    """
    t = np.uint64(to)
    for n in range(0, length, TILE):
        i = np.uint64(at_left + n * PANEL)
        j, m, q = i + ROW_1, i + ROW_2, i + ROW_3
        a0, a1, a2, a3 = sign * left[i], sign * left[i + COLUMN_1], sign * left[i + COLUMN_2], sign * left[i + COLUMN_3]
        b0, b1, b2, b3 = sign * left[j], sign * left[j + COLUMN_1], sign * left[j + COLUMN_2], sign * left[j + COLUMN_3]
        c0, c1, c2, c3 = sign * left[m], sign * left[m + COLUMN_1], sign * left[m + COLUMN_2], sign * left[m + COLUMN_3]
        d0, d1, d2, d3 = sign * left[q], sign * left[q + COLUMN_1], sign * left[q + COLUMN_2], sign * left[q + COLUMN_3]
        r = np.uint64(at_right + n * PANEL)
        for column in range(begin, end):
            k = np.uint64(column)
            a, b, c, d = right[r + k], right[r + ROW_1 + k], right[r + ROW_2 + k], right[r + ROW_3 + k]
            target[t + k] += (a0 * a + b0 * b) + (c0 * c + d0 * d)
            target[t + ROW_1 + k] += (a1 * a + b1 * b) + (c1 * c + d1 * d)
            target[t + ROW_2 + k] += (a2 * a + b2 * b) + (c2 * c + d2 * d)
            target[t + ROW_3 + k] += (a3 * a + b3 * b) + (c3 * c + d3 * d)


@inline
def place(rows: int, row: int, k: int) -> int:
    """Return where an entry of a matrix of so many rows is."""
    return (k // PANEL * rows + row) * PANEL + k % PANEL


@jit
def solve_rows(first: int, last: int, given: RowSystems, solved: Numbers) -> None:
    """Solve (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull of each row.

    NaN if a matrix is not positive definite.
    """
    common, triangle, gathered, curved = _scratch(given.base)
    for row in range(first, last):
        _assemble(row, given, common, triangle, gathered, curved)
        _solve(triangle, len(given.base), solved[row])


@jit
def assemble_rows(first: int, last: int, given: RowSystems, matrices: Numbers, rights: Numbers) -> None:
    """Write the lower triangle of each row's matrix, and its right-hand side, from the first row on."""
    common, triangle, gathered, curved = _scratch(given.base)
    width = len(given.base)
    for row in range(first, last):
        _assemble(row, given, common, triangle, gathered, curved)
        for j in range(width):
            rights[row - first, j] = triangle[place(tiled(width), j, width)]
            for k in range(j, width):
                matrices[row - first, k, j] = triangle[place(tiled(width), j, k)]


@inline
def tiled(number: int) -> int:
    """Round up to a multiple of TILE."""
    return (number + TILE - 1) // TILE * TILE


@jit
def _scratch(base: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the triangle that all rows have in common, one for a row, and places for gathered sources."""
    width = len(base)
    panels, rows = width // PANEL + 1, tiled(width)
    common = np.zeros(panels * rows * PANEL, base.dtype)
    for j in range(width):
        for k in range(j, width):
            common[place(rows, j, k)] = base[j, k]
    length = panels * PIECE * PANEL
    return common, np.empty_like(common), np.zeros(length, base.dtype), np.zeros(length, base.dtype)


@jit
def _assemble(
    row: int, given: RowSystems, common: Numbers, triangle: Numbers, gathered: Numbers, curved: Numbers
) -> None:
    """Assemble a row's matrix and right-hand side in the triangle."""
    width, bordered = given.right.shape[1], given.border.shape[1] > 0
    panels, rows = width // PANEL + 1, tiled(width)
    one = triangle.dtype.type(1.0)
    triangle[:] = common
    for j in range(width):
        triangle[place(rows, j, j)] += given.ridge[row, j]
        triangle[place(rows, j, width)] = given.right[row, j]
        if bordered:
            triangle[place(rows, j, width - 1)] += given.border[row, j]
    for start in range(given.row_ptr[row], given.row_ptr[row + 1], PIECE):
        end = min(start + PIECE, given.row_ptr[row + 1])
        _gather(start, end, given, gathered, curved)
        for j in range(0, width, TILE):
            for panel in range(j // PANEL, panels):
                begin, stop = _columns(j, panel, width)
                add_products(
                    triangle, (panel * rows + j) * PANEL, one, gathered, place(PIECE, 0, j),
                    curved, panel * PIECE * PANEL, tiled(end - start), begin, stop,
                )  # fmt: skip


@inline
def _columns(j: int, panel: int, width: int) -> tuple[int, int]:
    """Return the columns of a panel that rows from j on have, in whole vectors: some lie before j or after the last."""
    begin = j % PANEL // VECTOR * VECTOR if panel == j // PANEL else 0
    return begin, min(PANEL, (width + 1 - panel * PANEL + VECTOR - 1) // VECTOR * VECTOR)


@jit
def _gather(start: int, end: int, given: RowSystems, gathered: Numbers, curved: Numbers) -> None:
    """Copy the sources of some nonzeros, and their products with the curvatures. Zeros fill the last tile."""
    rank, width, bordered = given.rank, given.right.shape[1], given.border.shape[1] > 0
    bias, last, right = place(PIECE, 0, rank), place(PIECE, 0, width - 1), place(PIECE, 0, width)
    has_bias = width - bordered > rank
    fours = rank - rank % TILE
    for n in range(start, end):
        source, weight, row = given.sources[given.col[n]], given.curvature[n], (n - start) * PANEL
        for k in range(0, fours, TILE):
            # Four are read before any is written, so that they move as one vector.
            at, i = np.uint64(place(PIECE, 0, k) + row), np.uint64(k)
            a, b, c, d = source[i], source[i + COLUMN_1], source[i + COLUMN_2], source[i + COLUMN_3]
            gathered[at], gathered[at + COLUMN_1], gathered[at + COLUMN_2], gathered[at + COLUMN_3] = a, b, c, d
            a, b, c, d = a * weight, b * weight, c * weight, d * weight
            curved[at], curved[at + COLUMN_1], curved[at + COLUMN_2], curved[at + COLUMN_3] = a, b, c, d
        for k in range(fours, rank):
            at, number = np.uint64(place(PIECE, 0, k) + row), source[np.uint64(k)]
            gathered[at], curved[at] = number, number * weight
        if has_bias:
            gathered[bias + row], curved[bias + row] = 1.0, weight
        if bordered:
            gathered[last + row], curved[last + row] = given.a_hat[n], given.a_hat[n] * weight
        curved[right + row] = given.pull[n]
    for row in range(end - start, tiled(end - start)):
        for k in range(width + 1):
            gathered[place(PIECE, row, k)], curved[place(PIECE, row, k)] = 0.0, 0.0


@jit
def _solve(triangle: Numbers, width: int, unknown: Numbers) -> None:
    """Solve for ``width`` unknowns by Cholesky's method, four rows at a time, in place. 1 / U_jj on the diagonal."""
    panels, rows, minus = width // PANEL + 1, tiled(width), triangle.dtype.type(-1.0)
    for j in range(0, width, TILE):
        for panel in range(j // PANEL, panels):
            begin, stop = _columns(j, panel, width)
            add_products(
                triangle, (panel * rows + j) * PANEL, minus, triangle, place(rows, 0, j),
                triangle, panel * rows * PANEL, j, begin, stop,
            )  # fmt: skip
        if not _factorize(triangle, place(rows, j, j), min(TILE, width - j)):
            unknown[:] = np.nan
            return
        for panel in range(j // PANEL, panels):
            begin = j % PANEL + TILE if panel == j // PANEL else 0
            _divide(
                triangle, place(rows, j, j), (panel * rows + j) * PANEL, begin, min(PANEL, width + 1 - panel * PANEL)
            )
    for j in range((width - 1) // TILE * TILE, -1, -TILE):
        _substitute(triangle, j, width, rows, unknown)


@inline
def _factorize(triangle: Numbers, at: int, size: int) -> bool:
    """Factorize the tile at this place, in its first ``size`` rows. Returns whether it is positive definite."""
    for row in range(size):
        for above in range(row):
            for k in range(row, TILE):
                triangle[at + row * PANEL + k] -= triangle[at + above * PANEL + row] * triangle[at + above * PANEL + k]
        left = triangle[at + row * PANEL + row]
        if not left > 0.0:
            return False
        inverse = triangle.dtype.type(1.0) / np.sqrt(left)
        triangle[at + row * PANEL + row] = inverse
        for k in range(row + 1, TILE):
            triangle[at + row * PANEL + k] *= inverse
    return True


@inline
def _divide(triangle: Numbers, tile: int, to: int, begin: int, end: int) -> None:
    """Divide four rows, in columns of the panel at ``to``, by the factors of their tile."""
    t1, t2, t3 = tile + PANEL, tile + 2 * PANEL, tile + 3 * PANEL
    aa, ab, ac, ad = triangle[tile], triangle[tile + 1], triangle[tile + 2], triangle[tile + 3]
    bb, bc, bd = triangle[t1 + 1], triangle[t1 + 2], triangle[t1 + 3]
    cc, cd, dd = triangle[t2 + 2], triangle[t2 + 3], triangle[t3 + 3]
    at = np.uint64(to)
    for column in range(begin, end):
        k = np.uint64(column)
        a = triangle[at + k] * aa
        b = (triangle[at + ROW_1 + k] - ab * a) * bb
        c = (triangle[at + ROW_2 + k] - ac * a - bc * b) * cc
        d = (triangle[at + ROW_3 + k] - ad * a - bd * b - cd * c) * dd
        triangle[at + k], triangle[at + ROW_1 + k], triangle[at + ROW_2 + k], triangle[at + ROW_3 + k] = a, b, c, d


@inline
def _substitute(triangle: Numbers, j: int, width: int, rows: int, unknown: Numbers) -> None:
    """Find four unknowns from j on, as many as there are, from those after them."""
    for row in range(min(j + TILE, width) - 1, j - 1, -1):
        left = triangle[place(rows, row, width)]
        for panel in range(row // PANEL, width // PANEL + 1):
            at = np.uint64((panel * rows + row) * PANEL)
            for column in range(max(0, row + 1 - panel * PANEL), min(PANEL, width - panel * PANEL)):
                left -= triangle[at + np.uint64(column)] * unknown[panel * PANEL + column]
        unknown[row] = left * triangle[place(rows, row, row)]
