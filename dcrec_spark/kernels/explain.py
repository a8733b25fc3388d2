"""Explanations of preferences: one contribution of each of the user's ratings, and a baseline. The sum is exact.

    preference_ui = baseline_ui + sum_j contribution_uij            j: a rating of u

Least squares: the row of user u solves A x = right + sum_j pull_j s_j with s_j = [beta_j, a_hat_uj], so with
v_i = A^-1 [beta_i, 0] the contribution is pull_j v_i . s_j, and the baseline v_i . right. The weights are part of A,
too. Biases and slopes are not explained: A has more rows, v_i as many zeros, and only theta . beta is split.

Poisson: the part of the user's shapes above the prior comes from the ratings, by their shares,

    share_jk = R_j g_jk / sum_j' R_j' g_j'k                         R_j = y_uj / rate_uj
    contribution_uij = sum_k E[beta_ik] (shape_uk - prior_k) share_jk / rate_uk

and the baseline is the prior's part. If the shapes have converged, (shape_uk - prior_k) share_jk = R_j g_uk g_jk.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.gamma import Floats, geometric_mean
from dcrec_spark.kernels.poisson import rates
from dcrec_spark.kernels.ridge_terms import RowSystems
from dcrec_spark.kernels.solvers import assemble, gather, solve

# Contributions of one user that are computed at a time: 32 MB of them.
TABLE = 1 << 22


class Wanted(NamedTuple):
    """The pairs to explain, in row order.

    row_ptr (n + 1,), col (P,) places in the inbox. reasons : how many of each pair at most.
    order : (nnz,), of the block's nonzeros, of equal contributions the one with the smaller number comes first.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    reasons: int
    order: NDArray[np.int64]

    def of_row(self, row: int) -> NDArray[np.int32]:
        return self.col[self.row_ptr[row] : self.row_ptr[row + 1]]


class Explained(NamedTuple):
    """preference, baseline, others (P,) of each pair, and its reasons: the largest contributions by absolute value.

    A contribution of zero is no reason. Others is the sum of the rest: preference = baseline + reasons + others.
    n_reasons (P,). reason_at, contribution (R,) pair after pair, reason_at being places among the block's nonzeros.
    """

    preference: Floats
    baseline: Floats
    others: Floats
    n_reasons: NDArray[np.int64]
    reason_at: NDArray[np.int64]
    contribution: Floats


# Of one row: the baseline of its pairs, (P,). Contributions are the second, (P, F), times the third, (J, F).
_Parts = tuple[Floats, Floats, Floats]


def explain_ridge(system: RowSystems, wanted: Wanted, factors: slice) -> Explained:
    """Explain theta . beta as ``system`` determines it. A row without a solution has NaN. factors : of the unknowns."""
    sources, bordered = system.full_sources(), system.is_bordered

    def parts() -> Iterator[_Parts]:
        for row, (matrix, _) in enumerate(assemble(system)):
            start, end = int(system.row_ptr[row]), int(system.row_ptr[row + 1])
            sought = np.zeros((len(wanted.of_row(row)), len(matrix)), matrix.dtype)
            sought[:, factors] = sources[wanted.of_row(row), factors]
            of_pair = solve(matrix, sought.T).T
            of_rating = gather(sources, system, start, end, bordered) * system.pull[start:end, None]
            yield of_pair @ system.right[row % len(system.right)], of_pair, of_rating

    return _collect(parts(), system.row_ptr, wanted)


def explain_poisson(
    block: CountBlock, prior: Floats, shape: Floats, rate: Floats, cols: Floats, means: Floats, wanted: Wanted
) -> Explained:
    """Explain preferences by posterior means. cols, means : (m, K), exp(E[log beta]) and E[beta] of the inbox.

    prior, shape, rate : of the users' factors, (F,) and (n, F), the confounder weight, if any, at the end.
    """
    rank = cols.shape[1]
    per_rate = block.counts / rates(block, geometric_mean(shape, rate), cols)
    above, at_prior = ((shape - prior) / rate)[:, :rank], (prior / rate)[:, :rank]

    def parts() -> Iterator[_Parts]:
        for row in range(len(above)):
            start, end = int(block.row_ptr[row]), int(block.row_ptr[row + 1])
            share = per_rate[start:end, None] * cols[block.col[start:end]]
            total = share.sum(axis=0)
            share /= np.where(total > 0, total, 1.0)
            sought = means[wanted.of_row(row)]
            yield sought @ at_prior[row], sought * above[row], share

    return _collect(parts(), block.row_ptr, wanted)


def _collect(rows: Iterator[_Parts], row_ptr: NDArray[np.int64], wanted: Wanted) -> Explained:
    ranked_pieces = []
    for row, (baseline, of_pair, of_rating) in enumerate(rows):
        start, end = int(row_ptr[row]), int(row_ptr[row + 1])
        step = max(1, TABLE // max(1, end - start))
        for at in range(0, max(1, len(of_pair)), step):
            piece = slice(at, at + step)
            table = of_pair[piece] @ of_rating.T
            ranked_pieces.append(_rank(baseline[piece], table, wanted.order[start:end], start, wanted.reasons))
    return Explained(*map(np.concatenate, zip(*ranked_pieces, strict=True)))


def _rank(baseline: Floats, table: Floats, order: NDArray[np.int64], start: int, most: int) -> Explained:
    """Choose the largest of each row of a table of contributions (P, J), those that are zero left out."""
    keys = np.broadcast_to(order, table.shape), -np.abs(table)
    ranked = np.lexsort(keys, axis=1)[:, :most]
    largest = np.take_along_axis(table, ranked, axis=1)
    rest = table.copy()
    np.put_along_axis(rest, ranked, 0.0, axis=1)
    others = rest.sum(axis=1)
    is_reason = np.abs(largest) > 0
    return Explained(
        baseline + (largest.sum(axis=1) + others),
        baseline,
        others,
        is_reason.sum(axis=1),
        start + ranked[is_reason],
        largest[is_reason],
    )
