"""Coordinate ascent for Gamma-Poisson factorization (Gopalan, Hofman, Blei 2015).

    y_ui ~ Poisson(theta_u . beta_i [+ gamma_u a_hat_ui] [+ offset_ui]),   q Gamma(shape, rate),   g = exp(E[log .])

The exposure model has the inner product alone (in the paper theta is pi, beta is lambda, y is a). The Poisson outcome
adds the confounder and the intercept. A weight that is updated with its row is the row's last column, and ``a_hat``
holds its nonzeros' values. A term that is constant during the update is the ``offset``. One update serves users and
items: ``rows`` are the side that is updated, ``cols`` the other side.

Plain updates F converge slowly: a user of MovieLens 100K takes a hundred and more. SQUAREM (Varadhan and Roland 2008)
extrapolates from two of them. With x the logarithms of the shapes::

    x1 = F(x0), x2 = F(x1)      r = x1 - x0, v = (x2 - x1) - r
    guess = x0 + 2 a r + a^2 v  a = |r| / |v|, bounded. A = 1 would give x2
    x0 = F(guess)               if the row's part of the ELBO is no worse at the guess than at x1, else x2

Updates never lower a row's part of the ELBO, so no row ends below where it began.
"""

import numpy as np

from dcrec_spark.kernels.csr import CountBlock, inner_products
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.threads import loop_input, loop_inputs, over, over_rows


def update_shape(prior: float | Floats, block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Update the variational shape of each row's Gamma factors, (n, F), each at least its prior.

        shape_uk = prior_k + g_uk sum_i y_ui g_ik / rate_ui        (Gopalan et al. 2015, eq. 6)

    row_geometric_mean, cols : (n, F), (m, L). F = L, or L + 1 with values in ``block.a_hat``.
    """
    shape = drawn_counts(block, row_geometric_mean, cols)
    shape *= row_geometric_mean
    shape += prior
    return shape


def drawn_counts(block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Add up y_ui g_ik / rate_ui over the nonzeros of each row, (n, F). See :func:`update_shape`."""
    from dcrec_spark.kernels.loops import poisson

    drawn = np.zeros_like(row_geometric_mean)
    given = loop_inputs(block, drawn.dtype), *[loop_input(each, drawn.dtype) for each in (row_geometric_mean, cols)]
    over_rows(poisson.ratio_sums, block.row_ptr, *given, drawn)
    return drawn


def converge_shape(
    prior: float | Floats, block: CountBlock, shape: Floats, rate: Floats, cols: Floats, tol: float, most: int
) -> Floats:
    """Update shapes (n, F) until they converge, given the columns. Rows are independent, each in double precision.

    prior : one for all components, or (F,). rate : (F,) or (n, F). cols : (m, L) as for :func:`update_shape`.
    tol : a row has converged if an update moves no shape by more, relative to the row's largest.
    most : rounds of three updates after which a row stops. Each is the result of an update, so at least the prior.
    """
    from dcrec_spark.kernels.loops import poisson

    converged = np.empty_like(shape)
    priors = np.broadcast_to(np.asarray(prior, np.float64), shape.shape[1:])
    rates = np.broadcast_to(rate.astype(np.float64), shape.shape)
    given = loop_inputs(block, shape.dtype), loop_input(cols, shape.dtype), *map(loop_input, (priors, rates, shape))
    over_rows(poisson.converge, block.row_ptr, *given, tol, most, converged)
    return converged


def rates(block: CountBlock, row_geometric_mean: Floats, cols: Floats) -> Floats:
    """Compute rate_ui = g_u . g_i [+ g_gamma_u a_hat_ui] [+ offset_ui] of each nonzero, in row order. (nnz,)."""
    width = cols.shape[1]
    rate = inner_products(block.row_ptr, block.col, row_geometric_mean[:, :width], cols)
    if len(block.a_hat):
        rate += np.repeat(row_geometric_mean[:, width], np.diff(block.row_ptr)) * block.a_hat
    return rate + block.offset if len(block.offset) else rate


def log_rates(block: CountBlock, rate: Floats) -> float:
    """Add up y_ui log rate_ui, the part of the ELBO that needs the nonzeros. float64. A count of 0 adds nothing."""
    counted = block.counts > 0
    counts = block.counts
    if not counted.all():
        rate, counts = rate[counted], counts[counted]
    logs = np.empty(len(rate))

    def work(first: int, last: int) -> None:
        np.log(rate[first:last].astype(np.float64, copy=False), out=logs[first:last])

    over(work, len(rate), len(rate))
    return float(logs @ counts)
