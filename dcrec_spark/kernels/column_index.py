"""An index of columns: which may be among the best of a row, found without a look at all; their ranking is exact.

    row . col = (row / s) . (s col)                                in the axes of the rows' second moment, s its roots
    |row - col|^2 = |row|^2 + longest^2 - 2 row . col              with one number more: sqrt(longest^2 - |col|^2), 0

In the first line's axes rows go in every direction alike, so columns that are near each other have scores near each
other, for most rows. By the second line the largest products are the shortest distances. Columns are cut into lists
about centres (k-means), and a row looks through the lists whose centres are nearest to it, in single precision. What it
finds is scored and ordered as :func:`dcrec_spark.kernels.topn.top_n` does it.

``docs/decisions/approximate-index.md`` says why this is neither a graph nor a library of our own.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dcrec_spark.errors import require_extra
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.topn import Cap, Ranked, joined, rank_pairs, top_n, within_cap

require_extra("index")

import faiss

# Candidates for each place of a list: rounding to single precision may exchange those that are nearly equal.
SPARE = 2
# Under a cap more are passed by.
SPARE_UNDER_CAP = 8
# Pairs that are scored at a time: 26 MB of gathered rows at 50 numbers each.
PAIRS = 1 << 16
# Of centres: in more rounds the lists hardly change; so many columns for each say where it belongs.
_ROUNDS, _COLS_PER_CENTRE = 6, 64
# A direction that no row goes in is stretched no further, against the widest.
_NARROWEST = 1e-9


class Axes(NamedTuple):
    """Axes in which rows go in every direction alike; both (F, F), rows @ of_rows . cols @ of_cols = rows . cols."""

    of_rows: Floats
    of_cols: Floats

    @classmethod
    def of(cls, rows: Floats) -> "Axes":
        """Take them from a sample of rows, (n, F); without any they are left as they are."""
        with threadpool_limits(limits=1):
            moment, directions = np.linalg.eigh(rows.T @ rows / max(1, len(rows)))
        widest = moment.max(initial=0.0)
        if widest <= 0.0:
            return cls(np.eye(rows.shape[1]), np.eye(rows.shape[1]))
        roots = np.sqrt(np.maximum(moment, widest * _NARROWEST))
        return cls(directions / roots, directions * roots)


class ColumnIndex:
    """Lists of columns about centres. The same columns in the same order, and the same axes, make the same index.

    Parameters
    ----------
    cols : (cols, F), at least one.
    axes : of the rows that will ask, or of a sample of them.

    Notes
    -----
    It takes one core, whatever it may have: what a centre is must not depend on how many there are.
    """

    def __init__(self, cols: Floats, axes: Axes) -> None:
        self._axes = axes
        turned = cols @ axes.of_cols
        squares = np.einsum("cf,cf->c", turned, turned)
        self._longest = float(np.sqrt(squares.max()))
        height = np.sqrt(np.maximum(self._longest**2 - squares, 0.0))
        points = np.hstack([turned, height[:, None]]).astype(np.float32)
        self.n_cols, self.n_lists = len(points), _lists_of(len(points))
        self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], self.n_lists)
        clustering = self._index.cp
        clustering.niter, clustering.max_points_per_centroid = _ROUNDS, _COLS_PER_CENTRE
        clustering.min_points_per_centroid = 1  # fewer are no reason for a warning
        with threadpool_limits(limits=1):
            self._index.train(points)
            self._index.add(points)

    def candidates(self, rows: Floats, most: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find (row, col) of the columns of the largest products, ``most`` for each row, or fewer.

        rows : (n, F). share : of the lists, that are looked through for each row; above 0, at most 1.
        """
        turned = rows @ self._axes.of_rows
        length = np.linalg.norm(turned, axis=1)
        # As long as the longest column, so that neither is lost in the rounding of the other.
        turned *= np.divide(self._longest, length, out=np.zeros(len(rows)), where=length > 0)[:, None]
        points = np.hstack([turned, np.zeros((len(rows), 1))]).astype(np.float32)
        self._index.nprobe = max(1, int(np.ceil(share * self.n_lists)))
        with threadpool_limits(limits=1), _each_row_by_itself():
            found = self._index.search(points, min(most, self.n_cols))[1]
        row, place = np.nonzero(found >= 0)
        return row, found[row, place]


def _lists_of(n_cols: int) -> int:
    """Return how many lists to cut so many columns into; 1,448 for 131,072 columns, built in 2.5 s of 100 numbers each.

    Half as many take a second, and to as good an end a row looks through more than twice the columns.
    """
    return min(n_cols, round(4.0 * math.sqrt(n_cols)))


@contextmanager
def _each_row_by_itself() -> Iterator[None]:
    """Search without BLAS, which rounds the same row differently beside others, and would look through another list."""
    usual = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = np.iinfo(np.int32).max
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = usual


class _Rows(NamedTuple):
    """What is ranked; see :func:`top_n`."""

    preference: tuple[Floats, Floats]
    confounder: tuple[Floats, Floats]
    intercept: float
    seen_ptr: NDArray[np.int64]
    seen_col: NDArray[np.int64]
    cap: Cap | None

    def of(self, rows: NDArray[np.int64]) -> "_Rows":
        """Return some of the rows, in the order that they are named in."""
        count = np.diff(self.seen_ptr)[rows]
        ptr = np.concatenate([[0], np.cumsum(count)])
        seen = np.repeat(self.seen_ptr[rows] - ptr[:-1], count) + np.arange(ptr[-1])
        preference, confounder = ((part[0][rows], part[1]) for part in (self.preference, self.confounder))
        return _Rows(preference, confounder, self.intercept, ptr, self.seen_col[seen], self.cap)

    def is_unseen(self, row: NDArray[np.int64], col: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of some pairs whether they are none to leave out."""
        n_rows, n_cols = len(self.preference[0]), len(self.preference[1])
        seen = np.repeat(np.arange(n_rows), np.diff(self.seen_ptr)) * n_cols + self.seen_col
        return np.isin(row * n_cols + col, seen, invert=True)

    def exact(self, n: int) -> Ranked:
        parts = (self.preference, self.confounder, self.intercept)
        return top_n(n, *parts, self.seen_ptr, self.seen_col, cap=self.cap)

    def among(self, n: int, row: NDArray[np.int64], col: NDArray[np.int64]) -> Ranked:
        """Rank the n best of each row among some pairs."""
        if self.cap is None:
            return rank_pairs(n, row, col, self.preference, self.confounder, self.intercept)
        every = rank_pairs(len(row), row, col, self.preference, self.confounder, self.intercept)
        return within_cap(every, n, self.cap)


def top_n_indexed(
    n: int,
    share: float,
    index: ColumnIndex,
    preference: tuple[Floats, Floats],
    confounder: tuple[Floats, Floats],
    intercept: float,
    seen_ptr: NDArray[np.int64],
    seen_col: NDArray[np.int64],
    cap: Cap | None = None,
) -> Ranked:
    """Rank the ``n`` best columns of each row among those that the index finds; scores, order and ties are exact.

    A row for whom it finds fewer than n that are unseen, and within the cap, is ranked by all columns: no list is
    shorter than that of :func:`top_n`.

    Parameters
    ----------
    share : of the lists that are looked through for each row, above 0; 1: all, and the columns found are the best but
        for the rounding of single precision.
    index : of the columns [preference, confounder]. All else as for :func:`top_n`.
    """
    given = _Rows(preference, confounder, intercept, seen_ptr, seen_col, cap)
    wanted = n * (SPARE if cap is None else SPARE_UNDER_CAP) + np.diff(seen_ptr)
    ranked = [Ranked.none()]
    for rows, most in _of_a_depth(wanted):
        part = given.of(rows)
        row, col = index.candidates(np.hstack([part.preference[0], part.confounder[0]]), most, share)
        unseen = part.is_unseen(row, col)
        best = part.among(n, row[unseen], col[unseen])
        short = np.nonzero(np.bincount(best.row, minlength=len(rows)) < n)[0]
        if len(short):
            exact = part.of(short).exact(n)
            best = joined([best.at(np.isin(best.row, short, invert=True)), exact._replace(row=short[exact.row])])
        ranked.append(best._replace(row=rows[best.row]))
    whole = joined(ranked)
    return whole.at(np.lexsort((whole.rank, whole.row)))


def _of_a_depth(wanted: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Return rows that want about as many candidates, and how many: a search gives as many to each of its rows."""
    depth = np.left_shift(1, np.ceil(np.log2(wanted)).astype(np.int64))
    for most in np.unique(depth):
        rows = np.nonzero(depth == most)[0]
        at_once = max(1, PAIRS // int(most))
        for start in range(0, len(rows), at_once):
            yield rows[start : start + at_once], int(most)
