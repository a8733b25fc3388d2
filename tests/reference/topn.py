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


def score_all(preference: tuple[Array, Array], confounder: tuple[Array, Array], intercept: float) -> Scores:
    """Scores of every pair and their two parts, from the factors of users and of items; gamma is in the users'."""
    parts = [np.einsum("uk,ik->ui", *(side.astype(float) for side in sides)) for sides in (preference, confounder)]
    return Scores(parts[0] + parts[1] + intercept, *parts)


def dial(score: Array, baseline: Array, a_hat: Array, weight: float) -> Array:
    """max(score - baseline, 0) (1 - exp(-a_hat))^weight, (U, I). Below the baseline, (U,), the score minus it."""
    above = score - baseline[:, None]
    return np.where(above > 0, above * (1.0 - np.exp(-a_hat)) ** weight, above)


def recommend(
    scores: Scores,
    n: int,
    seen: Array | None = None,
    groups: Array | None = None,
    most: int | None = None,
    value: Array | None = None,
) -> list[Recommendation]:
    """The n best unseen items of each user, best first; of equal ones the smaller item index first.

    `seen` is a boolean (U, I). Of one group, `groups[i] >= 0`, no more than `most` are chosen. `value`, (U, I), orders
    them, if not the score.
    """
    rows = []
    for u, score in enumerate(scores.score if value is None else value):
        chosen: list[int] = []
        for i in sorted(range(len(score)), key=lambda i: (-score[i], i)):
            alike = 0 if groups is None or groups[i] < 0 else sum(groups[i] == groups[j] for j in chosen)
            if (seen is None or not seen[u, i]) and (most is None or alike < most) and len(chosen) < n:
                chosen.append(i)
        rows += [Recommendation(u, at, i, *(float(t[u, i]) for t in scores)) for at, i in enumerate(chosen, start=1)]
    return rows
