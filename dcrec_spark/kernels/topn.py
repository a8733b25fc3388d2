"""The best unseen items of each user, by one blocked product.

The product is in single precision, and says which items may be among the best. These are scored in full precision.

score_ui = theta_u . beta_i + gamma_u a_hat_ui + beta_0 = [theta_u, gamma_u pi_u] . [beta_i, lambda_i] + beta_0

With a link of a_hat the scores are no one product: the link is applied to a block of products at a time. So is the
probability of exposure, where lists are ordered by it too: see :class:`Dial`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.threads import loop_input

# Scores held at a time, for any size of the catalogue: 2 MB, or 4 of doubles, which stay in the caches of a core.
SCORES = 1 << 19
# Of lengths of rows and columns, and of their products: far from where single precision ends, at 3e38.
LARGEST_SINGLE = 1e30


class Ranked(NamedTuple):
    """Recommendations, ordered by row and rank. Each array has one entry per recommendation.

    row : position of the row in its block. rank : from 1. col : position of the item.
    preference, confounder : the two parts of the score. The score is their sum and the intercept.
    value : what the order is by: the score, or what a :class:`Dial` makes of it.
    """

    row: NDArray[np.int64]
    rank: NDArray[np.int64]
    col: NDArray[np.int64]
    score: Floats
    preference: Floats
    confounder: Floats
    value: Floats

    @classmethod
    def none(cls) -> "Ranked":
        place, score = np.empty(0, np.int64), np.empty(0)
        return cls(place, place, place, score, score, score, score)

    def at(self, chosen: NDArray[Any]) -> "Ranked":
        return Ranked(*(part[chosen] for part in self))


def concatenate(pieces: Sequence[Ranked]) -> Ranked:
    """Return the recommendations of several pieces, one after the other."""
    return Ranked(*map(np.concatenate, zip(*pieces, strict=True)))


class Cap(NamedTuple):
    """At most ``most`` columns of one group in a row's list. groups : (cols,). -1 where a column is of none."""

    groups: NDArray[np.int64]
    most: int


class Link(NamedTuple):
    """The confounder's part of scores where it is no product of vectors: (last of the row + last of the column) h.

    rows, cols : (rows, L + 1) and (cols, L + 1), whose product is a_hat. form : h of a_hat. Numbers may come before
    these, whose products are added.
    """

    rows: Floats
    cols: Floats
    form: Form

    @property
    def front(self) -> int:
        """How many numbers come before those whose product is a_hat."""
        return self.form.front(self.rows.shape[1])

    def block(self, rows: slice) -> Floats:
        """Return that of some rows and all columns."""
        weight, front = self.rows[rows, -1][:, None] + self.cols[:, -1], self.front
        linked = weight * self.form.of(self.rows[rows, front:] @ self.cols[:, front:].T)
        return np.asarray(linked + self.rows[rows, :front] @ self.cols[:, :front].T if front else linked)

    def at(self, row: NDArray[np.int64], col: NDArray[np.int64]) -> Floats:
        """Return that of some pairs, (n,)."""
        front = self.front
        a_hat = np.einsum("nl,nl->n", self.rows[row, front:], self.cols[col, front:])
        linked = (self.rows[row, -1] + self.cols[col, -1]) * self.form.of(a_hat)
        return np.asarray(linked + np.einsum("nl,nl->n", self.rows[row, :front], self.cols[col, :front]))

    @property
    def rounding(self) -> Floats:
        """Bound how far rounding may take two equal parts of a row apart, (rows,): a_hat adds up no negative numbers.

        So its relative error is that of so many additions, which no link makes larger than it makes h.
        """
        front = self.front
        longest = np.linalg.norm(self.cols[:, front:-1], axis=1).max(initial=0.0)
        length = np.linalg.norm(self.rows[:, front:-1], axis=1)
        most = np.abs(self.form.apply_link(length * longest)) + abs(self.form.mean) + 1.0
        if self.form.link == "log":
            most += abs(np.log(self.form.offset))
        weight = np.abs(self.rows[:, -1]) + np.abs(self.cols[:, -1]).max(initial=0.0)
        additions = self.rows.shape[1] + 4
        in_front = np.linalg.norm(self.cols[:, :front], axis=1).max(initial=0.0)
        before = np.linalg.norm(self.rows[:, :front], axis=1) * in_front
        return np.asarray(2 * additions * np.finfo(self.rows.dtype).eps * (weight * most / self.form.scale + before))


class Dial(NamedTuple):
    """Order by what people both see and like: max(score - r_u, 0) (1 - exp(-a_hat_ui))^weight.

    Below the user's baseline r_u the score counts as it is, so that whole lists are ordered.

    rows, cols : (rows, L + 1) and (cols, L + 1): E[pi] and E[lambda], and last r_u of users, 0 of items. weight : above
    0, and up to 1. With 0 the order is that of the scores.
    """

    rows: Floats
    cols: Floats
    weight: float

    def of_block(self, scores: Floats, rows: slice) -> None:
        """Put the values of some rows and all columns in the place of their scores."""
        from dcrec_spark.kernels.loops import topn

        a_hat = self.rows[rows, :-1] @ self.cols[:, :-1].T
        baselines = self.rows[rows, -1], self.cols[:, -1]
        topn.turn_dial(scores, *map(loop_input, (a_hat, *baselines)), float(self.weight))

    def at(self, score: Floats, row: NDArray[np.int64], col: NDArray[np.int64]) -> Floats:
        """Return the values of some pairs, (n,)."""
        a_hat = np.einsum("nl,nl->n", self.rows[row, :-1], self.cols[col, :-1])
        above = score - self.rows[row, -1] - self.cols[col, -1]
        return np.asarray(np.where(above > 0, above * (-np.expm1(-a_hat)) ** self.weight, above))

    def rounding(self, largest: Floats) -> Floats:
        """Bound how far rounding may take a row's values from exact ones, (rows,). largest : of scores, without a link.

        a_hat adds up no negative numbers, so its relative error is that of L additions. Neither the probability nor a
        power of at most 1 makes it larger.
        """
        largest = largest + np.abs(self.rows[:, -1]) + np.abs(self.cols[:, -1]).max(initial=0.0)
        return np.asarray(2 * (self.rows.shape[1] + 10) * np.finfo(np.float64).eps * largest)


def top_n(
    n: int,
    preference: tuple[Floats, Floats],
    confounder: tuple[Floats, Floats],
    intercept: float,
    seen: tuple[NDArray[np.int64], NDArray[np.int64]],
    form: Form = PLAIN,
    cap: Cap | None = None,
    dial: Dial | None = None,
) -> Ranked:
    """Rank the ``n`` best columns of each row that are not among those seen. Fewer where fewer are unseen.

    preference : theta (rows, K) and beta (cols, K). confounder : gamma * E[pi] (rows, L) and E[lambda] (cols, L), L = 0
    without. With a ``form`` that is no product of vectors [E[pi], gamma] and [E[lambda], 0], or with rows and columns
    exchanged: see :class:`Link`. seen : CSR of the columns to leave out, (rows + 1,) and (seen,).

    Equal scores are ordered by column, so that the result is a total order and does not depend on blocks.
    """
    link = None if form.is_low_rank else Link(*confounder, form)
    parts = (preference, confounder) if link is None else (preference,)
    sides = [np.hstack([part[side] for part in parts]) for side in (0, 1)]
    rows, cols, slack = _scan_inputs(sides[0], sides[1], intercept, link, dial)
    seen_ptr, seen_col = seen
    at_once = max(1, SCORES // max(1, cols.shape[1]))
    ranked_pieces = []
    for start in range(0, max(1, len(rows)), at_once):
        end = min(len(rows), start + at_once)
        part = slice(start, end)
        # BLAS may report numbers as invalid that it reads beyond small matrices. Factors are finite.
        with np.errstate(invalid="ignore"):
            scores = rows[part] @ cols
        if link is not None:
            scores += link.block(part)
        if dial is not None:
            scores = np.add(scores, intercept, dtype=np.float64)
            dial.of_block(scores, part)
        of_rows = seen_ptr[start : end + 1]
        scores[rows_of(of_rows), seen_col[of_rows[0] : of_rows[-1]]] = -np.inf
        ranking = _Block(scores, _slack_of(part, slack), start, preference, confounder, link, intercept, dial)
        ranked_pieces.append(ranking.best(n) if cap is None else _best_under_cap(ranking, n, cap))
    return concatenate(ranked_pieces)


# How far a scanned score may be from the exact one: of_row[row] * of_col[col] + more[row], (rows,), (cols,), (rows,).
Slack = tuple[Floats, Floats, Floats]


def _slack_of(rows: Any, slack: Slack) -> Slack:
    return slack[0][rows], slack[1], slack[2][rows]


def _scan_inputs(
    rows: Floats, cols: Floats, intercept: float, link: Link | None, dial: Dial | None
) -> tuple[Floats, Floats, Slack]:
    """Return the factors whose product is scanned, (rows, K) and (K, cols), and how far it may be off.

    A sum of K products, of factors that were rounded, is off by K + 2 roundings of eps / 2 times both lengths at most.
    Twice that is allowed, for the score that decides rounds too, and it rounds once more where the intercept is added.
    """
    exact = float(np.finfo(rows.dtype).eps)
    with np.errstate(over="ignore"):  # lengths that overflow are infinite
        lengths = [np.linalg.norm(side.astype(np.float64, copy=False), axis=1) for side in (rows, cols)]
        longest = [float(length.max(initial=0.0)) for length in lengths]
        largest = max(*longest, longest[0] * longest[1])
    if link is None and dial is None and largest < LARGEST_SINGLE:
        rows, cols = rows.astype(np.float32, copy=False), cols.astype(np.float32, copy=False)
    by_col = np.ascontiguousarray(cols.T)
    if not np.isfinite(largest):  # nothing is known of how far: all are candidates
        return rows, by_col, (np.zeros(len(rows)), np.zeros(len(cols)), np.full(len(rows), np.inf))
    kind, width = np.finfo(rows.dtype), rows.shape[1] + 3
    # What is too small for a normal number may be off by as much as the smallest of these.
    more = width * float(kind.tiny) * (1.0 + longest[1] + lengths[0]) + (0.0 if link is None else link.rounding)
    more += 2.0 * exact * (abs(intercept) + lengths[0] * longest[1])
    if dial is not None:  # the rounding of a link's part bounds what the dial makes of it
        more += dial.rounding(abs(intercept) + lengths[0] * longest[1]) + (0.0 if link is None else link.rounding)
    return rows, by_col, (width * float(kind.eps) * lengths[0], lengths[1], more)


def _place_in_row(row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count 0, 1, 2, ... within each run of equal rows. ``row`` is sorted."""
    first = np.searchsorted(row, row, side="left")
    return np.arange(len(row)) - first


class _Block(NamedTuple):
    """A block of rows with all their scores, -inf where a column is left out, and their parts."""

    scores: Floats
    slack: Slack
    start: int
    preference: tuple[Floats, Floats]
    confounder: tuple[Floats, Floats]
    link: Link | None
    intercept: float
    dial: Dial | None

    def best(self, n: int, rows: NDArray[np.int64] | slice = slice(None)) -> Ranked:
        """Rank the n best of each row, or of some, pair by pair: a product's rounding depends on places."""
        from dcrec_spark.kernels.loops import topn

        place, col = topn.candidates(loop_input(self.scores[rows]), n, *map(loop_input, _slack_of(rows, self.slack)))
        row = np.arange(len(self.scores))[rows][place] + self.start
        preferred = np.einsum("nk,nk->n", self.preference[0][row], self.preference[1][col])
        if self.link is None:
            confounded = np.einsum("nl,nl->n", self.confounder[0][row], self.confounder[1][col])
        else:
            confounded = self.link.at(row, col)
        score = preferred + confounded + self.intercept
        value = score if self.dial is None else self.dial.at(score, row, col)
        order = np.lexsort((col, -value, row))
        place = _place_in_row(row[order])
        best = order[place < n]
        parts = score[best], preferred[best], confounded[best], value[best]
        return Ranked(row[best], place[place < n] + 1, col[best], *parts)


def _best_under_cap(block: _Block, n: int, cap: Cap) -> Ranked:
    """Rank under a cap: deeper and deeper, until each list is full or its row has no more columns.

    The depth doubles, so a row is looked at log2(cols / n) times at most.
    """
    depth, rows, width = n, np.arange(len(block.scores)), block.scores.shape[1]
    done: list[Ranked] = []
    while True:
        ranked = block.best(depth, rows)
        kept = within_cap(ranked, n, cap)
        found, left = (np.bincount(part.row - block.start, minlength=len(block.scores)) for part in (kept, ranked))
        is_done = (found[rows] == n) | (left[rows] < depth) | (depth >= width)
        finished = np.isin(kept.row - block.start, rows[is_done])
        done.append(kept.at(finished))
        rows, depth = rows[~is_done], min(2 * depth, width)
        if not len(rows):
            whole = concatenate(done)
            return whole.at(np.lexsort((whole.rank, whole.row)))


def within_cap(ranked: Ranked, n: int, cap: Cap) -> Ranked:
    """Return the first n of each row of which no more than the cap are of one group, ranked anew."""
    group = cap.groups[ranked.col]
    order = np.lexsort((ranked.rank, group, ranked.row))
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(ranked.row[order]) != 0) | (np.diff(group[order]) != 0)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - first
    kept = np.nonzero((place < cap.most) | (group < 0))[0]
    rank = _place_in_row(ranked.row[kept]) + 1
    kept, rank = kept[rank <= n], rank[rank <= n]
    return ranked.at(kept)._replace(rank=rank)
