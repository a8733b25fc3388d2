"""Normal equations of least squares, assembled and solved row by row.

The matrix of a row is its lower triangle. Its factor is lower too, A = L'L, so that elimination begins at the last
unknown and all loops over columns begin at the first: they are whole vectors from aligned memory.

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
# Bytes of a vector and of a cache line. Columns are worked on in runs of so many bytes.
LINE = 64
ROW_1, ROW_2, ROW_3 = np.uint64(PANEL), np.uint64(2 * PANEL), np.uint64(3 * PANEL)
COLUMN_1, COLUMN_2, COLUMN_3 = np.uint64(1), np.uint64(2), np.uint64(3)


@inline
def add_products(
    target: Numbers, to: int, sign: Any, left: Numbers, at_left: int, right: Numbers, at_right: int,
    length: int, end: int,
) -> None:  # fmt: skip
    """Add sign left' right to four rows of the target, in the columns of one panel before ``end``.

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
        for column in range(end):
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


@inline
def tiled(number: int) -> int:
    """Round up to a multiple of TILE."""
    return (number + TILE - 1) // TILE * TILE


@inline
def _columns(j: int, panel: int, size: int) -> int:
    """Count the columns of a panel that four rows from j on have, in whole lines of numbers of so many bytes."""
    vector = LINE // size
    return (j % PANEL + TILE + vector - 1) // vector * vector if panel == j // PANEL else PANEL


@jit
def solve_rows(first: int, last: int, given: RowSystems, solved: Numbers) -> None:
    """Solve (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull of each row.

    given : its sources are those of all unknowns, in rows of whole lines. NaN if a matrix is not positive definite.
    """
    common, triangle, gathered, curved, right = _scratch(given.base)
    width = len(given.base)
    for row in range(first, last):
        _assemble(row, given, common, triangle, gathered, curved, right)
        definite = _solve(triangle, tiled(width), right)
        for k in range(width):
            solved[row, k] = right[k] if definite else np.nan


@jit
def assemble_rows(first: int, last: int, given: RowSystems, matrices: Numbers, rights: Numbers) -> None:
    """Write the lower triangle of each row's matrix, and its right-hand side, from the first row on."""
    common, triangle, gathered, curved, right = _scratch(given.base)
    width = len(given.base)
    for row in range(first, last):
        _assemble(row, given, common, triangle, gathered, curved, right)
        for j in range(width):
            rights[row - first, j] = right[j]
            for k in range(j + 1):
                matrices[row - first, j, k] = triangle[place(tiled(width), j, k)]


@jit
def _scratch(base: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Return the triangle that all rows have in common, one for a row, two places for sources, a right-hand side.

    Rows that fill the last tile are those of the unit matrix.
    """
    width, rows, kind = len(base), tiled(len(base)), base.dtype
    panels = (rows + PANEL - 1) // PANEL
    common = _zeros(panels * rows * PANEL, kind)
    for j in range(rows):
        for k in range(j + 1):
            common[place(rows, j, k)] = base[j, k] if j < width else j == k
    length = panels * PIECE * PANEL
    return common, _zeros(len(common), kind), _zeros(length, kind), _zeros(length, kind), _zeros(panels * PANEL, kind)


@jit
def _zeros(length: int, kind: Any) -> Numbers:
    """Make an array that begins with a cache line."""
    numbers = np.zeros(length + LINE, kind)
    begin = -numbers.ctypes.data % LINE // numbers.itemsize
    return numbers[begin : begin + length]


@jit
def _assemble(
    row: int, given: RowSystems, common: Numbers, triangle: Numbers, gathered: Numbers, curved: Numbers, right: Numbers
) -> None:
    """Assemble a row's matrix in the triangle, and its right-hand side."""
    width, bordered, one = given.right.shape[1], given.border.shape[1] > 0, triangle.dtype.type(1.0)
    # A table of one row holds for all rows.
    rows, own_ridge, own_right = tiled(width), row % len(given.ridge), row % len(given.right)
    triangle[:] = common
    right[:] = 0.0
    for j in range(width):
        triangle[place(rows, j, j)] += given.ridge[own_ridge, j]
        right[j] = given.right[own_right, j]
        if bordered:
            triangle[place(rows, width - 1, j)] += given.border[row, j]
    for start in range(given.row_ptr[row], given.row_ptr[row + 1], PIECE):
        length = tiled(min(PIECE, given.row_ptr[row + 1] - start))
        _gather(start, given.row_ptr[row + 1], given, gathered, curved, right)
        for j in range(0, width, TILE):
            for panel in range(j // PANEL + 1):
                add_products(
                    triangle, (panel * rows + j) * PANEL, one, curved, place(PIECE, 0, j),
                    gathered, panel * PIECE * PANEL, length, _columns(j, panel, triangle.itemsize),
                )  # fmt: skip


@jit
def _gather(start: int, stop: int, given: RowSystems, gathered: Numbers, curved: Numbers, right: Numbers) -> None:
    """Copy the sources of a piece of nonzeros, and their products with the curvatures. Zeros fill the last tile.

    The right-hand side gets the sources times the pulls.
    """
    last, columns, zero = given.right.shape[1] - 1, given.sources.shape[1], right.dtype.type(0.0)
    end = min(start + PIECE, stop)
    for panel in range((columns + PANEL - 1) // PANEL):
        begin, width = np.uint64(panel * PANEL), min(PANEL, columns - panel * PANEL)
        for n in range(start, end):
            source, weight = given.sources[np.uint64(given.col[n])], given.curvature[n]
            at = np.uint64((panel * PIECE + n - start) * PANEL)
            for column in range(width):
                k = np.uint64(column)
                number = source[begin + k]
                gathered[at + k] = number
                curved[at + k] = number * weight
        for n in range(end - start, tiled(end - start)):
            row = (panel * PIECE + n) * PANEL
            gathered[row : row + PANEL] = zero
            curved[row : row + PANEL] = zero
    if given.border.shape[1] > 0:
        for n in range(start, end):
            at = np.uint64(place(PIECE, n - start, last))
            gathered[at], curved[at] = given.a_hat[n], given.a_hat[n] * given.curvature[n]
    for n in range(start, end, TILE):
        p, q = given.pull[n], given.pull[n + 1] if n + 1 < end else zero
        r, s = given.pull[n + 2] if n + 2 < end else zero, given.pull[n + 3] if n + 3 < end else zero
        for panel in range((columns + PANEL - 1) // PANEL):
            begin, at = np.uint64(panel * PANEL), np.uint64((panel * PIECE + n - start) * PANEL)
            for column in range(min(PANEL, columns - panel * PANEL)):
                k = np.uint64(column)
                a, b, c, d = (
                    gathered[at + k],
                    gathered[at + ROW_1 + k],
                    gathered[at + ROW_2 + k],
                    gathered[at + ROW_3 + k],
                )
                right[begin + k] += (p * a + q * b) + (r * c + s * d)


@jit
def _solve(triangle: Numbers, rows: int, right: Numbers) -> bool:
    """Solve in place by Cholesky's method, four rows at a time, from the last ones on. 1 / L_jj on the diagonal.

    Returns whether the matrix is positive definite.
    """
    minus = triangle.dtype.type(-1.0)
    for j in range(rows - TILE, -1, -TILE):
        tile, below = place(rows, j, j), j + TILE
        for panel in range(j // PANEL + 1):
            add_products(
                triangle, (panel * rows + j) * PANEL, minus, triangle, tile + TILE * PANEL,
                triangle, (panel * rows + below) * PANEL, rows - below, _columns(j, panel, triangle.itemsize),
            )  # fmt: skip
        if not _factorize(triangle, tile, right, j):
            return False
        for panel in range(j // PANEL + 1):
            _divide(triangle, tile, (panel * rows + j) * PANEL, right, j, panel * PANEL)
    for j in range(0, rows, TILE):
        _substitute(triangle, j, rows, right)
    return True


@inline
def _factorize(triangle: Numbers, tile: int, right: Numbers, j: int) -> bool:
    """Factorize a tile, and solve for its part of L'^-1 right. Returns whether it is positive definite."""
    for row in range(TILE - 1, -1, -1):
        at = tile + row * PANEL
        for below in range(TILE - 1, row, -1):
            factor = triangle[tile + below * PANEL + row]
            for k in range(row + 1):
                triangle[at + k] -= factor * triangle[tile + below * PANEL + k]
            right[j + row] -= factor * right[j + below]
        if not triangle[at + row] > 0.0:
            return False
        inverse = triangle.dtype.type(1.0) / np.sqrt(triangle[at + row])
        triangle[at + row] = inverse
        right[j + row] *= inverse
        for k in range(row):
            triangle[at + k] *= inverse
    return True


@inline
def _divide(triangle: Numbers, tile: int, to: int, right: Numbers, j: int, first: int) -> None:
    """Divide four rows from j on, in the columns of a panel before j, by their tile. The right-hand side follows."""
    t1, t2, t3 = tile + PANEL, tile + 2 * PANEL, tile + 3 * PANEL
    aa, ba, bb = triangle[tile], triangle[t1], triangle[t1 + 1]
    ca, cb, cc = triangle[t2], triangle[t2 + 1], triangle[t2 + 2]
    da, db, dc, dd = triangle[t3], triangle[t3 + 1], triangle[t3 + 2], triangle[t3 + 3]
    p, q, r, s = right[j], right[j + 1], right[j + 2], right[j + 3]
    at, begin = np.uint64(to), np.uint64(first)
    for column in range(min(PANEL, j - first)):
        k = np.uint64(column)
        d = triangle[at + ROW_3 + k] * dd
        c = (triangle[at + ROW_2 + k] - dc * d) * cc
        b = (triangle[at + ROW_1 + k] - db * d - cb * c) * bb
        a = (triangle[at + k] - da * d - ca * c - ba * b) * aa
        triangle[at + k], triangle[at + ROW_1 + k], triangle[at + ROW_2 + k], triangle[at + ROW_3 + k] = a, b, c, d
        right[begin + k] -= (p * a + q * b) + (r * c + s * d)


@inline
def _substitute(triangle: Numbers, j: int, rows: int, right: Numbers) -> None:
    """Find four unknowns from j on from those before them."""
    zero = triangle.dtype.type(0.0)
    a, b, c, d = zero, zero, zero, zero
    for panel in range(j // PANEL + 1):
        at, begin = np.uint64((panel * rows + j) * PANEL), np.uint64(panel * PANEL)
        for column in range(min(PANEL, j - panel * PANEL)):
            k = np.uint64(column)
            x = right[begin + k]
            a += triangle[at + k] * x
            b += triangle[at + ROW_1 + k] * x
            c += triangle[at + ROW_2 + k] * x
            d += triangle[at + ROW_3 + k] * x
    tile = place(rows, j, j)
    for row, known in enumerate((a, b, c, d)):
        left = right[j + row] - known
        for before in range(row):
            left -= triangle[tile + row * PANEL + before] * right[j + before]
        right[j + row] = left * triangle[tile + row * PANEL + row]
