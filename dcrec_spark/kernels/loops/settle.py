"""Rows brought to rest: :mod:`dcrec_spark.kernels.settle`, which says what is done here."""

import math

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled
from dcrec_spark.kernels.loops.special import digamma, log_gamma

# As in kernels.settle, which says what they are: numba's cache would not notice a change in another file.
STRETCH = 4.0
LARGEST = 300.0


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
    source, own_rate, known = np.empty((longest, width)), np.empty(width), np.zeros(longest)
    scratch, at_rest = np.empty((6, width)), np.empty(width)
    for row in range(first, last):
        start, n_pairs = row_ptr[row], row_ptr[row + 1] - row_ptr[row]
        for k in range(width):
            at_rest[k] = shape[row, k] if n_pairs else prior[k]
            own_rate[k] = rate[row, k]
        for n in range(n_pairs):
            at = col[start + n]
            for k in range(n_cols):
                source[n, k] = cols[at, k]
            if n_cols < width:
                source[n, n_cols] = a_hat[start + n]
            if len(offset):
                known[n] = offset[start + n]
        if n_pairs:
            _settle(n_pairs, source, counts, start, known, prior, own_rate, tol, most, at_rest, scratch)
        for k in range(width):
            result[row, k] = at_rest[k]


@compiled
def _settle(
    n_pairs: int,
    source: Numbers,
    counts: Numbers,
    start: int,
    known: Numbers,
    prior: Numbers,
    rate: Numbers,
    tol: float,
    most: int,
    now: Numbers,
    scratch: Numbers,
) -> None:
    """Settle one row from ``now``, in place."""
    width, longest = len(now), STRETCH
    once, twice, guess, landed = scratch[0], scratch[1], scratch[2], scratch[3]
    geometric, expected_log = scratch[4], scratch[5]
    for _ in range(most):
        _update(n_pairs, source, counts, start, known, prior, rate, now, once, geometric, expected_log, False)
        bound = _update(n_pairs, source, counts, start, known, prior, rate, once, twice, geometric, expected_log, True)
        moved, largest, stepped, bent = 0.0, 0.0, 0.0, 0.0
        for k in range(width):
            moved, largest = max(moved, abs(twice[k] - once[k])), max(largest, twice[k])
            step = math.log(once[k] / now[k])
            bend = math.log(twice[k] * now[k] / (once[k] * once[k]))
            stepped += step * step
            bent += bend * bend
        if moved <= tol * largest:
            now[:] = twice
            return
        length = min(max(1.0, math.sqrt(stepped / bent)) if bent > 0.0 else 1.0, longest)
        for k in range(width):
            step = math.log(once[k] / now[k])
            bend = math.log(twice[k] * now[k] / (once[k] * once[k]))
            target = math.log(now[k]) + 2.0 * length * step + length * length * bend
            guess[k] = max(math.exp(min(target, LARGEST)), prior[k])
        there = _update(
            n_pairs, source, counts, start, known, prior, rate, guess, landed, geometric, expected_log, True
        )
        if there >= bound:
            now[:] = landed
            if length == longest:
                longest *= STRETCH
        else:
            now[:] = twice
            longest = max(longest / STRETCH, STRETCH)


@compiled
def _update(
    n_pairs: int,
    source: Numbers,
    counts: Numbers,
    start: int,
    known: Numbers,
    prior: Numbers,
    rate: Numbers,
    shape: Numbers,
    updated: Numbers,
    geometric: Numbers,
    expected_log: Numbers,
    wants_bound: bool,
) -> float:
    """Write the shapes after an update; return the ELBO's part of those before, up to a constant."""
    width = len(shape)
    bound = 0.0
    for k in range(width):
        expected_log[k] = digamma(shape[k])
        updated[k] = 0.0
    for k in range(width):
        geometric[k] = math.exp(expected_log[k]) / rate[k]
    if wants_bound:
        for k in range(width):
            bound += log_gamma(shape[k]) - (shape[k] - prior[k]) * expected_log[k]
    for n in range(n_pairs):
        drawn = known[n]
        for k in range(width):
            drawn += geometric[k] * source[n, k]
        share = counts[start + n] / drawn
        for k in range(width):
            updated[k] += share * source[n, k]
        if wants_bound:
            bound += counts[start + n] * math.log(drawn)
    for k in range(width):
        updated[k] = prior[k] + geometric[k] * updated[k]
    return bound
