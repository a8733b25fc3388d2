"""The normal equations of :mod:`dcrec_spark.kernels.ridge` formed row by row, and solved by Cholesky's method."""

from collections.abc import Iterator

import numpy as np
from scipy.linalg.lapack import dposv, sposv

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.csr import pieces, row_products, row_sums
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge import items_system
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock, Regulariser, Shared, System
from dcrec_spark.kernels.threads import over_rows


def solve_rows(block: RatingBlock, system: System) -> Floats:
    """Solve each row's :class:`System`. A row whose matrix is not positive definite comes back as NaN."""
    if _is_one_matrix(system):
        return _solve_together(block, system)
    solved = np.empty_like(system.right)
    if pays(len(block.col) * system.base.size):
        from dcrec_spark.kernels.loops import ridge as loops

        of_system = (system.sources, system.curvature, system.pull, system.base, system.ridge, system.border)
        numbers = [plain(each, solved.dtype) for each in (block.a_hat, *of_system, system.right)]
        pairs = plain(block.row_ptr), plain(block.col)
        given = (*pairs, *numbers, system.rank)
        over_rows(lambda first, last: loops.solve_rows(first, last, *given, solved), block.row_ptr)
        return solved
    for row, (matrix, right) in enumerate(assembled(block, system)):
        solved[row] = solve(matrix, right)
    return solved


def _is_one_matrix(system: System) -> bool:
    """Whether all rows have the same matrix: every pair weighs the same, and every row is regularised alike."""
    alike = not system.curvature.any() and not system.is_bordered
    return alike and len(system.ridge) > 0 and not np.ptp(system.ridge, axis=0).any()


def _solve_together(block: RatingBlock, system: System) -> Floats:
    """Solve rows of one matrix at once: O(nnz F + n F^2)."""
    drawn = row_products(block.row_ptr, block.col, system.pull, system.sources[:, : system.rank])
    if system.has_bias:
        drawn = np.column_stack([drawn, row_sums(block.row_ptr, system.pull)])
    right = system.right + drawn.astype(system.right.dtype, copy=False)
    matrix = system.base + np.diag(system.ridge[0])
    return np.ascontiguousarray(solve(matrix, right.T).T)


def assembled(block: RatingBlock, system: System) -> Iterator[tuple[Floats, Floats]]:
    """Assemble each row's matrix, lower triangle, and right-hand side, in arrays that the next row overwrites."""
    _, curvature, pull, base, ridge, border, right, _ = system
    sources, bordered = system.full_sources, system.is_bordered
    matrix, row_right = np.empty_like(base, order="C"), np.empty_like(right[:1])[0]
    diagonal = matrix.reshape(-1)[:: len(base) + 1]
    scale = np.sqrt(curvature) if len(curvature) == 0 or curvature.min() >= 0 else None
    walk = pieces(block.row_ptr)
    piece = next(walk, None)
    for row in range(len(right)):
        matrix[:] = base
        diagonal += ridge[row]
        row_right[:] = right[row]
        if bordered:
            matrix[-1] += border[row]
        while piece is not None and piece[0] == row:
            start, end = piece[1], piece[2]
            gathered = gather(sources, block, start, end, bordered)
            row_right += pull[start:end] @ gathered
            if scale is None:
                matrix += gathered.T @ (gathered * curvature[start:end, None])
            else:
                gathered *= scale[start:end, None]
                matrix += gathered.T @ gathered
            piece = next(walk, None)
        yield matrix, row_right


def sums_over_pairs(
    block: RatingBlock, users: Floats, gram: Array, shared: Shared, design: Design
) -> tuple[Floats, Floats]:
    """Compute what the pairs of a block of items add to their normal equations: X' diag(curvature) X and X' pull.

    Parameters
    ----------
    block : ratings of n items. users, shared, design : as for :func:`dcrec_spark.kernels.ridge.items_system`.
    gram : a Gram matrix of users, for its shape alone: what all pairs add is left out here.

    Returns
    -------
    The lower triangles, row by row, (n, F (F + 1) / 2), and (n, F), as :meth:`System.of_row` takes them; float64.
    """
    of_nothing = Regulariser(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    system = items_system(block, users, {"augmented": np.zeros_like(gram)}, shared, design, of_nothing)
    n, size = system.right.shape
    lower = np.tril_indices(size)
    halves, rights = np.empty((n, len(lower[0]))), np.empty((n, size))
    for row, (matrix, right) in enumerate(assembled(block, system)):
        halves[row], rights[row] = matrix[lower], right
    return halves, rights


def solve(matrix: Floats, right: Floats) -> Floats:
    """Solve matrix x = right, (F,) or (F, P), from the lower triangle of ``matrix``, which is overwritten.

    NaN where the matrix is not positive definite.
    """
    posv = dposv if matrix.dtype == np.float64 else sposv
    # The transpose hands LAPACK its own order, and reads the last row as the last column.
    _, solution, failed = posv(matrix.T, right, lower=0, overwrite_a=True)
    return np.full_like(solution, np.nan) if failed else solution


def gather(sources: Floats, block: RatingBlock, start: int, end: int, bordered: bool) -> Floats:
    """Gather the sources of some nonzeros, a_hat in the last column where the system is bordered."""
    gathered = sources[block.col[start:end]]
    if bordered:
        gathered[:, -1] = block.a_hat[start:end]
    return gathered
