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

import math

import numpy as np

from dcrec_spark.kernels.csr import TOGETHER, CountBlock, four_products, inner_products, one_product
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.loops.jit import jit
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma
from dcrec_spark.kernels.threads import Numbers, loop_input, loop_inputs, over, over_rows

# Factor by which extrapolations may grow from round to round, and by which they shrink after one is refused.
STRETCH = 4.0
# Largest logarithm of a guessed shape. The bound refuses a guess that far, in numbers that are still finite.
LARGEST = 300.0


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
    drawn = np.zeros_like(row_geometric_mean)
    given = loop_inputs(block, drawn.dtype), *[loop_input(each, drawn.dtype) for each in (row_geometric_mean, cols)]
    over_rows(_ratio_sums, block.row_ptr, *given, drawn)
    return drawn


def converge_shape(
    prior: float | Floats, block: CountBlock, shape: Floats, rate: Floats, cols: Floats, tol: float, most: int
) -> Floats:
    """Update shapes (n, F) until they converge, given the columns. Rows are independent, each in double precision.

    prior : one for all components, or (F,). rate : (F,) or (n, F). cols : (m, L) as for :func:`update_shape`.
    tol : a row has converged if an update moves no shape by more, relative to the row's largest.
    most : rounds of three updates after which a row stops. Each is the result of an update, so at least the prior.
    """
    converged = np.empty_like(shape)
    priors = np.broadcast_to(np.asarray(prior, np.float64), shape.shape[1:])
    rates = np.broadcast_to(rate.astype(np.float64), shape.shape)
    given = loop_inputs(block, shape.dtype), loop_input(cols, shape.dtype), *map(loop_input, (priors, rates, shape))
    over_rows(_converge, block.row_ptr, *given, tol, most, converged)
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


# ---- loops over rows


@jit
def _ratio_sums(
    first: int, last: int, block: CountBlock, geometric_mean: Numbers, cols: Numbers, total: Numbers
) -> None:
    """total[u, k] = sum_i y_ui g_ik / rate_ui. The last column may be a weight of a_hat, in the place of g."""
    _, col, counts, a_hat, offset = block
    width, has_weight, has_offset = cols.shape[1], len(a_hat) > 0, len(offset) > 0
    own, added = np.zeros(width + 1), np.zeros(width + 1)
    for row in range(first, last):
        for k in range(geometric_mean.shape[1]):
            own[k] = geometric_mean[row, k]
        weight = own[width]
        added[:] = 0.0
        start, end = block.row_ptr[row], block.row_ptr[row + 1]
        fours = end - (end - start) % TOGETHER
        for n in range(start, fours, TOGETHER):
            a, b, c, d = col[n], col[n + 1], col[n + 2], col[n + 3]
            of_a, of_b, of_c, of_d = four_products(own, width, cols, a, b, c, d)
            if has_weight:
                of_a, of_b = of_a + weight * a_hat[n], of_b + weight * a_hat[n + 1]
                of_c, of_d = of_c + weight * a_hat[n + 2], of_d + weight * a_hat[n + 3]
            if has_offset:
                of_a, of_b = of_a + offset[n], of_b + offset[n + 1]
                of_c, of_d = of_c + offset[n + 2], of_d + offset[n + 3]
            # Without a branch between them, the four quotients are one division of vectors.
            of_a, of_b, of_c, of_d = counts[n] / of_a, counts[n + 1] / of_b, counts[n + 2] / of_c, counts[n + 3] / of_d
            for k in range(width):
                added[k] += (of_a * cols[a, k] + of_b * cols[b, k]) + (of_c * cols[c, k] + of_d * cols[d, k])
            if has_weight:
                added[width] += of_a * a_hat[n] + of_b * a_hat[n + 1] + of_c * a_hat[n + 2] + of_d * a_hat[n + 3]
        for n in range(fours, end):
            at = col[n]
            of_one = one_product(own, width, cols, at)
            if has_weight:
                of_one += weight * a_hat[n]
            if has_offset:
                of_one += offset[n]
            of_one = counts[n] / of_one
            for k in range(width):
                added[k] += of_one * cols[at, k]
            if has_weight:
                added[width] += of_one * a_hat[n]
        for k in range(geometric_mean.shape[1]):
            total[row, k] = added[k]


@jit
def _converge(
    first: int,
    last: int,
    block: CountBlock,
    cols: Numbers,
    prior: Numbers,
    rate: Numbers,
    shape: Numbers,
    tol: float,
    most: int,
    result: Numbers,
) -> None:
    """Update each row from its ``shape`` until it converges.

    A row's columns are copied first, one factor below the other, so that loops over its pairs are contiguous. Four
    factors are added up together: a number of a pair is read once for all.
    """
    row_ptr, col, counts, a_hat, offset = block
    width, n_cols, longest = shape.shape[1], cols.shape[1], 0
    for row in range(first, last):
        longest = max(longest, row_ptr[row + 1] - row_ptr[row])
    n_factors = (width + TOGETHER - 1) // TOGETHER * TOGETHER
    room, of_factors, of_pairs = np.empty(n_factors * longest), np.zeros((9, n_factors)), np.zeros((4, longest))
    own_prior, own_rate, now = np.empty(width), np.empty(width), np.empty(width)
    count, known = of_pairs[0], of_pairs[1]
    for row in range(first, last):
        start, n_pairs = row_ptr[row], row_ptr[row + 1] - row_ptr[row]
        for k in range(width):
            own_prior[k], own_rate[k] = prior[k], rate[row, k]
            now[k] = shape[row, k] if n_pairs else prior[k]
        source = room[: n_factors * n_pairs].reshape((n_factors, n_pairs))
        source[width:] = 0.0  # zeros fill the last four factors
        for n in range(n_pairs):
            at = col[start + n]
            for k in range(n_cols):
                source[k, n] = cols[at, k]
            if n_cols < width:
                source[n_cols, n] = a_hat[start + n]
            if len(offset):
                known[n] = offset[start + n]
            count[n] = counts[start + n]
        if n_pairs:
            _converge_row(n_pairs, source, own_prior, own_rate, tol, most, now, of_factors, of_pairs)
        for k in range(width):
            result[row, k] = now[k]


@jit
def _converge_row(
    n_pairs: int,
    source: Numbers,
    prior: Numbers,
    rate: Numbers,
    tol: float,
    most: int,
    now: Numbers,
    of_factors: Numbers,
    of_pairs: Numbers,
) -> None:
    """Update one row from ``now``, in place. of_factors, of_pairs : scratch, with counts and offsets of the pairs."""
    width, longest = len(now), STRETCH
    once, twice, guess, after_guess = of_factors[0], of_factors[1], of_factors[2], of_factors[3]
    step, bend = of_factors[4], of_factors[5]
    for _ in range(most):
        _update(n_pairs, source, prior, rate, now, once, of_factors, of_pairs)
        _update(n_pairs, source, prior, rate, once, twice, of_factors, of_pairs)
        bound = _bound(n_pairs, prior, once, of_factors, of_pairs)
        change, largest = 0.0, 0.0
        for k in range(width):
            change, largest = max(change, abs(twice[k] - once[k])), max(largest, twice[k])
        if change <= tol * largest:
            for k in range(width):
                now[k] = twice[k]
            return
        stepped, bent = 0.0, 0.0
        for k in range(width):
            step[k] = log(once[k] / now[k])
            bend[k] = log(twice[k] * now[k] / (once[k] * once[k]))
            stepped += step[k] * step[k]
            bent += bend[k] * bend[k]
        length = min(max(1.0, math.sqrt(stepped / bent)) if bent > 0.0 else 1.0, longest)
        for k in range(width):
            target = log(now[k]) + 2.0 * length * step[k] + length * length * bend[k]
            guess[k] = max(exp(min(target, LARGEST)), prior[k])
        _update(n_pairs, source, prior, rate, guess, after_guess, of_factors, of_pairs)
        is_better = _bound(n_pairs, prior, guess, of_factors, of_pairs) >= bound
        for k in range(width):
            now[k] = after_guess[k] if is_better else twice[k]
        if not is_better:
            longest = max(longest / STRETCH, STRETCH)
        elif length == longest:
            longest *= STRETCH


@jit
def _update(
    n_pairs: int,
    source: Numbers,
    prior: Numbers,
    rate: Numbers,
    shape: Numbers,
    updated: Numbers,
    of_factors: Numbers,
    of_pairs: Numbers,
) -> None:
    """Write the shapes after an update, and for :func:`_bound` the expected logarithms and the rate of each pair."""
    count, known, pair_rate, share = of_pairs[0], of_pairs[1], of_pairs[2], of_pairs[3]
    expected_log, geometric, total = of_factors[6], of_factors[7], of_factors[8]
    for k in range(len(prior)):
        expected_log[k] = digamma(shape[k])
        geometric[k] = exp(expected_log[k]) / rate[k]
    for n in range(n_pairs):
        pair_rate[n] = known[n]
    for k in range(0, len(source), TOGETHER):
        g_0, g_1, g_2, g_3 = geometric[k], geometric[k + 1], geometric[k + 2], geometric[k + 3]
        for n in range(n_pairs):
            pair_rate[n] += (
                g_0 * source[k, n] + g_1 * source[k + 1, n] + g_2 * source[k + 2, n] + g_3 * source[k + 3, n]
            )
    for n in range(n_pairs):
        share[n] = count[n] / pair_rate[n]
    for k in range(0, len(source), TOGETHER):
        t_0, t_1, t_2, t_3 = 0.0, 0.0, 0.0, 0.0
        for n in range(n_pairs):
            t_0 += share[n] * source[k, n]
            t_1 += share[n] * source[k + 1, n]
            t_2 += share[n] * source[k + 2, n]
            t_3 += share[n] * source[k + 3, n]
        total[k], total[k + 1], total[k + 2], total[k + 3] = t_0, t_1, t_2, t_3
    for k in range(len(prior)):
        updated[k] = prior[k] + geometric[k] * total[k]


@jit
def _bound(n_pairs: int, prior: Numbers, shape: Numbers, of_factors: Numbers, of_pairs: Numbers) -> float:
    """Return the ELBO's part of the shapes that :func:`_update` began with, up to a constant."""
    count, pair_rate, expected_log = of_pairs[0], of_pairs[2], of_factors[6]
    bound = 0.0
    for k in range(len(prior)):
        bound += log_gamma(shape[k]) - (shape[k] - prior[k]) * expected_log[k]
    for n in range(n_pairs):
        bound += count[n] * log(pair_rate[n])
    return bound
