"""Rows brought to rest: :mod:`dcrec_spark.kernels.settle`, which says what is done here.

A row's columns are copied out with the factors one below the other, so that all loops over its pairs go along the
memory; some factors go abreast, since what is read of a pair then serves them all.
"""

import math

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma

# As in kernels.settle, which says what they are: numba's cache would not notice a change in another file.
STRETCH = 4.0
LARGEST = 300.0
ABREAST = 4


@compiled
def settled(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    counts: Numbers,
    a_hat: Numbers,
    offset: Numbers,
    cols: Numbers,
    prior: Numbers,
    rate: Numbers,
    shape: Numbers,
    tol: float,
    most: int,
    result: Numbers,
) -> None:
    """Settle the rows, each from its ``shape``."""
    width, n_cols = shape.shape[1], cols.shape[1]
    longest = 0
    for row in range(first, last):
        longest = max(longest, row_ptr[row + 1] - row_ptr[row])
    n_factors = (width + ABREAST - 1) // ABREAST * ABREAST
    room, of_factors, of_pairs = np.empty(n_factors * longest), np.zeros((9, n_factors)), np.zeros((4, longest))
    own_prior, own_rate, at_rest = np.empty(width), np.empty(width), np.empty(width)
    count, known = of_pairs[0], of_pairs[1]
    for row in range(first, last):
        start, n_pairs = row_ptr[row], row_ptr[row + 1] - row_ptr[row]
        for k in range(width):
            own_prior[k], own_rate[k] = prior[k], rate[row, k]
            at_rest[k] = shape[row, k] if n_pairs else prior[k]
        source = room[: n_factors * n_pairs].reshape((n_factors, n_pairs))
        source[width:] = 0.0  # factors of nothing, to fill the last ones abreast
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
            _settle(n_pairs, source, own_prior, own_rate, tol, most, at_rest, of_factors, of_pairs)
        for k in range(width):
            result[row, k] = at_rest[k]


@compiled
def _settle(
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
    """Settle one row from ``now``, in place; of_factors, of_pairs : scratch, with counts and offsets of the pairs."""
    width, longest = len(now), STRETCH
    once, twice, guess, landed = of_factors[0], of_factors[1], of_factors[2], of_factors[3]
    step, bend = of_factors[4], of_factors[5]
    for _ in range(most):
        _update(n_pairs, source, prior, rate, now, once, of_factors, of_pairs)
        _update(n_pairs, source, prior, rate, once, twice, of_factors, of_pairs)
        bound = _bound(n_pairs, prior, once, of_factors, of_pairs)
        moved, largest = 0.0, 0.0
        for k in range(width):
            moved, largest = max(moved, abs(twice[k] - once[k])), max(largest, twice[k])
        if moved <= tol * largest:
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
        _update(n_pairs, source, prior, rate, guess, landed, of_factors, of_pairs)
        is_better = _bound(n_pairs, prior, guess, of_factors, of_pairs) >= bound
        for k in range(width):
            now[k] = landed[k] if is_better else twice[k]
        if not is_better:
            longest = max(longest / STRETCH, STRETCH)
        elif length == longest:
            longest *= STRETCH


@compiled
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
    """Write the shapes after an update; for :func:`_bound`, the expected logarithms and what each pair draws."""
    count, known, drawn, share = of_pairs[0], of_pairs[1], of_pairs[2], of_pairs[3]
    expected_log, geometric, total = of_factors[6], of_factors[7], of_factors[8]
    for k in range(len(prior)):
        expected_log[k] = digamma(shape[k])
        geometric[k] = exp(expected_log[k]) / rate[k]
    for n in range(n_pairs):
        drawn[n] = known[n]
    for k in range(0, len(source), ABREAST):
        g_0, g_1, g_2, g_3 = geometric[k], geometric[k + 1], geometric[k + 2], geometric[k + 3]
        for n in range(n_pairs):
            drawn[n] += g_0 * source[k, n] + g_1 * source[k + 1, n] + g_2 * source[k + 2, n] + g_3 * source[k + 3, n]
    for n in range(n_pairs):
        share[n] = count[n] / drawn[n]
    for k in range(0, len(source), ABREAST):
        t_0, t_1, t_2, t_3 = 0.0, 0.0, 0.0, 0.0
        for n in range(n_pairs):
            t_0 += share[n] * source[k, n]
            t_1 += share[n] * source[k + 1, n]
            t_2 += share[n] * source[k + 2, n]
            t_3 += share[n] * source[k + 3, n]
        total[k], total[k + 1], total[k + 2], total[k + 3] = t_0, t_1, t_2, t_3
    for k in range(len(prior)):
        updated[k] = prior[k] + geometric[k] * total[k]


@compiled
def _bound(n_pairs: int, prior: Numbers, shape: Numbers, of_factors: Numbers, of_pairs: Numbers) -> float:
    """Return the ELBO's part of the shapes that :func:`_update` has just begun with, up to a constant."""
    count, drawn, expected_log = of_pairs[0], of_pairs[2], of_factors[6]
    bound = 0.0
    for k in range(len(prior)):
        bound += log_gamma(shape[k]) - (shape[k] - prior[k]) * expected_log[k]
    for n in range(n_pairs):
        bound += count[n] * log(drawn[n])
    return bound
