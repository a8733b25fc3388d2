"""Moments of Gamma factors and long steps of their shapes, row by row: see :mod:`dcrec_spark.kernels.gamma`.

Rates are (n, L), or (1, L) if all rows have the same.
"""

import numpy as np

from dcrec_spark.kernels.loops.jit import jit
from dcrec_spark.kernels.loops.special import digamma, exp, log, log_gamma
from dcrec_spark.kernels.threads import Numbers


@jit
def geometric_means(first: int, last: int, shape: Numbers, rate: Numbers, means: Numbers) -> None:
    """means[n, k] = exp(E[log x]) of Gamma(shape[n, k], rate[n, k])."""
    for row in range(first, last):
        at = row if len(rate) > 1 else 0
        for k in range(shape.shape[1]):
            means[row, k] = exp(digamma(np.float64(shape[row, k]))) / rate[at, k]


@jit
def moments(
    first: int,
    last: int,
    shape: Numbers,
    rate: Numbers,
    prior_shape: float,
    prior_rate: float,
    means: Numbers,
    far: Numbers,
) -> None:
    """Compute the geometric means, and far[n], each row's divergence without the terms that do not depend on shapes."""
    for row in range(first, last):
        at, total = row if len(rate) > 1 else 0, 0.0
        for k in range(shape.shape[1]):
            s, r = np.float64(shape[row, k]), np.float64(rate[at, k])
            expected_log = digamma(s)
            means[row, k] = exp(expected_log) / r
            total += (s - prior_shape) * expected_log - log_gamma(s) + s * (prior_rate / r - 1.0)
        far[row] = total


@jit
def over_relax(
    first: int, last: int, before: Numbers, updated: Numbers, prior: Numbers, length: float, moved: Numbers
) -> None:
    """Move each row of shapes ``length`` times as far as its update did."""
    for row in range(first, last):
        total, wanted = 0.0, 0.0
        for k in range(len(prior)):
            start, end = np.float64(before[row, k]), np.float64(updated[row, k])
            beyond = exp(log(start) + length * log(end / start))
            share = max(beyond, np.float64(prior[k])) - prior[k]
            moved[row, k] = share
            total += share
            wanted += end - prior[k]
        for k in range(len(prior)):
            # A row whose shares all vanished keeps its update.
            moved[row, k] = prior[k] + moved[row, k] * (wanted / total) if total > 0.0 else updated[row, k]
