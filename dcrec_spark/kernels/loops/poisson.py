"""Updates of Gamma shapes, one or until they converge, row by row: see :mod:`dcrec_spark.kernels.poisson`."""

import math

import numpy as np

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.loops.csr import TOGETHER, four_products, one_product
from dcrec_spark.kernels.loops.jit import jit
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma
from dcrec_spark.kernels.threads import Numbers, Places

# Factor by which extrapolations may grow from round to round, and by which they shrink after one is refused.
STRETCH = 4.0
# Largest logarithm of a guessed shape. The bound refuses a guess that far, in numbers that are still finite.
LARGEST = 300.0


@jit
def ratio_sums(
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
def converge(
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


@jit
def leave_one_out(
    first: int, last: int, row_ptr: Places, col: Places, count: Numbers, rows: Numbers, cols: Numbers, a_hat: Numbers
) -> None:
    """Compute a_hat of each nonzero without its own count. rows, cols : [mean, 1 / rate, geometric mean], (n, 3 L)."""
    width = rows.shape[1] // 3
    for row in range(first, last):
        for n in range(row_ptr[row], row_ptr[row + 1]):
            at, total, rest = col[n], 0.0, 0.0
            for k in range(2 * width, 3 * width):
                total += rows[row, k] * cols[at, k]
            per_share = count[n] / total
            for k in range(width):
                own = per_share * rows[row, 2 * width + k] * cols[at, 2 * width + k]
                of_row = max(rows[row, k] - own * rows[row, width + k], 0.0)
                rest += of_row * max(cols[at, k] - own * cols[at, width + k], 0.0)
            a_hat[n] = rest
