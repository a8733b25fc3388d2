"""Conjugate gradients of :mod:`dcrec_spark.kernels.solvers`, row by row."""

import numpy as np

from dcrec_spark.kernels.loops.jit import jit
from dcrec_spark.kernels.ridge_terms import RowSystems
from dcrec_spark.kernels.threads import Numbers

# Sources of a row that are gathered at a time. Most rows have fewer ratings and are gathered once for all steps.
PIECE = 512


@jit
def descend_rows(first: int, last: int, given: RowSystems, steps: int, negligible: float, x: Numbers) -> None:
    """Take steps from x, in place, toward (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull.

    A row stops if its squared residual is a negligible share of its squared length. NaN if a matrix proves not to be
    positive definite.
    """
    base, ridge, bordered, has_base = given.base, given.ridge, given.border.shape[1] > 0, given.base.any()
    width, kind = len(base), base.dtype
    gathered, drawn = np.empty((PIECE, width), kind), np.empty(PIECE, kind)
    unknown, product, added = np.empty(width, kind), np.empty(width, kind), np.empty(width, kind)
    diagonal, residual = np.empty(width, kind), np.empty(width, kind)
    direction, scaled = np.empty(width, kind), np.empty(width, kind)
    for row in range(first, last):
        # A table of one row holds for all rows.
        own_ridge, own_right = row % len(ridge), row % len(given.right)
        for k in range(width):
            unknown[k] = x[row, k]
            diagonal[k] = base[k, k] + ridge[own_ridge, k]
        if bordered:
            diagonal[width - 1] += given.border[row, width - 1]
        _multiply_shared(row, given, has_base, unknown, product)
        for k in range(width):
            residual[k] = given.right[own_right, k] - product[k]
        _add_residual(row, given, unknown, gathered, drawn, added, diagonal, residual)
        left, size, definite = 0.0, 0.0, True
        for k in range(width):
            definite = definite and diagonal[k] > 0.0
            direction[k] = residual[k] / diagonal[k]
            left += residual[k] * direction[k]
            size += diagonal[k] * unknown[k] * unknown[k]
        for _ in range(steps):
            if left <= negligible * size or not definite:
                break
            _multiply_shared(row, given, has_base, direction, product)
            _add_product(row, given, direction, gathered, drawn, added, product)
            curve = 0.0
            for k in range(width):
                curve += direction[k] * product[k]
            definite = curve > 0.0
            stretch, before, left, size = left / curve, left, 0.0, 0.0
            for k in range(width):
                unknown[k] += stretch * direction[k]
                residual[k] -= stretch * product[k]
                scaled[k] = residual[k] / diagonal[k]
                left += residual[k] * scaled[k]
                size += diagonal[k] * unknown[k] * unknown[k]
            for k in range(width):
                direction[k] = scaled[k] + left / before * direction[k]
        for k in range(width):
            x[row, k] = unknown[k] if definite else np.nan


@jit
def _add_residual(
    row: int,
    given: RowSystems,
    x: Numbers,
    gathered: Numbers,
    drawn: Numbers,
    added: Numbers,
    diagonal: Numbers,
    residual: Numbers,
) -> None:
    """Add the nonzeros' part of a row's diagonal, and of its residual at x. Sources of one piece stay gathered."""
    end = given.row_ptr[row + 1]
    for begin in range(given.row_ptr[row], end, PIECE):
        length = min(PIECE, end - begin)
        _gather(begin, length, given, gathered)
        np.dot(gathered[:length], x, drawn[:length])
        for n in range(length):
            curved = given.curvature[begin + n]
            drawn[n] = given.pull[begin + n] - curved * drawn[n]
            for k in range(len(x)):
                diagonal[k] += curved * gathered[n, k] * gathered[n, k]
        np.dot(gathered[:length].T, drawn[:length], added)
        for k in range(len(x)):
            residual[k] += added[k]


@jit
def _add_product(
    row: int, given: RowSystems, x: Numbers, gathered: Numbers, drawn: Numbers, added: Numbers, product: Numbers
) -> None:
    """Add the nonzeros' part of the product of a row's matrix with x. Sources of one piece are gathered already."""
    start, end = given.row_ptr[row], given.row_ptr[row + 1]
    for begin in range(start, end, PIECE):
        length = min(PIECE, end - begin)
        if end - start > PIECE:
            _gather(begin, length, given, gathered)
        np.dot(gathered[:length], x, drawn[:length])
        for n in range(length):
            drawn[n] *= given.curvature[begin + n]
        np.dot(gathered[:length].T, drawn[:length], added)
        for k in range(len(x)):
            product[k] += added[k]


@jit
def _gather(begin: int, length: int, given: RowSystems, gathered: Numbers) -> None:
    """Gather the factors of some nonzeros' sources, a one for the bias, and a_hat last if the system is bordered."""
    width, bordered = gathered.shape[1], given.border.shape[1] > 0
    for n in range(length):
        source = given.sources[given.col[begin + n], given.first :]
        for k in range(given.rank):
            gathered[n, k] = source[k]
        if width - bordered > given.rank:
            gathered[n, given.rank] = 1.0
        if bordered:
            gathered[n, width - 1] = given.a_hat[begin + n]


@jit
def _multiply_shared(row: int, given: RowSystems, has_base: bool, x: Numbers, product: Numbers) -> None:
    """Multiply a row's matrix, without its nonzeros, with x."""
    last, border, own_ridge = len(x) - 1, given.border, row % len(given.ridge)
    if has_base:
        np.dot(given.base, x, product)
    else:
        product[:] = 0.0
    for k in range(last + 1):
        product[k] += given.ridge[own_ridge, k] * x[k]
    if border.shape[1] > 0:
        across = 0.0
        for k in range(last):
            product[k] += border[row, k] * x[last]
            across += border[row, k] * x[k]
        product[last] += across + border[row, last] * x[last]
