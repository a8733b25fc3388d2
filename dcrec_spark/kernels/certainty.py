"""Uncertainty of scores, and sensitivity to unobserved confounding: bounds on a mean of ratings and on a list's order.

    Var(y_ui - score_ui) = sigma^2 (1 / w + x' A_u^-1 x + v' A_i^-1 v)

x and v are the designs of the pair in the systems A of its user and of its item, which the fit solves one after the
other. w is the mean weight of a rating, 1 if ratings are not weighted. sigma^2 is the noise of a pair of weight 1,

    sigma^2 = sum_rated w residual^2 / freedom           freedom = n (1 - E_users / n) (1 - E_items / n)

with E = sum_rated w x' A^-1 x the effective degrees of freedom of a side. The product is exact for two balanced sides
of biases, where the sum E_users + E_items would count the level of all ratings twice.

The marginal sensitivity model (Tan 2006): given all unobserved facts of a pair, its odds of exposure are those of
the exposure model up to a factor, ``odds`` >= 1. That bounds

    a weighted mean of rated pairs      1 / p is anything from 1 + (1 / p - 1) / odds to 1 + (1 / p - 1) odds
    the mean of a pair without rating   its density is that of a rated one times something from 1 / odds to odds
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dcrec_spark.kernels.csr import inner_products, rows_of
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock, RowSystems, Shared
from dcrec_spark.kernels.solvers import assemble, gather, solve

# Pairs of a row whose sources are gathered at a time.
PIECE = 1 << 15


class Spreads(NamedTuple):
    """The uncertainty that one side leaves.

    pairs : (P,) x' A^-1 x of each requested pair. leverage : E, the sum of w x' A^-1 x over the rated ones.
    solved : (n, F) the solution of each row's system. All NaN for a row whose matrix is not positive definite.
    """

    pairs: Floats
    leverage: float
    solved: Floats


class Noise(NamedTuple):
    """sigma^2, the mean weight of a rating, and the degrees of freedom that the fit leaves of the ratings."""

    variance: float
    weight: float
    freedom: float


def spreads(block: RatingBlock, system: RowSystems, wanted: RatingBlock) -> Spreads:
    """Compute the variance that a row adds to its scores: O(F^2) a pair, O(F^3) a row.

    block : the ratings of n rows. system : their normal equations. wanted : P pairs of the same rows.
    """
    sources, bordered, size = system.full_sources(), system.is_bordered, len(system.base)
    spread, leverage, solved = np.empty(len(wanted.col)), 0.0, np.empty(system.shape, system.right.dtype)
    for row, (matrix, right) in enumerate(assemble(system)):
        solution = solve(matrix, np.column_stack([np.eye(size, dtype=right.dtype), right]))
        inverse, solved[row] = solution[:, :size], solution[:, size]
        for start, end in _pieces_of(block, row):
            gathered = gather(sources, block, start, end, bordered)
            leverage += float(block.weight[start:end] @ _quadratic(gathered, inverse))
        for start, end in _pieces_of(wanted, row):
            spread[start:end] = _quadratic(gather(sources, wanted, start, end, bordered), inverse)
    return Spreads(spread, leverage, solved)


def _pieces_of(block: RatingBlock, row: int) -> Iterator[tuple[int, int]]:
    begin, end = int(block.row_ptr[row]), int(block.row_ptr[row + 1])
    for start in range(begin, end, PIECE):
        yield start, min(end, start + PIECE)


def _quadratic(designs: Floats, matrix: Floats) -> Floats:
    """Return x' M x of each row x, (n,)."""
    return np.asarray(np.einsum("nf,nf->n", designs @ matrix, designs))


def predictions(pairs: RatingBlock, users: Floats, items: Floats, shared: Shared, design: Design) -> Floats:
    """Predict the pairs of a block of users, (P,).

    pairs : of n users. Their ratings do not count. users : (n, Q + K + P (+ 1) (+ 1)). items : (m, Q + K + P (+ 1)), of
    the inbox.
    """
    width, row = design.width, rows_of(pairs.row_ptr)
    theta, beta = (np.ascontiguousarray(side[:, :width]) for side in (users, items))
    predicted = inner_products(pairs.row_ptr, pairs.col, theta, beta) + shared.intercept
    if design.biases:
        predicted += users[row, width] + items[pairs.col, width]
    if pairs.has_confounder:
        predicted += (users[row, -1] if design.per_user else shared.gamma) * pairs.a_hat
    return np.asarray(predicted)


def residual_sums(block: RatingBlock, predicted: Floats) -> dict[str, Array]:
    """Add up what :func:`noise` needs of the ratings of a block: how many, their weights, w residual^2 (float64)."""
    weight = block.weight.astype(np.float64)
    return {
        "count": np.array(float(len(weight))),
        "weight": np.array(weight.sum()),
        "square": np.array(weight @ np.square(block.rating - predicted)),
    }


def noise(users: Mapping[str, Array], items: Mapping[str, Array]) -> Noise:
    """Estimate sigma^2 from the sums over all blocks.

    users : :func:`residual_sums` and "leverage" of all users. items : "leverage" of all items.
    """
    count = float(users["count"])
    freedom = count * float((1.0 - users["leverage"] / count) * (1.0 - items["leverage"] / count))
    return Noise(float(users["square"]) / freedom, float(users["weight"]) / count, freedom)


# Larger shifts count as this one, whose odds, 10^197, are still finite.
_LARGEST_SHIFT = 30.0
_HALVINGS = 60


def sensitivity_bounds(value: Floats, propensity: Floats, odds: float) -> tuple[float, float, float]:
    """Bound the inverse-propensity mean of values, (n,), if each pair's odds of exposure were wrong by a factor >= 1.

    Returns the mean, and the least and the largest that it could be.
    The mean is extreme where all values below some threshold weigh as little as they may, and all above as much, or the
    other way round (Zhao, Small, Bhattacharya 2019): O(n log n).
    """
    against = 1.0 / propensity - 1.0
    least, most = 1.0 + against / odds, 1.0 + against * odds
    order = np.argsort(value, kind="stable")
    ordered = value[order], least[order], most[order]
    mean = float((1.0 + against) @ value / (1.0 + against).sum())
    return (mean, -_largest_mean(-ordered[0][::-1], *(w[::-1] for w in ordered[1:])), _largest_mean(*ordered))


def _largest_mean(value: Floats, least: Floats, most: Floats) -> float:
    def totals(weight_low: NDArray[np.floating], weight_high: NDArray[np.floating]) -> Floats:
        below = np.concatenate([[0.0], np.cumsum(weight_low)])
        above = np.concatenate([np.cumsum(weight_high[::-1])[::-1], [0.0]])
        return np.asarray(below + above)

    return float((totals(least * value, most * value) / totals(least, most)).max())


def odds_of_shift(shift: Floats) -> Floats:
    """Compute the least odds by which the mean of a normal variable may move so many standard deviations, (n,) >= 0.

    Its density is multiplied by something from 1 / odds to odds, with mean 1. The mean moves farthest where that is
    1 / odds below a quantile z and odds above it. The mean of 1 puts it at P(Z <= z) = odds / (1 + odds):
    shift = (odds - 1 / odds) phi(z). NaN stays NaN.
    """
    shift = np.minimum(shift, _LARGEST_SHIFT)
    # z moves the mean by at least z, so that it lies between 0 and the shift.
    low, high = np.zeros_like(shift), shift
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        # The worst shift of the odds P(Z <= z) / P(Z > z).
        density = np.exp(-(middle**2) / 2.0) / np.sqrt(2.0 * np.pi)
        enough = 2.0 * density * np.sinh(log_ndtr(middle) - log_ndtr(-middle)) >= shift
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(np.exp(log_ndtr(high) - log_ndtr(-high)))
