"""a_hat of single pairs, dense: without the pair's own exposure, the confounder made from it."""

import numpy as np

from .poisson import Array


def leave_one_out(users: tuple[Array, Array], items: tuple[Array, Array], counts: Array) -> Array:
    """a_hat of every pair without its own count, (U, I); users, items : shapes (n, L) and rates (n, L)."""
    (s_u, r_u), (s_i, r_i) = users, items
    g_u, g_i = (np.exp(np.vectorize(_digamma)(s)) / r for s, r in (users, items))
    found = np.zeros(counts.shape)
    for u, i in np.ndindex(*counts.shape):
        phi = g_u[u] * g_i[i] / (g_u[u] @ g_i[i])
        left = np.maximum((s_u[u] - counts[u, i] * phi) / r_u[u], 0.0)
        found[u, i] = left @ np.maximum((s_i[i] - counts[u, i] * phi) / r_i[i], 0.0)
    return found


def _digamma(x: float) -> float:
    """By its recurrence, and the first terms of its expansion far out."""
    total = 0.0
    while x < 40.0:
        total -= 1.0 / x
        x += 1.0
    return float(total + np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6))


def standardised(a_hat: Array) -> tuple[float, float]:
    """Mean and standard deviation over all pairs."""
    return float(a_hat.mean()), float(a_hat.std())
