"""How good are predictions and lists? One value per user, over test ratings in CSR groups.

A user's entries stand together, best first; an item that has no test rating may be in the list (its gain is 0, and
it is not relevant), and one with a test rating may not (its place is infinite, and it stands last)::

    row_ptr  = [0,            4,    6]     user 0 has four entries, user 1 two
    place    = [1,  2,  3,  inf,  1, 2]    in the user's list, from 1
    gain     = [7,  0,  3,    1,  0, 1]    of the test rating, see gains
    relevant = [T,  F,  T,    F,  F, F]    its test rating is high enough

Of one user, with p a place, k a cut, and hits@k the relevant entries at places up to k:

    NDCG@k      = DCG@k / ideal DCG@k,  DCG@k = sum of gain_p / log2(p + 1) over p <= k; ideal: the largest gains first
    Recall@k    = hits@k / min(k, relevant)
    Precision@k = hits@k / k; a list of fewer than k entries has misses at its end
    AP@k        = sum of hits@p / p over the relevant p <= k, / min(k, relevant); MAP@k is its mean

A user whose gains are all 0 has no NDCG. A user without a relevant item has none of the other three.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

# 2^rel - 1 is the usual gain and that of the authors' code; the paper (arXiv 1808.06581) prints 2^(rel - 1).
GAINS = ("2^rel-1", "2^(rel-1)", "rel")
# Above, powers of two leave the range of a double.
LARGEST_EXPONENT = 1000.0


class PerRow(NamedTuple):
    """A metric by its parts: over any set of rows it is total.sum() / weight.sum(). (rows,) each.

    For a mean over users ``weight`` is 1 where the user has a value, else 0; for one over ratings it is their number.
    """

    total: Floats
    weight: Floats


class Lists(NamedTuple):
    """Entries as above: by row, and in a row by place. row_ptr : (rows + 1,). The others : (n,)."""

    row_ptr: Ints
    place: Floats
    gain: Floats
    relevant: Flags


def gains(rating: Floats, kind: str) -> Floats:
    """Compute what an item of each rating is worth at the top of a list; ``kind`` is one of ``GAINS``."""
    if kind == "rel":
        return rating
    return np.exp2(rating) - 1 if kind == "2^rel-1" else np.exp2(rating - 1)


def rows_of(row_ptr: Ints) -> Ints:
    """Return the row of each entry."""
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def places(row_ptr: Ints) -> Floats:
    """Give each row's entries their places: 1, 2, 3, ..."""
    return np.arange(1, row_ptr[-1] + 1) - np.repeat(row_ptr[:-1], np.diff(row_ptr)).astype(np.float64)


def best_first(row_ptr: Ints, score: Floats) -> Ints:
    """Order each row's entries by falling score; equal scores keep the order they came in."""
    row = rows_of(row_ptr)
    return np.lexsort((-score, row.astype(np.min_scalar_type(len(row_ptr)))))  # up to 16 bits are sorted by radix


def ideal_dcg(row_ptr: Ints, gain: Floats, cuts: Sequence[float]) -> list[Floats]:
    """Compute the highest DCG that each row can have at each cut, (rows,); a cut may be infinite."""
    best = Lists(row_ptr, places(row_ptr), gain[best_first(row_ptr, gain)], np.zeros(len(gain), np.bool_))
    return [_dcg(best, cut) for cut in cuts]


def ndcg(lists: Lists, cut: float, ideal: Floats) -> PerRow:
    """Compute NDCG at a cut, which may be infinite. ideal : (rows,), of the same entries and the same cut."""
    counted = ideal > 0
    return _mean_over(counted, np.divide(_dcg(lists, cut), ideal, out=np.zeros(len(ideal)), where=counted))


def _dcg(lists: Lists, cut: float) -> Floats:
    return _sums(lists, np.where(lists.place <= cut, lists.gain / np.log2(lists.place + 1), 0.0))


def hit_metrics(lists: Lists, cut: int) -> dict[str, PerRow]:
    """Compute ``recall``, ``precision`` and ``map`` at a cut."""
    relevant = _sums(lists, lists.relevant)
    hit = lists.relevant & (lists.place <= cut)
    hits, precision_at_hits = _sums(lists, hit), _sums(lists, np.where(hit, _hits_so_far(lists) / lists.place, 0.0))
    counted, findable = relevant > 0, np.minimum(np.maximum(relevant, 1), cut)
    values = {"recall": hits / findable, "precision": hits / cut, "map": precision_at_hits / findable}
    return {name: _mean_over(counted, value) for name, value in values.items()}


def _hits_so_far(lists: Lists) -> Ints:
    """Count the relevant entries of the row up to and with each entry."""
    total: Ints = np.concatenate([[0], np.cumsum(lists.relevant)])
    return total[1:] - np.repeat(total[lists.row_ptr[:-1]], np.diff(lists.row_ptr))


def error_metrics(row_ptr: Ints, rating: Floats, prediction: Floats) -> dict[str, PerRow]:
    """Compute ``mse`` and ``mae``: means over ratings, so a row counts as often as it has ratings."""
    number, row = np.diff(row_ptr).astype(np.float64), rows_of(row_ptr)
    error = prediction - rating
    return {
        "mse": PerRow(sums_by(row, error**2, len(number)), number),
        "mae": PerRow(sums_by(row, np.abs(error), len(number)), number),
    }


def row_means(sums: PerRow) -> PerRow:
    """Average within each row, so that every row counts once: per-item MSE from the sums of squares."""
    counted = sums.weight > 0
    return _mean_over(counted, np.divide(sums.total, sums.weight, out=np.zeros(len(counted)), where=counted))


def sums_by(row: Ints, values: NDArray[Any], n_rows: int) -> Floats:
    """Add up the values of each row, which may come in any order."""
    return np.bincount(row, values, n_rows).astype(np.float64, copy=False)


def _sums(lists: Lists, values: NDArray[Any]) -> Floats:
    return sums_by(rows_of(lists.row_ptr), values, len(lists.row_ptr) - 1)


def _mean_over(counted: Flags, value: Floats) -> PerRow:
    return PerRow(np.where(counted, value, 0.0), counted.astype(np.float64))
