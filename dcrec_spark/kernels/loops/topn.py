"""Candidates of rankings: two passes over each row of scores while it is in cache."""

import numpy as np

from dcrec_spark.kernels.loops.jit import jit
from dcrec_spark.kernels.threads import Numbers, Places

# Scores that are compared at a time. Few runs hold one that reaches the list.
RUN = 32


@jit
def turn_dial(scores: Numbers, a_hat: Numbers, of_row: Numbers, of_col: Numbers, weight: float) -> None:
    """Put max(score - baseline, 0) (1 - exp(-a_hat))^weight in the place of each score, below the baseline what it is.

    scores, a_hat : (rows, cols). of_row + of_col : the baselines, (rows,) and (cols,).
    """
    for row in range(scores.shape[0]):
        for col in range(scores.shape[1]):
            above = scores[row, col] - of_row[row] - of_col[col]
            if above > 0.0:
                above *= (-np.expm1(-a_hat[row, col])) ** weight
            scores[row, col] = above


@jit
def candidates(scores: Numbers, n: int, of_row: Numbers, of_col: Numbers, more: Numbers) -> tuple[Places, Places]:
    """Find (row, col) of all finite scores that may be among the n best of their row, in the order of the table.

    A score is known to within ``of_row[row] * of_col[col] + more[row]``. One that is NaN may be among the best: factors
    are finite, and what BLAS has got wrong is decided pair by pair.
    """
    n_rows, n_cols = scores.shape
    heap, farthest = np.empty(min(n, n_cols), np.float64), 0.0
    found, at = 0, np.empty((2, 2 * len(heap) * n_rows), np.int64)
    for col in range(n_cols):
        farthest = max(farthest, of_col[col])
    for row in range(n_rows):
        heap[:] = -np.inf
        for first in range(0, n_cols, RUN):
            run = scores[row, first : first + RUN]
            if not _any_reaches(run, heap[0]):
                continue
            for place in range(len(run)):
                least = run[place] - (of_row[row] * of_col[first + place] + more[row])
                if least > heap[0]:
                    _replace_smallest(heap, least)
        low = heap[0] - 2.0 * (of_row[row] * farthest + more[row])
        for first in range(0, n_cols, RUN):
            run = scores[row, first : first + RUN]
            if not _any_reaches(run, low):
                continue
            for place in range(len(run)):
                col, score = first + place, run[place]
                if score == -np.inf or score + (of_row[row] * of_col[col] + more[row]) < heap[0]:
                    continue
                if found == at.shape[1]:
                    longer = np.empty((2, 2 * found), np.int64)
                    longer[:, :found] = at
                    at = longer
                at[0, found], at[1, found] = row, col
                found += 1
    return at[0, :found].copy(), at[1, :found].copy()


@jit
def _any_reaches(run: Numbers, bar: float) -> bool:
    """Whether a number is not below the bar. All are compared, several at a time, not as many as it takes."""
    reached = 0
    for place in range(len(run)):
        reached |= not (run[place] < bar)  # which a NaN is not
    return reached > 0


@jit
def _replace_smallest(heap: Numbers, value: float) -> None:
    """Replace the first value of a heap, its smallest: no entry is larger than its two children."""
    place, size = 0, len(heap)
    while True:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if child >= size or heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value
