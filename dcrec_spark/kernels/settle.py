"""Rows of a Gamma-Poisson model brought to rest while the other side stands still.

Plain updates F crawl: a user of MovieLens 100K takes a hundred and more. SQUAREM (Varadhan and Roland 2008) looks at
two updates, guesses where they lead, and goes on from there; x are the logarithms of the shapes::

    x1 = F(x0), x2 = F(x1)      r = x1 - x0, v = (x2 - x1) - r
    guess = x0 + 2 a r + a^2 v  a = |r| / |v|, growing from round to round; a = 1 would give x2
    x0 = F(guess)               where the row's part of the ELBO is no worse at the guess than at x1, else x2

Each row's part of the ELBO climbs, for updates never lower it: no row ends below where it began.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.poisson import CountBlock
from dcrec_spark.kernels.threads import over_rows

# By how much guesses may grow longer from round to round, and shorten after one that was refused.
STRETCH = 4.0
# Of the logarithm of a guessed shape: a guess that far is refused by the bound, in numbers that stay finite.
LARGEST = 300.0
# About how many updates a row takes to rest.
UPDATES = 32


def settle_shape(
    prior: float | Floats, block: CountBlock, shape: Floats, rate: Floats, cols: Floats, tol: float, most: int
) -> Floats:
    """Update shapes until they come to rest, while the columns stand still.

    Rows are independent: each comes out as it does alone, in double precision whatever the inputs' is.

    Parameters
    ----------
    prior : one for all components, or (F,). shape, rate : (n, F) to start from, (F,) or (n, F).
    cols : (m, L) as for :func:`dcrec_spark.kernels.poisson.update_shape`.
    tol : a row rests when an update moves no shape by more, relative to the row's largest.
    most : rounds of three updates after which a row stays where it is.

    Returns
    -------
    (n, F), of the type of ``shape``; each row the outcome of an update, so at least the prior.
    """
    settled = shape.copy()
    priors = np.broadcast_to(np.asarray(prior, np.float64), shape.shape[1:])
    rates = np.broadcast_to(rate.astype(np.float64), shape.shape)
    if pays(UPDATES * len(block.col) * shape.shape[1]):
        from dcrec_spark.kernels.loops import settle as loops

        numbers = (block.counts, block.a_hat, block.offset, cols)
        arrays = [plain(block.row_ptr), plain(block.col), *[plain(each, shape.dtype) for each in numbers]]
        arrays += [plain(priors), plain(rates), plain(shape)]
        over_rows(lambda first, last: loops.settled(first, last, *arrays, tol, most, settled), block.row_ptr)
        return settled
    for row in range(len(shape)):
        problem = _row_of(block, row, priors, rates[row], cols)
        settled[row] = _settled(problem, shape[row].astype(np.float64), tol, most) if len(problem.counts) else prior
    return settled


class _Row(NamedTuple):
    """One row's counts (n,), the columns that they touch (n, F), what is known of each rate, and its rates (F,)."""

    prior: Floats
    counts: Floats
    source: Floats
    offset: Floats | float
    rate: Floats

    def update(self, shape: Floats) -> tuple[Floats, float]:
        """Return the shapes after an update, and the ELBO's part of those before, up to a constant.

        With the optimal rate, what the ELBO has of the means is the same for all shapes.
        """
        expected_log = digamma(shape)
        geometric = np.exp(expected_log) / self.rate
        drawn = self.source @ geometric + self.offset
        updated = self.prior + geometric * ((self.counts / drawn) @ self.source)
        bound = self.counts @ np.log(drawn) - (shape - self.prior) @ expected_log + gammaln(shape).sum()
        return updated, float(bound)


def _row_of(block: CountBlock, row: int, prior: Floats, rate: Floats, cols: Floats) -> _Row:
    pairs = slice(int(block.row_ptr[row]), int(block.row_ptr[row + 1]))
    source = cols[block.col[pairs]].astype(np.float64)
    if len(block.a_hat):
        source = np.column_stack([source, block.a_hat[pairs]])
    offset = block.offset[pairs].astype(np.float64) if len(block.offset) else 0.0
    return _Row(prior, block.counts[pairs].astype(np.float64), source, offset, rate)


def _settled(row: _Row, now: Floats, tol: float, most: int) -> Floats:
    longest = STRETCH
    for _ in range(most):
        once, _ = row.update(now)
        twice, bound = row.update(once)
        if np.abs(twice - once).max() <= tol * twice.max():
            return twice
        length = min(_length(now, once, twice), longest)
        landed, bound_of_guess = row.update(_guess(now, once, twice, length, row.prior))
        is_better = bound_of_guess >= bound
        now = landed if is_better else twice
        if not is_better:
            longest = max(longest / STRETCH, STRETCH)
        elif length == longest:
            longest *= STRETCH
    return now


def _length(before: Floats, once: Floats, twice: Floats) -> float:
    """How many updates one guess stands for, at least one: large where two steps are nearly the same."""
    step, bend = np.log(once / before), np.log(twice * before / once**2)
    curved = float(bend @ bend)
    return max(1.0, float(np.sqrt(step @ step / curved))) if curved > 0.0 else 1.0


def _guess(before: Floats, once: Floats, twice: Floats, length: float, prior: Floats) -> Floats:
    """Where two updates lead; no shape below its prior."""
    step, bend = np.log(once / before), np.log(twice * before / once**2)
    guess = np.log(before) + 2.0 * length * step + length**2 * bend
    return np.maximum(np.exp(np.minimum(guess, LARGEST)), prior)
