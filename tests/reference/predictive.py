"""The exposure predictive check, dense: what a held-out exposure is worth and how it is distributed, pair by pair.

Of exposures with rate R a share s was held out, each by itself, and the rates r of the rest were fitted.
"""

import numpy as np
from scipy import stats

from .poisson import Array

CERTAIN = 0.95


def log_likelihood(held_out: Array, rate: Array, share: float) -> Array:
    """Poisson, of each user's (U, I) held-out exposures over all items, zeros too; (U,)."""
    n_users, n_items = held_out.shape
    total = np.zeros(n_users)
    for u in range(n_users):
        for i in range(n_items):
            total[u] += stats.poisson(rate[u, i] / (1.0 - share) * share).logpmf(held_out[u, i])
    return total


def held_out_mean(training: Array, rate: Array, share: float, counted: bool) -> Array:
    """The mean of each pair's held-out part, given its part in training; (U, I). For 0 and 1, its probability."""
    mean = np.zeros(rate.shape)
    for u, i in np.ndindex(*rate.shape):
        whole = rate[u, i] / (1.0 - share)
        if counted:
            mean[u, i] = share * whole
        elif training[u, i] == 0:
            p = min(whole, CERTAIN)
            # Bayes: exposed and held out, among what is not in training.
            mean[u, i] = share * p / (share * p + (1.0 - p))
    return mean


def p_value(statistic: Array, uniform: float) -> float:
    """The place of the first number among all, from 0 to 1; a random one among its equals."""
    less = sum(1 for other in statistic[1:] if other < statistic[0])
    equal = sum(1 for other in statistic[1:] if other == statistic[0])
    return (less + uniform * (1 + equal)) / len(statistic)
