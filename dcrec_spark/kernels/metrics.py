"""Metrics of predictions and lists: a ratio of sums for each user, over test ratings in CSR groups.

A user's entries are contiguous, best first. An item of the list may have no test rating: its gain is
0, and it is not relevant. An item with a test rating may not be in the list: its place is infinite, and it is last::

    row_ptr  = [0,            4,    6]     user 0 has four entries, user 1 two
    place    = [1,  2,  3,  inf,  1, 2]    in the user's list, from 1
    tie      = [0,  1,  1,    2,  3, 4]    the second and the third have the same score
    gain     = [7,  0,  3,    1,  0, 1]    of the test rating, see gains
    relevant = [T,  F,  T,    F,  F, F]    its test rating is high enough

Of one user, with p a place, k a cut, and hits@k the relevant entries at places up to k:

    NDCG@k      = DCG@k / ideal DCG@k,  DCG@k = sum of gain_p / log2(p + 1) over p <= k; ideal: the largest gains first
    Recall@k    = hits@k / min(k, relevant)
    Precision@k = hits@k / k. A list of fewer than k entries has misses at its end
    AP@k        = sum of hits@p / p over the relevant p <= k, / min(k, relevant); MAP@k is its mean

Equal scores share their places: a metric is its mean over all orders of them (McSherry, Najork 2008). An order by id
would tell popular items, which often have small ids, from others. A user whose gains are all 0 has no NDCG. A user
without a relevant item has none of the other three.

Next to each user's value is by how much it falls without each of the entries, all others moving up: the effect of other
test items (:mod:`dcrec_spark.kernels.bootstrap`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.csr import rows_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

# 2^rel - 1 is the usual gain and that of the authors' code; the paper (arXiv 1808.06581) prints 2^(rel - 1).
GAINS = ("2^rel-1", "2^(rel-1)", "rel")
# Larger exponents would take powers of two out of the range of a double.
LARGEST_EXPONENT = 1000.0


class PerRow(NamedTuple):
    """A metric of each row. value, counted : (rows,), 0 and 0 for a row that has none, else the value and 1.

    move : (n,) by how much the row's value falls without the entry. 0 where it would have none then.
    """

    value: Floats
    counted: Floats
    move: Floats


class _Sums(NamedTuple):
    """A sum over each row's entries, (rows,), and what it is without each of the entries, (n,)."""

    whole: Floats
    without: Floats


class Lists(NamedTuple):
    """Entries as above: by row, and in a row by place. row_ptr : (rows + 1,). The others : (n,).

    tie : rising numbers. Entries that share one are in any order.
    """

    row_ptr: Ints
    place: Floats
    gain: Floats
    relevant: Flags
    tie: Ints


def gains(rating: Floats, kind: str) -> Floats:
    """Compute the gain of an item of each rating at the top of a list. ``kind`` is one of ``GAINS``.

    A rating below 0 is worth as little as one of 0.
    """
    rating = np.maximum(rating, 0.0)
    if kind == "rel":
        return rating
    return np.exp2(rating) - 1 if kind == "2^rel-1" else np.exp2(rating - 1)


def places(row_ptr: Ints) -> Floats:
    """Give each row's entries their places: 1, 2, 3, ..."""
    return np.arange(1, row_ptr[-1] + 1) - np.repeat(row_ptr[:-1], np.diff(row_ptr)).astype(np.float64)


def best_first(row_ptr: Ints, score: Floats) -> Ints:
    """Order each row's entries by falling score. Equal scores keep the order they came in."""
    row = rows_of(row_ptr)
    return np.lexsort((-score, row.astype(np.min_scalar_type(len(row_ptr)))))  # up to 16 bits are sorted by radix


def ties(row_ptr: Ints, score: Floats) -> Ints:
    """Give each group of equal scores its number. Entries are best first, and no group reaches into the next row."""
    is_first = np.ones(len(score), np.bool_)
    is_first[1:] = score[1:] != score[:-1]
    starts = row_ptr[:-1]
    is_first[starts[starts < len(score)]] = True
    numbers: Ints = np.cumsum(is_first) - 1
    return numbers


def ndcg(lists: Lists, cut: float) -> PerRow:
    """Compute NDCG at a cut, which may be infinite."""
    return _ratio(lists, _sum_by_place(lists, lists.gain, _discount(cut)), _ideal(lists, cut))


def hit_metrics(lists: Lists, cut: int) -> dict[str, PerRow]:
    """Compute ``recall``, ``precision`` and ``map`` at a cut."""
    relevant = _sums(lists, lists.relevant)
    left = relevant[rows_of(lists.row_ptr)] - lists.relevant
    findable = _Sums(np.minimum(relevant, cut), np.minimum(left, cut))
    places_of_list = _Sums(np.where(relevant > 0, float(cut), 0.0), np.where(left > 0, float(cut), 0.0))
    hits = _sum_by_place(lists, lists.relevant, lambda place: (place <= cut).astype(np.float64))
    return {
        "recall": _ratio(lists, hits, findable),
        "precision": _ratio(lists, hits, places_of_list),
        "map": _ratio(lists, _precision_at_hits(lists, cut), findable),
    }


def error_means(row_ptr: Ints, error: Floats) -> PerRow:
    """Average each row's errors, so that every row counts once. A row of one keeps its value whoever is drawn."""
    row, number = rows_of(row_ptr), np.diff(row_ptr).astype(np.float64)
    value = sums_by(row, error, len(number)) / np.maximum(number, 1.0)
    move = (error - value[row]) / np.maximum(number - 1.0, 1.0)[row]
    return PerRow(value, (number > 0).astype(np.float64), move)


def sums_by(row: Ints, values: NDArray[Any], n_rows: int) -> Floats:
    """Add up the values of each row, which may come in any order."""
    return np.bincount(row, values, n_rows).astype(np.float64, copy=False)


def _ratio(lists: Lists, reached: _Sums, best: _Sums) -> PerRow:
    counted = best.whole > 0
    value = np.divide(reached.whole, best.whole, out=np.zeros(len(counted)), where=counted)
    left = best.without > 0
    others = np.divide(reached.without, best.without, out=np.zeros(len(left)), where=left)
    move = np.where(left, value[rows_of(lists.row_ptr)] - others, 0.0)
    return PerRow(value, counted.astype(np.float64), move)


def _discount(cut: float) -> Callable[[Floats], Floats]:
    return lambda place: np.where(place <= cut, 1.0 / np.log2(place + 1), 0.0)


def _ideal(lists: Lists, cut: float) -> _Sums:
    best = best_first(lists.row_ptr, lists.gain)
    gain, row_ptr = lists.gain[best], lists.row_ptr
    ranked = Lists(row_ptr, places(row_ptr), gain, lists.relevant[best], ties(row_ptr, gain))
    whole, without = _sum_by_place(ranked, gain, _discount(cut))
    in_order = np.empty(len(without))
    in_order[best] = without
    return _Sums(whole, in_order)


class _Group(NamedTuple):
    """Of each entry: where its group of equal scores starts and ends, as slices do, and its row. (n,) each."""

    start: Ints
    end: Ints
    row_start: Ints
    row_end: Ints

    @classmethod
    def of(cls, lists: Lists) -> "_Group":
        sizes = np.bincount(lists.tie)
        end = np.cumsum(sizes)
        row = rows_of(lists.row_ptr)
        return cls((end - sizes)[lists.tie], end[lists.tie], lists.row_ptr[:-1][row], lists.row_ptr[1:][row])


def _between(values: NDArray[Any], start: Ints, end: Ints) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[end] - total[start])


def _sum_by_place(lists: Lists, values: NDArray[Any], worth: Callable[[Floats], Floats]) -> _Sums:
    """Add up values times the worth of their places, over all orders of equal scores.

    Without an entry, all entries below its group move up a place.
    """
    group, here, above = _Group.of(lists), worth(lists.place), _worth_above(lists.place, worth)
    size, total = group.end - group.start, _between(values, group.start, group.end)
    mean = total / size
    without = _between(mean * here, group.row_start, group.start)
    without += (total - values) / np.maximum(size - 1, 1) * _between(here, group.start, group.end - 1)
    without += _between(mean * above, group.end, group.row_end)
    return _Sums(_sums(lists, mean * here), without)


def _precision_at_hits(lists: Lists, cut: int) -> _Sums:
    """Add up hits@p / p over the relevant places p <= cut, over all orders of equal scores.

    Of a group of m entries with r relevant ones, h hits before it: at its j-th place, from 0, is a relevant entry with
    probability r / m, and then there are h + 1 + j (r - 1) / (m - 1) hits up to there.
    """

    def share(place: Floats) -> Floats:
        return np.where(place <= cut, 1.0 / place, 0.0)

    group, here, above = _Group.of(lists), share(lists.place), _worth_above(lists.place, share)
    size, rank = group.end - group.start, np.arange(len(lists.place)) - group.start
    relevant = _between(lists.relevant, group.start, group.end)
    before = _between(lists.relevant, group.row_start, group.start) + 1.0
    chance = relevant / size
    hits = chance * (before + rank * (relevant - 1.0) / np.maximum(size - 1, 1))
    others = relevant - lists.relevant
    chance_of_others = others / np.maximum(size - 1, 1)
    slope = (others - 1.0) / np.maximum(size - 2, 1)
    without = _between(hits * here, group.row_start, group.start)
    without += chance_of_others * before * _between(here, group.start, group.end - 1)
    without += chance_of_others * slope * _between(rank * here, group.start, group.end - 1)
    without += _between(hits * above, group.end, group.row_end)
    without -= lists.relevant * _between(chance * above, group.end, group.row_end)
    return _Sums(_sums(lists, hits * here), without)


def _worth_above(place: Floats, worth: Callable[[Floats], Floats]) -> Floats:
    return np.where(place > 1, worth(np.maximum(place - 1, 1.0)), 0.0)


def _sums(lists: Lists, values: NDArray[Any]) -> Floats:
    return sums_by(rows_of(lists.row_ptr), values, len(lists.row_ptr) - 1)
