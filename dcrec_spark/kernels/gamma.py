"""Gamma variational factors: moments, divergence from the prior, long steps, scale between the sides, seeded start.

In the paper these are pi_u, lambda_i (exposure), and theta_u, beta_i for the Poisson outcome. ``rate`` is a rate,
never a scale. If all pairs weigh the same, the rows of a side share one rate, with one entry for each component.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dcrec_spark.kernels.threads import loop_input, over

Floats = NDArray[np.floating]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def geometric_mean(shape: Floats, rate: Floats) -> Floats:
    """Compute exp(E[log x]) of Gamma(shape, rate). (n, L) and (L,) or (n, L) give (n, L), and (n,) gives (n,)."""
    from dcrec_spark.kernels.loops import gamma

    if shape.ndim == 1:
        return geometric_mean(shape[:, None], np.broadcast_to(rate, shape.shape)[:, None])[:, 0]
    means = np.empty(shape.shape, np.result_type(shape, rate))
    over(gamma.geometric_means, len(shape), shape.size, loop_input(shape), loop_input(np.atleast_2d(rate)), means)
    return _with_positive_products(means)


def _with_positive_products(means: Floats) -> Floats:
    """Raise means, in place, until no product of two is 0: ratings are divided by sums of such products.

    In float32, small prior shapes reach this bound: the geometric mean of Gamma(0.01, 1) is e^-100.
    """
    return np.maximum(means, np.sqrt(np.finfo(means.dtype).tiny), out=means)


def divergence(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> float:
    """Add up KL(Gamma(shape, rate) || Gamma(prior_shape, prior_rate)) over all entries. Never negative.

    shape : (n, L). rate : (L,), the same for all rows, or (n, L).
    """
    return moments(shape, rate, prior_shape, prior_rate)[1]


def moments(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> tuple[Floats, float]:
    """Compute :func:`geometric_mean` and :func:`divergence` of the same factors, their logarithms once."""
    from dcrec_spark.kernels.loops import gamma

    means, far = np.empty_like(shape), np.empty(len(shape))
    given = loop_input(shape), loop_input(np.atleast_2d(rate)), float(prior_shape), float(prior_rate), means, far
    over(gamma.moments, len(shape), shape.size, *given)
    _with_positive_products(means)
    repeated = shape.size / rate.size if rate.size else 0.0
    of_rates = repeated * prior_shape * (np.log(rate.astype(np.float64)) - np.log(prior_rate)).sum()
    return means, float(far.sum() + of_rates + shape.size * gammaln(prior_shape))


def over_relax(before: Floats, updated: Floats, prior: Floats, length: float) -> Floats:
    """Move each shape, (n, F), ``length`` times as far as its update did, on a logarithmic scale.

    A shape stays at or above its prior, (F,). Their sum in a row is that after the update: an update divides the row's
    count among the components, and so does a longer step.
    """
    if length == 1.0:
        return updated
    from dcrec_spark.kernels.loops import gamma

    moved = np.empty_like(updated)
    over(gamma.over_relax, len(updated), updated.size, *map(loop_input, (before, updated, prior)), float(length), moved)
    return moved


def best_scale(users: tuple[Floats, float, float, float], items: tuple[Floats, float, float, float]) -> Floats:
    """Compute the factors c, (K,), by which to multiply the users' factors and divide the items', for the largest ELBO.

    Coordinate ascent finds this scale only slowly, and has c = 1 where it has converged. The products of factors, and
    with them the likelihood, do not change. Of priors and entropies remains, for a component with sums S of posterior
    means, U users and I items,

        (U a - I a') log c - b S_users c - b' S_items / c

    It is concave in log c. Its only stationary point is the positive root of
    b S_users c^2 - (U a - I a') c - b' S_items.

    users, items : sums of posterior means (K,), number of rows, shape and rate of the prior.
    """
    (users_mean, n_users, a, b), (items_mean, n_items, a_items, b_items) = users, items
    balance = n_users * a - n_items * a_items
    of_users, of_items = 2.0 * b * users_mean, 2.0 * b_items * items_mean
    root = np.sqrt(balance**2 + of_users * of_items)
    # Of the two forms of the root, the one that does not cancel.
    return np.asarray((balance + root) / of_users if balance > 0.0 else of_items / (root - balance))


def noise(seed: int, row_key: NDArray[np.int64], width: int) -> Floats:
    """Draw uniform numbers in [0, 1), (n, width), that depend on (seed, key of the row's id, component) alone.

    SplitMix64 (Steele et al. 2014) as a counter-based generator: a row gets the same numbers in any block.
    """
    with np.errstate(over="ignore"):
        start = _mix(row_key.view(np.uint64) ^ _mix(np.array([seed & (2**64 - 1)], np.uint64)))
        counters = start[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
        return (_mix(counters) >> np.uint64(11)) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
