"""Conjugate gradients: steps toward the solution of each row's normal equations, none of whose matrices is formed.

    A = base + diag(ridge) + border + X' diag(curvature) X          b = right + X' pull

A step multiplies A with a direction, base first and then the nonzeros: O(nnz F + n F^2), where Cholesky's method takes
O(nnz F^2 + n F^3). All unknowns of a row move together, its bias and its confounder weight too; the diagonal of A puts
them on one scale. From the same start no step raises a row's loss, and what a row reaches is its loss's smallest on
the line from the start (and on more): a step may be lengthened as one to the solution may.
"""

import numpy as np

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.csr import inner_products, row_products, row_sums
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import RatingBlock, System
from dcrec_spark.kernels.threads import over_rows


def descend(block: RatingBlock, system: System, start: Floats, steps: int) -> Floats:
    """Take steps of conjugate gradients in each row's :class:`dcrec_spark.kernels.ridge_terms.System`.

    A row stops where rounding leaves nothing to gain. A row whose matrix is seen not to be positive definite comes
    back as NaN.

    Parameters
    ----------
    block : the ratings of n rows. system : their normal equations. start : (n, F) where the rows are. steps : at most.

    Returns
    -------
    (n, F), of the type of the system.
    """
    begin = start.astype(system.right.dtype)
    if not pays(len(block.col) * len(system.base) * steps):
        return _together(block, system, begin, steps)
    from dcrec_spark.kernels.loops import conjugate as loops

    of_system = (system.sources, system.curvature, system.pull, system.base, system.ridge, system.border)
    numbers = [plain(each, begin.dtype) for each in (block.a_hat, *of_system, system.right)]
    pairs = plain(block.row_ptr), plain(block.col)
    limits = system.rank, steps, _negligible(begin)
    over_rows(lambda first, last: loops.descend_rows(first, last, *pairs, *numbers, *limits, begin), block.row_ptr)
    return begin


def _together(block: RatingBlock, system: System, begin: Floats, steps: int) -> Floats:
    """Move all rows at once, each with a step length of its own."""
    x, sources = begin, system.full_sources
    diagonal = _diagonal(block, system, sources)
    residual = system.right + _of_nonzeros(block, system, sources, system.pull) - _product(block, system, sources, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = residual / diagonal
        left = _inner(residual, direction)
        enough = _negligible(begin) * _inner(x, diagonal * x)
        for _ in range(steps):
            moved = _product(block, system, sources, direction)
            curve = _inner(direction, moved)
            x = np.where((curve > 0.0) | (left <= enough), x, np.nan)
            length = np.where(left > enough, left / curve, 0.0)
            x = x + length * direction
            residual = residual - length * moved
            scaled = residual / diagonal
            before, left = left, np.where(left > enough, _inner(residual, scaled), left)
            enough = _negligible(begin) * _inner(x, diagonal * x)
            direction = scaled + np.where(before > 0.0, left / before, 0.0) * direction
    return np.where((diagonal > 0.0).all(axis=1, keepdims=True), x, np.nan).astype(system.right.dtype)


def _negligible(x: Floats) -> float:
    """Return what the squared residual of a row at rest may be, as a share of its squared length: rounding."""
    return float(np.square(np.finfo(x.dtype).eps))


def _inner(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("uf,uf->u", a, b)[:, None])


def _product(block: RatingBlock, system: System, sources: Floats, x: Floats) -> Floats:
    """Multiply each row's matrix with the row of x, (n, F)."""
    product = x @ system.base + system.ridge * x
    drawn = inner_products(block.row_ptr, block.col, x, sources)
    if system.is_bordered:
        product[:, :-1] += system.border[:, :-1] * x[:, -1:]
        product[:, -1] += np.einsum("uf,uf->u", system.border, x)
        drawn += block.a_hat * np.repeat(x[:, -1], np.diff(block.row_ptr))
    return np.asarray(product + _of_nonzeros(block, system, sources, system.curvature * drawn))


def _diagonal(block: RatingBlock, system: System, sources: Floats) -> Floats:
    diagonal = np.diag(system.base) + system.ridge
    diagonal = diagonal + row_products(block.row_ptr, block.col, system.curvature, np.square(sources))
    if system.is_bordered:
        diagonal[:, -1] += system.border[:, -1]
        diagonal[:, -1] += row_sums(block.row_ptr, system.curvature * np.square(block.a_hat))
    return np.asarray(diagonal)


def _of_nonzeros(block: RatingBlock, system: System, sources: Floats, values: Floats) -> Floats:
    """Add up value times source of each row's nonzeros, h among the sources where the system is bordered; (n, F)."""
    total = row_products(block.row_ptr, block.col, values, sources)
    if system.is_bordered:
        total[:, -1] += row_sums(block.row_ptr, values * block.a_hat)
    return np.asarray(total)
