"""Coordinate ascent for Poisson factorization (Gopalan, Hofman, Blei 2015; the exposure model of the paper).

    a_ui ~ Poisson(pi_u . lambda_i),    q(pi_uk) = Gamma(shape_uk, rate_k),    g = exp(E[log .])

One update serves users and items: ``rows`` are the side that moves, ``cols`` the side that stands still.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.rows import pieces


class CountBlock(NamedTuple):
    """Counts of one block in row order. row_ptr (n + 1,), col (nnz,) places in ``cols``, exposure (nnz,) > 0."""

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    exposure: Floats


def update_shape(prior: float, block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Variational shape of each row's Gamma factors.

    shape_uk = prior + g_uk sum_i a_ui g_ik / (g_u . g_i)        (Gopalan et al. 2015, eq. 6)

    Parameters
    ----------
    row_geometric_mean, cols : (n, L), (m, L). exp(E[log .]) of the rows and of the columns.

    Returns
    -------
    (n, L), each >= prior. A row sums to L * prior + its total count.
    """
    shape = np.zeros_like(row_geometric_mean)
    for row, start, end in pieces(block.row_ptr):
        source = cols[block.col[start:end]]
        shape[row] += (block.exposure[start:end] / (source @ row_geometric_mean[row])) @ source
    shape *= row_geometric_mean
    shape += prior
    return shape


def log_rates(block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> float:
    """sum_obs a_ui log(g_u . g_i), the part of the ELBO that needs the nonzeros; float64."""
    total = 0.0
    for row, start, end in pieces(block.row_ptr):
        rate = cols[block.col[start:end]] @ row_geometric_mean[row]
        total += float(np.log(rate.astype(np.float64)) @ block.exposure[start:end])
    return total


def pair_means(block: CountBlock, row_mean: Floats, cols: Floats) -> Floats:
    """The reconstructed exposure a_hat_ui = E[pi_u] . E[lambda_i] of each nonzero; (nnz,), in row order."""
    means = np.empty(len(block.col), cols.dtype)
    for row, start, end in pieces(block.row_ptr):
        means[start:end] = cols[block.col[start:end]] @ row_mean[row]
    return means
