"""Gamma variational factors: their moments, their divergence from the prior, their seeded start.

In the paper these are pi_u, lambda_i (exposure), and theta_u, beta_i for the Poisson outcome. ``rate`` is a rate,
never a scale; where all pairs weigh the same it is the same for every row of a side, and has one entry per component.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.threads import over

Floats = NDArray[np.floating]

# Multiplications that a digamma function or a logarithm takes as long as.
SPECIAL = 16

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def geometric_mean(shape: Floats, rate: Floats) -> Floats:
    """Compute exp(E[log x]) of Gamma(shape, rate); (n, L) and (L,) or (n, L) give (n, L)."""
    if not pays(SPECIAL * shape.size):
        return np.exp(digamma(shape)) / rate
    return moments(shape, rate, 1.0, 1.0)[0]


def divergence(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> float:
    """Add up KL(Gamma(shape, rate) || Gamma(prior_shape, prior_rate)) over all entries; never negative.

    shape : (n, L). rate : (L,), the same for all rows, or (n, L).
    """
    shape = shape.astype(np.float64, copy=False)
    rate = rate.astype(np.float64, copy=False)
    repeated = shape.size / rate.size if rate.size else 0.0
    entropy_terms = (shape - prior_shape) * digamma(shape) - gammaln(shape)
    rate_terms = repeated * prior_shape * (np.log(rate) - np.log(prior_rate))
    mean_terms = shape * (prior_rate / rate - 1.0)
    constant = shape.size * gammaln(prior_shape)
    return float(entropy_terms.sum() + rate_terms.sum() + mean_terms.sum() + constant)


def moments(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> tuple[Floats, float]:
    """Compute :func:`geometric_mean` and :func:`divergence` of the same factors, in one pass where they are many."""
    if not pays(2 * SPECIAL * shape.size):
        return geometric_mean(shape, rate), divergence(shape, rate, prior_shape, prior_rate)
    from dcrec_spark.kernels.loops import gamma as loops

    means, far = np.empty_like(shape), np.empty(len(shape))
    arrays, prior = [plain(shape), plain(np.atleast_2d(rate), shape.dtype)], (float(prior_shape), float(prior_rate))
    over(lambda first, last: loops.moments(first, last, *arrays, *prior, means, far), len(shape))
    same_for_all = gammaln(prior_shape) - prior_shape * np.log(prior_rate)
    return means, float(far.sum() + shape.size * same_for_all)


def noise(seed: int, row_key: NDArray[np.int64], width: int) -> Floats:
    """Draw uniform numbers in [0, 1) that depend on (seed, key of the row's id, component) and on nothing else.

    row_key : (n,) hashes of the ids. Returns (n, width). SplitMix64 (Steele et al. 2014), used as a counter-based
    generator: the same row gets the same numbers in whatever block it lies.
    """
    with np.errstate(over="ignore"):
        start = _mix(row_key.view(np.uint64) ^ _mix(np.array([seed & (2**64 - 1)], np.uint64)))
        counters = start[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
        return (_mix(counters) >> np.uint64(11)) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
