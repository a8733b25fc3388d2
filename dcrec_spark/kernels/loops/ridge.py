"""The normal equations of :mod:`dcrec_spark.kernels.ridge`, assembled and solved row by row.

A matrix and its right-hand side are one triangle, the upper one, whose last column is the right-hand side: what is
added up for the one is added up for the other, and Cholesky's method, U'U, takes it along and leaves U'^-1 times it.

Both add products of matrices to four rows of the triangle at a time, :func:`~dcrec_spark.kernels.loops.tiles
.add_products`: half of a product takes less than half of the time that BLAS takes for all of it, which is made for
matrices larger than these.
"""

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled
from dcrec_spark.kernels.loops.tiles import BEYOND, ROWS, add_products, fetch, whole_lines

# Nonzeros of a row that are gathered at a time: what is made of them stays in the fastest cache.
PIECE = 32
# So many nonzeros before they are gathered their sources are asked for: they lie anywhere in memory.
AHEAD = 8


@compiled
def solve_rows(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    a_hat: Numbers,
    sources: Numbers,
    curvature: Numbers,
    pull: Numbers,
    base: Numbers,
    ridge: Numbers,
    border: Numbers,
    right: Numbers,
    rank: int,
    solved: Numbers,
) -> None:
    """Solve (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull of each row.

    NaN where a matrix is not positive definite.
    """
    width, bordered = len(base), border.shape[1] > 0
    has_bias = width - bordered > rank
    columns = whole_lines(width + 1 + BEYOND, base.itemsize)
    triangle = np.zeros((width + ROWS, columns), base.dtype)
    gathered, curved = np.zeros((PIECE, columns), base.dtype), np.zeros((PIECE, columns), base.dtype)
    for row in range(first, last):
        for j in range(width):
            for k in range(j, width):
                triangle[j, k] = base[j, k]
            triangle[j, j] += ridge[row, j]
            triangle[j, width] = right[row, j]
        if bordered:
            for j in range(width):
                triangle[j, width - 1] += border[row, j]
        for start in range(row_ptr[row], row_ptr[row + 1], PIECE):
            length = min(PIECE, row_ptr[row + 1] - start)
            _gather(start, length, col, sources, rank, curvature, gathered, curved)
            for n in range(length):
                if has_bias:
                    gathered[n, rank] = 1.0
                    curved[n, rank] = curvature[start + n]
                if bordered:
                    gathered[n, width - 1] = a_hat[start + n]
                    curved[n, width - 1] = a_hat[start + n] * curvature[start + n]
                curved[n, width] = pull[start + n]
            for j in range(0, width, ROWS):
                add_products(triangle, j, width + 1, 1.0, gathered, curved, length)
        _solve(triangle, width, solved[row])


@compiled
def _gather(
    start: int,
    length: int,
    col: Places,
    sources: Numbers,
    rank: int,
    curvature: Numbers,
    gathered: Numbers,
    curved: Numbers,
) -> None:
    """Copy the factors of the sources of some nonzeros, and their products with the curvatures."""
    for n in range(start, start + length):
        fetch(sources, col[min(n + AHEAD, len(col) - 1)])
        source, weight = sources[col[n]], curvature[n]
        for k in range(rank):
            number = source[k]
            gathered[n - start, k] = number
            curved[n - start, k] = number * weight


@compiled
def _solve(triangle: Numbers, width: int, unknown: Numbers) -> None:
    """Solve for ``width`` unknowns by Cholesky's method, four rows at a time, in place; 1 / U_jj on the diagonal."""
    for j in range(0, width, ROWS):
        add_products(triangle, j, width + 1, -1.0, triangle, triangle, j)
        if not _factorize(triangle, j, width):
            unknown[:] = np.nan
            return
        _divide(triangle, j, width + 1)
    for j in range((width - 1) // ROWS * ROWS, -1, -ROWS):
        _substitute(triangle, j, width, unknown)


@compiled
def _factorize(triangle: Numbers, j: int, width: int) -> bool:
    """Factorize the tile of four rows and columns from j on, as far as ``width``; whether it is positive definite."""
    for row in range(j, min(j + ROWS, width)):
        for above in range(j, row):
            for k in range(row, j + ROWS):
                triangle[row, k] -= triangle[above, row] * triangle[above, k]
        left = triangle[row, row]
        if not left > 0.0:
            return False
        triangle[row, row] = triangle.dtype.type(1.0) / np.sqrt(left)
        for k in range(row + 1, j + ROWS):
            triangle[row, k] *= triangle[row, row]
    return True


@compiled
def _divide(triangle: Numbers, j: int, end: int) -> None:
    """Divide four rows, in the columns right of their tile, by the factors of the tile."""
    of_a, of_b, of_c, of_d = triangle[j, j], triangle[j + 1, j + 1], triangle[j + 2, j + 2], triangle[j + 3, j + 3]
    ab, ac, ad = triangle[j, j + 1], triangle[j, j + 2], triangle[j, j + 3]
    bc, bd, cd = triangle[j + 1, j + 2], triangle[j + 1, j + 3], triangle[j + 2, j + 3]
    for k in range(j + ROWS, end):
        a = triangle[j, k] * of_a
        b = (triangle[j + 1, k] - ab * a) * of_b
        c = (triangle[j + 2, k] - ac * a - bc * b) * of_c
        d = (triangle[j + 3, k] - ad * a - bd * b - cd * c) * of_d
        triangle[j, k], triangle[j + 1, k], triangle[j + 2, k], triangle[j + 3, k] = a, b, c, d


@compiled
def _substitute(triangle: Numbers, j: int, width: int, unknown: Numbers) -> None:
    """Find four unknowns from j on, as many as there are, from those after them."""
    zero = triangle.dtype.type(0.0)
    a, b, c, d = zero, zero, zero, zero
    for k in range(j + ROWS, width):
        a += triangle[j, k] * unknown[k]
        b += triangle[j + 1, k] * unknown[k]
        c += triangle[j + 2, k] * unknown[k]
        d += triangle[j + 3, k] * unknown[k]
    known = (a, b, c, d)
    for row in range(min(j + ROWS, width) - 1, j - 1, -1):
        left = triangle[row, width] - known[row - j]
        for k in range(row + 1, min(j + ROWS, width)):
            left -= triangle[row, k] * unknown[k]
        unknown[row] = left * triangle[row, row]
