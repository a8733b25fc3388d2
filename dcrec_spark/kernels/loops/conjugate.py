"""Conjugate gradients of :mod:`dcrec_spark.kernels.conjugate`, row by row."""

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled

# Sources of a row that are gathered at a time. Most rows have no more ratings: theirs are gathered once for all steps.
PIECE = 512


@compiled
def descend_rows(
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
    steps: int,
    negligible: float,
    x: Numbers,
) -> None:
    """Take steps from x, in place, toward (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull.

    A row ends where what is left is a negligible share of where it is. NaN where a matrix is seen not to be positive
    definite.
    """
    width, bordered, has_base = len(base), border.shape[1] > 0, base.any()
    gathered, drawn = np.empty((PIECE, width), base.dtype), np.empty(PIECE, base.dtype)
    unknown, moved, added = np.empty(width, base.dtype), np.empty(width, base.dtype), np.empty(width, base.dtype)
    diagonal, residual = np.empty(width, base.dtype), np.empty(width, base.dtype)
    direction, scaled = np.empty(width, base.dtype), np.empty(width, base.dtype)
    for row in range(first, last):
        start, end = row_ptr[row], row_ptr[row + 1]
        for k in range(width):
            unknown[k] = x[row, k]
            diagonal[k] = base[k, k] + ridge[row, k]
        if bordered:
            diagonal[width - 1] += border[row, width - 1]
        _multiply_shared(base, ridge[row], border[row], has_base, unknown, moved)
        for k in range(width):
            residual[k] = right[row, k] - moved[k]
        _add_residual(
            start,
            end,
            col,
            a_hat,
            sources,
            rank,
            bordered,
            curvature,
            pull,
            unknown,
            gathered,
            drawn,
            added,
            diagonal,
            residual,
        )
        left, size, definite = 0.0, 0.0, True
        for k in range(width):
            definite = definite and diagonal[k] > 0.0
            direction[k] = residual[k] / diagonal[k]
            left += residual[k] * direction[k]
            size += diagonal[k] * unknown[k] * unknown[k]
        for _ in range(steps):
            if left <= negligible * size or not definite:
                break
            _multiply_shared(base, ridge[row], border[row], has_base, direction, moved)
            _add_product(
                start, end, col, a_hat, sources, rank, bordered, curvature, direction, gathered, drawn, added, moved
            )
            curve = 0.0
            for k in range(width):
                curve += direction[k] * moved[k]
            definite = curve > 0.0
            stretch, before, left, size = left / curve, left, 0.0, 0.0
            for k in range(width):
                unknown[k] += stretch * direction[k]
                residual[k] -= stretch * moved[k]
                scaled[k] = residual[k] / diagonal[k]
                left += residual[k] * scaled[k]
                size += diagonal[k] * unknown[k] * unknown[k]
            for k in range(width):
                direction[k] = scaled[k] + left / before * direction[k]
        for k in range(width):
            x[row, k] = unknown[k] if definite else np.nan


@compiled
def _add_residual(
    start: int,
    end: int,
    col: Places,
    a_hat: Numbers,
    sources: Numbers,
    rank: int,
    bordered: bool,
    curvature: Numbers,
    pull: Numbers,
    x: Numbers,
    gathered: Numbers,
    drawn: Numbers,
    added: Numbers,
    diagonal: Numbers,
    residual: Numbers,
) -> None:
    """Add to a row's diagonal and residual at x what its nonzeros bring, whose sources stay gathered if few."""
    for begin in range(start, end, PIECE):
        length = min(PIECE, end - begin)
        _gather(begin, length, col, a_hat, sources, rank, bordered, gathered)
        np.dot(gathered[:length], x, drawn[:length])
        for n in range(length):
            curved = curvature[begin + n]
            drawn[n] = pull[begin + n] - curved * drawn[n]
            for k in range(len(x)):
                diagonal[k] += curved * gathered[n, k] * gathered[n, k]
        np.dot(gathered[:length].T, drawn[:length], added)
        for k in range(len(x)):
            residual[k] += added[k]


@compiled
def _add_product(
    start: int,
    end: int,
    col: Places,
    a_hat: Numbers,
    sources: Numbers,
    rank: int,
    bordered: bool,
    curvature: Numbers,
    x: Numbers,
    gathered: Numbers,
    drawn: Numbers,
    added: Numbers,
    product: Numbers,
) -> None:
    """Add to the product of a row's matrix with x what its nonzeros bring; the sources of few are gathered already."""
    for begin in range(start, end, PIECE):
        length = min(PIECE, end - begin)
        if end - start > PIECE:
            _gather(begin, length, col, a_hat, sources, rank, bordered, gathered)
        np.dot(gathered[:length], x, drawn[:length])
        for n in range(length):
            drawn[n] *= curvature[begin + n]
        np.dot(gathered[:length].T, drawn[:length], added)
        for k in range(len(x)):
            product[k] += added[k]


@compiled
def _gather(
    begin: int, length: int, col: Places, a_hat: Numbers, sources: Numbers, rank: int, bordered: bool, gathered: Numbers
) -> None:
    """Gather the factors of some nonzeros' sources, a one for the bias, a_hat last where the system is bordered."""
    width = gathered.shape[1]
    for n in range(length):
        at = col[begin + n]
        for k in range(rank):
            gathered[n, k] = sources[at, k]
        if width - bordered > rank:
            gathered[n, rank] = 1.0
        if bordered:
            gathered[n, width - 1] = a_hat[begin + n]


@compiled
def _multiply_shared(
    base: Numbers, ridge: Numbers, border: Numbers, has_base: bool, x: Numbers, product: Numbers
) -> None:
    """Multiply what a row's matrix is without its nonzeros with x."""
    last = len(x) - 1
    if has_base:
        np.dot(base, x, product)
    else:
        product[:] = 0.0
    for k in range(last + 1):
        product[k] += ridge[k] * x[k]
    if len(border) > 0:
        across = 0.0
        for k in range(last):
            product[k] += border[k] * x[last]
            across += border[k] * x[k]
        product[last] += across + border[last] * x[last]
