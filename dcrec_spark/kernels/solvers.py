"""Solutions of the normal equations of :mod:`dcrec_spark.kernels.ridge`: Cholesky's method, conjugate gradients.

    A = base + diag(ridge) + border + X' diag(curvature) X          b = right + X' pull

Cholesky's method takes O(nnz F^2 + n F^3), a step of conjugate gradients O(nnz F + n F^2), with the diagonal of A as
the preconditioner. No step raises a row's loss, and the end of the steps minimises it on the line from the start: so
over-relaxation is as safe as with a solved row.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, sposv
from scipy.optimize import nnls

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge import row_systems
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock, Regulariser, RowSystems, Shared
from dcrec_spark.kernels.threads import loop_inputs, over_rows

# Numbers of matrices that are assembled at a time: 8 MB of them.
MATRICES = 1 << 20
_LINE = 64  # bytes of a cache line


def solve_rows(system: RowSystems) -> Floats:
    """Solve each row of a :class:`RowSystems`. A row whose matrix is not positive definite becomes NaN."""
    from dcrec_spark.kernels.loops import ridge

    solved = np.empty(system.shape, system.right.dtype)
    over_rows(ridge.solve_rows, system.row_ptr, _in_lines(system), solved)
    return solved


def _in_lines(system: RowSystems) -> RowSystems:
    filled = system.full_sources(_LINE // system.right.itemsize)
    return loop_inputs(system._replace(sources=filled), system.right.dtype)


def descend(system: RowSystems, start: Floats, steps: int) -> Floats:
    """Take steps of conjugate gradients, ``steps`` at most, in each row's system, from ``start`` (n, F).

    A row stops if rounding leaves nothing to gain. A row whose matrix proves not to be positive definite becomes NaN.
    """
    from dcrec_spark.kernels.loops import conjugate

    rows = start.astype(system.right.dtype)
    # The squared residual of a solved row, as a share of its squared length: rounding.
    negligible = float(np.square(np.finfo(rows.dtype).eps))
    over_rows(conjugate.descend_rows, system.row_ptr, loop_inputs(system, rows.dtype), steps, negligible, rows)
    return rows


def over_relax(before: Floats, solved: Floats, length: float) -> Floats:
    """Move each row, (n, F), ``length`` times as far as to its solution.

    Below a length of 2 each row's loss falls: its distance from the smallest shrinks by (1 - length)^2.
    """
    if length == 1.0:
        return solved
    start = before.astype(solved.dtype, copy=False)
    return np.asarray(start + solved.dtype.type(length) * (solved - start))


def assemble(system: RowSystems) -> Iterator[tuple[Floats, Floats]]:
    """Assemble each row's matrix, (F, F) with its lower triangle, and right-hand side, (F,)."""
    from dcrec_spark.kernels.loops import ridge

    given = _in_lines(system)
    n_rows, size = system.shape
    at_once = max(1, MATRICES // size**2)
    for begin in range(0, n_rows, at_once):
        end = min(n_rows, begin + at_once)
        matrices = np.zeros((end - begin, size, size), system.right.dtype)
        rights = np.empty((end - begin, size), system.right.dtype)
        ridge.assemble_rows(begin, end, given, matrices, rights)
        yield from zip(matrices, rights, strict=True)


def sums_over_pairs(
    block: RatingBlock, users: Floats, gram: Array, shared: Shared, design: Design
) -> tuple[Floats, Floats]:
    """Compute what the pairs of a block of items add to their normal equations: X' diag(curvature) X and X' pull.

    gram : a Gram matrix of users, for its shape alone: the part of all pairs is left out.

    Returns (n, F (F + 1) / 2) and (n, F), as :meth:`RowSystems.of_row` takes them. float64.
    """
    design = design._replace(reg=Regulariser(0.0, 0.0, 0.0, 0.0))
    system = row_systems(block, users, {"augmented": np.zeros_like(gram)}, shared, design, of_users=False)
    n, size = system.shape
    lower = np.tril_indices(size)
    halves, rights = np.empty((n, len(lower[0]))), np.empty((n, size))
    for row, (matrix, right) in enumerate(assemble(system)):
        halves[row], rights[row] = matrix[lower], right
    return halves, rights


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve matrix x = right, (F,) or (F, P), from the lower triangle of ``matrix``, which is overwritten.

    NaN if the matrix is not positive definite.
    """
    posv = dposv if matrix.dtype == np.float64 else sposv
    # The transpose hands LAPACK its own order, and reads the last row as the last column.
    _, solution, failed = posv(matrix.T, right, lower=0, overwrite_a=True)
    return np.full_like(solution, np.nan) if failed else solution


def gather(sources: Floats, pairs: RatingBlock | RowSystems, start: int, end: int, bordered: bool) -> Floats:
    """Gather the sources of some nonzeros, a_hat in the last column if the system is bordered."""
    gathered = sources[pairs.col[start:end]]
    if bordered:
        gathered[:, -1] = pairs.a_hat[start:end]
    return gathered


def least_squares_on_simplex(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the w >= 0 with sum 1 for which sum (y - w . p)^2 over observations of k predictions p is smallest, (k,).

    With residuals r_j = y - p_j and M = sum r r' that sum is w' M w. Lawson's and Hanson's method finds the v >= 0 with
    the smallest v' M v + (sum v - 1)^2, which is a multiple of w. It takes few weights where equal ones would do.

    gram : (k + 1, k + 1) sum of [p, y] [p, y]'.
    """
    residuals = gram[:-1, :-1] - gram[:-1, -1:] - gram[-1:, :-1] + gram[-1, -1]
    values, vectors = np.linalg.eigh(residuals / max(np.trace(residuals), np.finfo(np.float64).tiny))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    multiple, _ = nnls(np.vstack([root, np.ones(len(root))]), np.append(np.zeros(len(root)), 1.0))
    return np.asarray(multiple / multiple.sum())
