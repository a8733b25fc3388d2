"""Gamma variational factors: their moments, their divergence from the prior, their seeded start.

In the paper these are pi_u, lambda_i (exposure), and theta_u, beta_i for the Poisson outcome. ``rate`` is a rate,
never a scale; where all pairs weigh the same it is the same for every row of a side, and has one entry per component.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.threads import Work, over

Floats = NDArray[np.floating]

# Multiplications that a logarithm of the Gamma function, or its slope, comes to.
LOGARITHM = 32
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def geometric_mean(shape: Floats, rate: Floats) -> Floats:
    """Compute exp(E[log x]) of Gamma(shape, rate); (n, L) and (L,) or (n, L) give (n, L), and (n,) gives (n,)."""
    means = np.empty(shape.shape, np.result_type(shape, rate))
    if shape.ndim == 2 and pays(LOGARITHM * shape.size):
        from dcrec_spark.kernels.loops import gamma as loops

        numbers = plain(shape), plain(np.atleast_2d(rate))
        over(lambda first, last: loops.geometric_means(first, last, *numbers, means), len(shape), shape.size)
        return means
    rates = np.broadcast_to(rate, shape.shape)

    def work(first: int, last: int) -> None:
        np.divide(np.exp(digamma(shape[first:last])), rates[first:last], out=means[first:last])

    over(work, len(shape), shape.size)
    return means


def divergence(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> float:
    """Add up KL(Gamma(shape, rate) || Gamma(prior_shape, prior_rate)) over all entries; never negative.

    shape : (n, L). rate : (L,), the same for all rows, or (n, L).
    """
    return moments(shape, rate, prior_shape, prior_rate)[1]


def moments(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> tuple[Floats, float]:
    """Compute :func:`geometric_mean` and :func:`divergence` of the same factors, their logarithms once."""
    means, far = np.empty_like(shape), np.empty(len(shape))
    over(_moments_of(shape, rate, prior_shape, prior_rate, means, far), len(shape), shape.size)
    repeated = shape.size / rate.size if rate.size else 0.0
    of_rates = repeated * prior_shape * (np.log(rate.astype(np.float64)) - np.log(prior_rate)).sum()
    return means, float(far.sum() + of_rates + shape.size * gammaln(prior_shape))


def _moments_of(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float, means: Floats, far: Floats) -> Work:
    """Return what fills the geometric means of a range of rows, and what of their divergence depends on the shapes."""
    if pays(LOGARITHM * shape.size):
        from dcrec_spark.kernels.loops import gamma as loops

        numbers = plain(shape), plain(np.atleast_2d(rate)), float(prior_shape), float(prior_rate)
        return lambda first, last: loops.moments(first, last, *numbers, means, far)
    rates = np.broadcast_to(rate, shape.shape)

    def work(first: int, last: int) -> None:
        s, r = (each[first:last].astype(np.float64, copy=False) for each in (shape, rates))
        expected_log = digamma(s)
        means[first:last] = np.exp(expected_log) / r
        far[first:last] = ((s - prior_shape) * expected_log - gammaln(s) + s * (prior_rate / r - 1.0)).sum(axis=1)

    return work


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
