"""The normal equations of :mod:`dcrec_spark.kernels.ridge`, assembled and solved row by row."""

import math

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled

# Nonzeros of a row that are gathered at a time: with some 50 numbers each they stay in the processor's cache.
PIECE = 256


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
    gathered, curved = np.empty((PIECE, width), base.dtype), np.empty((PIECE, width), base.dtype)
    matrix, product, unknown = np.empty_like(base), np.empty_like(base), np.empty(width, base.dtype)
    for row in range(first, last):
        for j in range(width):
            for k in range(j + 1):
                matrix[j, k] = base[j, k]
            matrix[j, j] += ridge[row, j]
            unknown[j] = right[row, j]
        if bordered:
            for k in range(width):
                matrix[width - 1, k] += border[row, k]
        start, end = row_ptr[row], row_ptr[row + 1]
        while start < end:
            length = min(PIECE, end - start)
            for n in range(length):
                at, weight, pulled = col[start + n], curvature[start + n], pull[start + n]
                for k in range(width):
                    gathered[n, k] = sources[at, k]
                if bordered:
                    gathered[n, width - 1] = a_hat[start + n]
                for k in range(width):
                    curved[n, k] = gathered[n, k] * weight
                    unknown[k] += gathered[n, k] * pulled
            np.dot(gathered[:length].T, curved[:length], product)
            for j in range(width):
                for k in range(j + 1):
                    matrix[j, k] += product[j, k]
            start += length
        _solve(matrix, unknown)
        for k in range(width):
            solved[row, k] = unknown[k]


@compiled
def _solve(matrix: Numbers, unknown: Numbers) -> None:
    """Solve matrix x = unknown in place by Cholesky's method, from the lower triangle, which is overwritten."""
    width = len(unknown)
    for j in range(width):
        for i in range(j):
            left = matrix[j, i]
            for k in range(i):
                left -= matrix[j, k] * matrix[i, k]
            matrix[j, i] = left * matrix[i, i]
        left = matrix[j, j]
        for k in range(j):
            left -= matrix[j, k] * matrix[j, k]
        if not left > 0.0:
            unknown[:] = np.nan
            return
        # The diagonal holds 1 / L_jj, which is what is multiplied by.
        matrix[j, j] = 1.0 / math.sqrt(left)
        value = unknown[j]
        for k in range(j):
            value -= matrix[j, k] * unknown[k]
        unknown[j] = value * matrix[j, j]
    for j in range(width - 1, -1, -1):
        unknown[j] *= matrix[j, j]
        for k in range(j):
            unknown[k] -= matrix[j, k] * unknown[j]
