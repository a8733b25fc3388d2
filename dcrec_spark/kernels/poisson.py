"""Coordinate ascent for Gamma-Poisson factorization (Gopalan, Hofman, Blei 2015).

    y_ui ~ Poisson(theta_u . beta_i [+ gamma_u a_hat_ui] [+ offset_ui]),   q Gamma(shape, rate),   g = exp(E[log .])

The exposure model has the inner product alone (in the paper theta is pi, beta is lambda, y is a). The Poisson outcome
adds the confounder and the intercept: a component that moves with its row stands in the row's last column and has its
nonzeros' values in ``a_hat``; what stands still while the rows move is the ``offset``. One update serves users and
items: ``rows`` are the side that moves, ``cols`` the side that stands still.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.csr import are_short, inner_products, pieces, row_sums
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.threads import over, over_rows

NOTHING = np.empty(0)


class CountBlock(NamedTuple):
    """Counts of one block in row order.

    row_ptr (n + 1,), col (nnz,) places in ``cols``, counts (nnz,) >= 0, each times its pair's weight where it has one;
    a_hat (nnz,) or (0,): what the last column of the rows multiplies;
    offset (nnz,) or (0,): a part of each rate that is known, in geometric means.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    counts: Floats
    a_hat: Floats = NOTHING
    offset: Floats = NOTHING


def update_shape(prior: float | Floats, block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Update the variational shape of each row's Gamma factors.

    shape_uk = prior_k + g_uk sum_i y_ui g_ik / rate_ui        (Gopalan et al. 2015, eq. 6)

    Parameters
    ----------
    prior : one for all components, or (F,).
    row_geometric_mean, cols : (n, F), (m, L). exp(E[log .]) of the rows and of the columns; F = L, or L + 1 with
        values in ``block.a_hat``.

    Returns
    -------
    (n, F), each >= prior. Without an offset a row sums to its priors plus its total count.
    """
    shape = drawn_counts(block, row_geometric_mean, cols)
    shape *= row_geometric_mean
    shape += prior
    return shape


def drawn_counts(block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Add up y_ui g_ik / rate_ui over the nonzeros of each row, (n, F); see :func:`update_shape`."""
    drawn = np.zeros_like(row_geometric_mean)
    if pays(len(block.col) * cols.shape[1]):
        from dcrec_spark.kernels.loops import poisson as loops

        numbers = (block.counts, block.a_hat, block.offset, row_geometric_mean, cols)
        arrays = [plain(block.row_ptr), plain(block.col), *[plain(each, drawn.dtype) for each in numbers]]
        over_rows(lambda first, last: loops.drawn(first, last, *arrays, drawn), block.row_ptr)
        return drawn
    if not are_short(block.row_ptr, cols.shape[1]):
        for row, start, end in pieces(block.row_ptr):
            source = _sources(block, cols, start, end)
            drawn[row] += (
                block.counts[start:end] / _rates(block, source, row_geometric_mean[row], start, end)
            ) @ source
        return drawn
    share = (block.counts / rates(block, row_geometric_mean, cols)).astype(cols.dtype, copy=False)
    of_factors = np.asarray(csr_array((share, block.col, block.row_ptr), shape=(len(drawn), len(cols))) @ cols)
    drawn[:, : cols.shape[1]] = of_factors
    if len(block.a_hat):
        drawn[:, -1] = row_sums(block.row_ptr, share * block.a_hat)
    return drawn


def rates(block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Compute rate_ui = g_u . g_i [+ g_gamma_u a_hat_ui] [+ offset_ui] of each nonzero, in row order; (nnz,)."""
    width = cols.shape[1]
    rate = inner_products(block.row_ptr, block.col, row_geometric_mean[:, :width], cols)
    if len(block.a_hat):
        rate += np.repeat(row_geometric_mean[:, width], np.diff(block.row_ptr)) * block.a_hat
    return rate + block.offset if len(block.offset) else rate


def weighted_sums(row_ptr: NDArray[np.int64], col: NDArray[np.int32], weight: Floats, means: Floats) -> Floats:
    """Add up weight_ui E[beta_i] over the nonzeros of each row; (n, K), float64. weight (nnz,), means (m, K)."""
    shape = len(row_ptr) - 1, len(means)
    return np.asarray(
        csr_array((weight.astype(np.float64), col, row_ptr), shape=shape) @ means.astype(np.float64, copy=False)
    )


def log_rates(block: CountBlock, rate: Floats) -> float:
    """Add up y_ui log rate_ui, the part of the ELBO that needs the nonzeros; float64. A count of 0 adds nothing."""
    counted = block.counts > 0
    counts = block.counts
    if not counted.all():
        rate, counts = rate[counted], counts[counted]
    logs = np.empty(len(rate))

    def work(first: int, last: int) -> None:
        np.log(rate[first:last].astype(np.float64, copy=False), out=logs[first:last])

    over(work, len(rate), len(rate))
    return float(logs @ counts)


def _sources(block: CountBlock, cols: Floats, start: int, end: int) -> Floats:
    source = cols[block.col[start:end]]
    return np.column_stack([source, block.a_hat[start:end]]) if len(block.a_hat) else source


def _rates(block: CountBlock, source: Floats, geometric: Floats, start: int, end: int) -> Floats:
    rate = source @ geometric
    return rate + block.offset[start:end] if len(block.offset) else rate
