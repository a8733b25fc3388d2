"""The best unseen items of each user, by one blocked product.

score_ui = theta_u . beta_i + gamma_u a_hat_ui + beta_0 = [theta_u, gamma_u pi_u] . [beta_i, lambda_i] + beta_0
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats

# Scores held at a time: 4M doubles are 32 MB, whatever the size of the catalogue.
SCORES = 1 << 22


class Ranked(NamedTuple):
    """Recommendations, ordered by row and rank. Each array has one entry per recommendation.

    row : position of the row in its block. rank : from 1. col : position of the item.
    preference, confounder : the two parts of the score; the score is their sum and the intercept.
    """

    row: NDArray[np.int64]
    rank: NDArray[np.int64]
    col: NDArray[np.int64]
    score: Floats
    preference: Floats
    confounder: Floats


def top_n(
    n: int,
    preference: tuple[Floats, Floats],
    confounder: tuple[Floats, Floats],
    intercept: float,
    seen_ptr: NDArray[np.int64],
    seen_col: NDArray[np.int64],
) -> Ranked:
    """Rank the ``n`` best columns of each row that are not among those seen; fewer where fewer are unseen.

    Parameters
    ----------
    n : columns for each row.
    preference : theta (rows, K) and beta (cols, K).
    confounder : gamma * E[pi] (rows, L) and E[lambda] (cols, L); L = 0 without a confounder.
    intercept : beta_0, the same for all.
    seen_ptr, seen_col : CSR of the columns to leave out; (rows + 1,), (seen,).

    Notes
    -----
    Equal scores are ordered by column, so that the result is a total order and does not depend on blocks.
    """
    rows = np.hstack([preference[0], confounder[0]])
    cols = np.ascontiguousarray(np.hstack([preference[1], confounder[1]]).T)
    rounding = _rounding(rows, cols)
    at_once = max(1, SCORES // max(1, cols.shape[1]))
    ranked_pieces = []
    for start in range(0, max(1, len(rows)), at_once):
        end = min(len(rows), start + at_once)
        scores = rows[start:end] @ cols
        seen = seen_col[seen_ptr[start] : seen_ptr[end]]
        scores[np.repeat(np.arange(end - start), np.diff(seen_ptr[start : end + 1])), seen] = -np.inf
        row, col = _candidates(scores, n, rounding[start:end])
        ranked_pieces.append(_ranked(n, row + start, col, preference, confounder, intercept))
    return Ranked(*map(np.concatenate, zip(*ranked_pieces, strict=True)))


def _rounding(rows: Floats, cols: Floats) -> Floats:
    """Bound how far the product may round two equal scores of a row apart; (rows,)."""
    longest = np.sqrt(np.einsum("kc,kc->c", cols, cols).max(initial=0.0))
    return np.asarray(2 * len(cols) * np.finfo(rows.dtype).eps * longest * np.linalg.norm(rows, axis=1))


def _candidates(scores: Floats, n: int, rounding: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find (row, col) of all finite scores that may be among the n best of their row, in the order of the table."""
    width = scores.shape[1]
    candidate = scores > -np.inf
    if n < width:
        bar = np.partition(scores, width - n, axis=1)[:, width - n]
        candidate &= scores >= (bar - rounding)[:, None]
    row, col = np.nonzero(candidate)
    return row, col


def _place_in_row(row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count 0, 1, 2, ... within each run of equal rows; ``row`` is sorted."""
    first = np.searchsorted(row, row, side="left")
    return np.arange(len(row)) - first


def _ranked(
    n: int,
    row: NDArray[np.int64],
    col: NDArray[np.int64],
    preference: tuple[Floats, Floats],
    confounder: tuple[Floats, Floats],
    intercept: float,
) -> Ranked:
    """Rank the n best candidates of each row, by the sum of the parts: the product's rounding depends on places."""
    preferred = np.einsum("nk,nk->n", preference[0][row], preference[1][col])
    confounded = np.einsum("nl,nl->n", confounder[0][row], confounder[1][col])
    score = preferred + confounded + intercept
    order = np.lexsort((col, -score, row))
    place = _place_in_row(row[order])
    best = order[place < n]
    return Ranked(row[best], place[place < n] + 1, col[best], score[best], preferred[best], confounded[best])
