"""Top-N from the dense score matrix.

score_ui = theta_u . beta_i + gamma_u a_hat_ui + beta_0 = preference + confounder + intercept
"""

from typing import NamedTuple

import numpy as np

from .poisson import Array


class Scores(NamedTuple):
    """Three (U, I) matrices; score = preference + confounder + intercept."""

    score: Array
    preference: Array
    confounder: Array


class Recommendation(NamedTuple):
    """One row of the published table; rank counts from 1."""

    user_idx: int
    rank: int
    item_idx: int
    score: float
    preference: float
    confounder: float


def score_all(
    user_preference: Array,
    item_attribute: Array,
    confounder_weight: Array,
    user_exposure: Array,
    item_exposure: Array,
    intercept: float,
) -> Scores:
    """Scores of every pair and their two parts."""
    shape = (len(user_preference), len(item_attribute))
    score, preference, confounder = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for u in range(shape[0]):
        for i in range(shape[1]):
            preference[u, i] = sum(user_preference[u] * item_attribute[i])
            confounder[u, i] = confounder_weight[u] * sum(user_exposure[u] * item_exposure[i])
            score[u, i] = preference[u, i] + confounder[u, i] + intercept
    return Scores(score, preference, confounder)


def dial(score: Array, baseline: Array, a_hat: Array, weight: float) -> Array:
    """max(score - baseline, 0) (1 - exp(-a_hat))^weight, (U, I). Below the baseline, (U,), the score minus it."""
    above = score - baseline[:, None]
    return np.where(above > 0, above * (1.0 - np.exp(-a_hat)) ** weight, above)


def top_n(
    scores: Array, n: int, seen: Array | None = None, groups: Array | None = None, most: int | None = None
) -> list[list[int]]:
    """The n best unseen items of each user, best first; of equal scores the smaller item index first.

    `seen` is a boolean (U, I). A user with fewer than n unseen items gets fewer. Of one group, `groups[i] >= 0`, no
    more than `most` are chosen.
    """
    lists = []
    for u in range(scores.shape[0]):
        candidates = [i for i in range(scores.shape[1]) if seen is None or not seen[u, i]]
        chosen: list[int] = []
        for i in sorted(candidates, key=lambda i: (-scores[u, i], i)):
            alike = 0 if groups is None else sum(groups[i] == groups[j] for j in chosen)
            if groups is None or most is None or groups[i] < 0 or alike < most:
                chosen.append(i)
        lists.append(chosen[:n])
    return lists


def recommend(
    scores: Scores,
    n: int,
    seen: Array | None = None,
    groups: Array | None = None,
    most: int | None = None,
    value: Array | None = None,
) -> list[Recommendation]:
    """The rows of the recommendation table, by user and rank. value : (U, I), what orders them, if not the score."""
    rows = []
    for u, items in enumerate(top_n(scores.score if value is None else value, n, seen, groups, most)):
        for rank, i in enumerate(items, start=1):
            parts = [float(table[u, i]) for table in scores]
            rows.append(Recommendation(u, rank, i, *parts))
    return rows
