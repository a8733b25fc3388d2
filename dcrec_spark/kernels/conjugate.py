"""Conjugate gradients: steps toward the solution of each row's normal equations, without forming a matrix.

    A = base + diag(ridge) + border + X' diag(curvature) X          b = right + X' pull

A step multiplies A by a direction, base first and then the nonzeros: O(nnz F + n F^2), where Cholesky's method takes
O(nnz F^2 + n F^3). All unknowns of a row move together, its bias and its confounder weight too. The diagonal of A is
the preconditioner. No step raises a row's loss. The end of the steps minimises the loss on the line from the start, so
over-relaxation is as safe as with a solved row.
"""

import numpy as np

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import RatingBlock, System
from dcrec_spark.kernels.threads import over_rows


def descend(block: RatingBlock, system: System, start: Floats, steps: int) -> Floats:
    """Take steps of conjugate gradients in each row's :class:`dcrec_spark.kernels.ridge_terms.System`.

    A row stops if rounding leaves nothing to gain. A row whose matrix proves not to be positive definite becomes NaN.

    Parameters
    ----------
    block : the ratings of n rows. system : their normal equations. start : (n, F) current rows. steps : at most.

    Returns
    -------
    (n, F), of the type of the system.
    """
    from dcrec_spark.kernels.loops import conjugate

    rows = start.astype(system.right.dtype)
    # The squared residual of a solved row, as a share of its squared length: rounding.
    negligible = float(np.square(np.finfo(rows.dtype).eps))
    over_rows(conjugate.descend_rows, block.row_ptr, system.with_pairs(block), steps, negligible, rows)
    return rows
