"""The normal equations of :mod:`dcrec_spark.kernels.ridge`, assembled and solved row by row.

A matrix and its right-hand side are one triangle, whose last row is the right-hand side: what is added up for the one
is added up for the other, and Cholesky's method, which takes it along, leaves the solution of the lower half there.

Triangles are worked on in tiles of three rows by three: nine sums at a time stay in registers, and each number that is
read counts three times. So half of a product takes less than half of the time that BLAS takes for all of it, which
is made for matrices larger than these.
"""

import math
from typing import Any

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled, inlined

TILE = 3
# Nonzeros of a row that are gathered at a time. No power of 2: numbers of a column would meet in the same cache lines.
PIECE = 240

# A tile's sums: nine of the numbers' own type.
Nine = tuple[Any, ...]


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
    solved: Numbers,
) -> None:
    """Solve (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull of each row.

    NaN where a matrix is not positive definite.
    """
    width, bordered = len(base), border.shape[1] > 0
    size = (width + TILE) // TILE * TILE  # of the matrix and the right-hand side, in whole tiles
    triangle = np.zeros((size, size), base.dtype)
    gathered, curved = np.zeros((size, PIECE), base.dtype), np.zeros((size, PIECE), base.dtype)
    for row in range(first, last):
        for j in range(width):
            for k in range(j + 1):
                triangle[j, k] = base[j, k]
            triangle[j, j] += ridge[row, j]
            triangle[width, j] = right[row, j]
        if bordered:
            for k in range(width):
                triangle[width - 1, k] += border[row, k]
        for start in range(row_ptr[row], row_ptr[row + 1], PIECE):
            length = min(PIECE, row_ptr[row + 1] - start)
            _gather(start, length, col, sources, gathered)
            if bordered:
                for n in range(length):
                    gathered[width - 1, n] = a_hat[start + n]
            for k in range(width):
                for n in range(length):
                    curved[k, n] = gathered[k, n] * curvature[start + n]
            for n in range(length):
                curved[width, n] = pull[start + n]
            _add_products(curved, gathered, length, triangle)
        _solve(triangle, width, solved[row])


@compiled
def _gather(start: int, length: int, col: Places, sources: Numbers, gathered: Numbers) -> None:
    """Make columns of the sources of some nonzeros, four at a time."""
    width = sources.shape[1]
    fours = length - length % 4
    for n in range(0, fours, 4):
        a, b, c, d = col[start + n], col[start + n + 1], col[start + n + 2], col[start + n + 3]
        for k in range(width):
            gathered[k, n] = sources[a, k]
            gathered[k, n + 1] = sources[b, k]
            gathered[k, n + 2] = sources[c, k]
            gathered[k, n + 3] = sources[d, k]
    for n in range(fours, length):
        for k in range(width):
            gathered[k, n] = sources[col[start + n], k]


@inlined
def _nine(left: Numbers, j: int, right: Numbers, k: int, length: int) -> Nine:
    """Multiply rows j to j + 2 of one with rows k to k + 2 of the other, as far as ``length``."""
    zero = left.dtype.type(0.0)
    aa, ab, ac, ba, bb, bc, ca, cb, cc = zero, zero, zero, zero, zero, zero, zero, zero, zero
    for n in range(length):
        a, b, c = left[j, n], left[j + 1, n], left[j + 2, n]
        x, y, z = right[k, n], right[k + 1, n], right[k + 2, n]
        aa += a * x
        ab += a * y
        ac += a * z
        ba += b * x
        bb += b * y
        bc += b * z
        ca += c * x
        cb += c * y
        cc += c * z
    return aa, ab, ac, ba, bb, bc, ca, cb, cc


@inlined
def _add(tile: Nine, sign: float, j: int, k: int, triangle: Numbers) -> None:
    for place in range(TILE * TILE):
        triangle[j + place // TILE, k + place % TILE] += sign * tile[place]


@compiled
def _add_products(curved: Numbers, gathered: Numbers, length: int, triangle: Numbers) -> None:
    """Add curved gathered' to the triangle; above its diagonal, within tiles, stands what nobody reads."""
    for j in range(0, len(triangle), TILE):
        for k in range(0, j + 1, TILE):
            _add(_nine(curved, j, gathered, k, length), 1.0, j, k, triangle)


@compiled
def _solve(triangle: Numbers, width: int, unknown: Numbers) -> None:
    """Solve for ``width`` unknowns by Cholesky's method, from the lower triangle, which is overwritten.

    The diagonal comes to hold 1 / L_jj, which is what is multiplied by, the last row L^-1 times the right-hand side.
    """
    size = len(triangle)
    for k in range(0, size, TILE):
        end = min(k + TILE, width)
        for j in range(k, size, TILE):
            _add(_nine(triangle, j, triangle, k, k), -1.0, j, k, triangle)
            if j == k and not _factorize(triangle, k, end):
                unknown[:] = np.nan
                return
            for row in range(end if j == k else j, min(j + TILE, width + 1)):
                for i in range(k, end):
                    left = triangle[row, i]
                    for before in range(k, i):
                        left -= triangle[row, before] * triangle[i, before]
                    triangle[row, i] = left * triangle[i, i]
    for k in range(width):
        unknown[k] = triangle[width, k]
    for j in range(width - 1, -1, -1):
        unknown[j] *= triangle[j, j]
        for k in range(j):
            unknown[k] -= triangle[j, k] * unknown[j]


@compiled
def _factorize(triangle: Numbers, start: int, end: int) -> bool:
    """Factorize the tile on the diagonal, in place; whether it is positive definite."""
    for j in range(start, end):
        for i in range(start, j + 1):
            left = triangle[j, i]
            for before in range(start, i):
                left -= triangle[j, before] * triangle[i, before]
            if i < j:
                triangle[j, i] = left * triangle[i, i]
            elif left > 0.0:
                triangle[j, j] = 1.0 / math.sqrt(left)
            else:
                return False
    return True
