"""The scale of each factor between users and items: the slowest thing that coordinate ascent would find."""

import numpy as np

from dcrec_spark.kernels.gamma import Floats


def best_scale(users: tuple[Floats, float, float, float], items: tuple[Floats, float, float, float]) -> Floats:
    """Find by how much to multiply the users' factors, and to divide the items', for the largest ELBO.

    Products of factors stay what they are, and with them the likelihood; of priors and entropies remains, for a factor
    with the sums S of its posterior means, of U users and I items,

        (U a - I a') log c - b S_users c - b' S_items / c

    which is concave in log c: its only stationary point is the positive root of
    b S_users c^2 - (U a - I a') c - b' S_items.

    Parameters
    ----------
    users, items : sums of posterior means (K,), how many rows, and the shape and rate of their prior.

    Returns
    -------
    c, (K,). It is 1 where coordinate ascent has ended.
    """
    (users_mean, n_users, a, b), (items_mean, n_items, a_items, b_items) = users, items
    balance = n_users * a - n_items * a_items
    of_users, of_items = 2.0 * b * users_mean, 2.0 * b_items * items_mean
    root = np.sqrt(balance**2 + of_users * of_items)
    # Of the two forms of the root that which subtracts nothing.
    return np.asarray((balance + root) / of_users if balance > 0.0 else of_items / (root - balance))
