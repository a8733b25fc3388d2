"""a_hat of single pairs, dense: without the pair's own exposure, the confounder made from it."""

import numpy as np
from scipy.special import digamma

from .poisson import Array


def leave_one_out(users: tuple[Array, Array], items: tuple[Array, Array], counts: Array) -> Array:
    """a_hat of every pair without its own count, (U, I); users, items : shapes (n, L) and rates (n, L)."""
    (s_u, r_u), (s_i, r_i) = users, items
    g_u, g_i = (np.exp(digamma(s)) / r for s, r in (users, items))
    found = np.zeros(counts.shape)
    for u, i in np.ndindex(*counts.shape):
        phi = g_u[u] * g_i[i] / (g_u[u] @ g_i[i])
        left = np.maximum((s_u[u] - counts[u, i] * phi) / r_u[u], 0.0)
        found[u, i] = left @ np.maximum((s_i[i] - counts[u, i] * phi) / r_i[i], 0.0)
    return found


def standardised(a_hat: Array) -> tuple[float, float]:
    return float(a_hat.mean()), float(a_hat.std())
