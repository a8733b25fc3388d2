"""Gamma factors row by row: their geometric means and divergences in one pass, and longer steps of their shapes."""

import math

from dcrec_spark.kernels.compiled import Numbers
from dcrec_spark.kernels.loops.compiling import compiled
from dcrec_spark.kernels.loops.special import digamma_and_log_gamma


@compiled
def moments(
    first: int,
    last: int,
    shape: Numbers,
    rate: Numbers,
    prior_shape: float,
    prior_rate: float,
    geometric_mean: Numbers,
    divergence: Numbers,
) -> None:
    """geometric_mean[u, k] = exp(E[log x]), and the divergence of each row from the prior.

    rate : (n, F), or (1, F) where it is the same for all rows. divergence : (n,), without what is the same for all
    entries, log gamma(prior_shape) - prior_shape log(prior_rate).
    """
    one_rate = len(rate) == 1
    for row in range(first, last):
        of_rates = 0 if one_rate else row
        far = 0.0
        for k in range(shape.shape[1]):
            s, r = float(shape[row, k]), float(rate[of_rates, k])
            expected_log, log_gamma = digamma_and_log_gamma(s)
            geometric_mean[row, k] = math.exp(expected_log) / r
            far += (s - prior_shape) * expected_log - log_gamma + prior_shape * math.log(r)
            far += s * (prior_rate / r - 1.0)
        divergence[row] = far


@compiled
def over_relaxed(
    first: int, last: int, before: Numbers, updated: Numbers, prior: Numbers, length: float, relaxed: Numbers
) -> None:
    """Move each shape ``length`` times as far, on logarithms, above the prior, and the rows' sums kept."""
    width = updated.shape[1]
    for row in range(first, last):
        total, wanted = 0.0, 0.0
        for k in range(width):
            step = length * math.log(updated[row, k] / before[row, k])
            share = max(before[row, k] * math.exp(step), prior[k]) - prior[k]
            relaxed[row, k] = share
            total += share
            wanted += updated[row, k] - prior[k]
        for k in range(width):
            relaxed[row, k] = prior[k] + relaxed[row, k] * (wanted / total) if total > 0.0 else updated[row, k]
