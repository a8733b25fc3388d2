"""Contributions of rated pairs to normal equations and to J, row by row.

Blocks are :class:`~dcrec_spark.kernels.ridge_terms.RatingBlock` whose ``low_rank`` is filled with the product of the
exposures. Arrays of the sources are (m,), or (1,) if all sources have the same. An array of an absent term is empty.
"""

import numpy as np

from dcrec_spark.kernels.loops.csr import row_products
from dcrec_spark.kernels.loops.jit import inline, jit
from dcrec_spark.kernels.ridge_terms import RatingBlock
from dcrec_spark.kernels.threads import Numbers

# Pairs whose products are made at a time. They stay in the L1 cache.
PIECE = 256


@inline
def _of_source(numbers: Numbers, source: int) -> float:
    """Return the number of a source, or the one of all sources."""
    number: float = numbers[source if len(numbers) > 1 else 0]
    return number


@jit
def weights(
    first: int, last: int, given: Numbers, factor: Numbers, alpha: float, rating: Numbers, weight: Numbers
) -> None:
    """rating = y, weight = (1 + alpha y) factor of each pair."""
    for n in range(first, last):
        y = np.float64(given[n])
        rating[n], weight[n] = y, 1.0 + alpha * y
    if len(factor) > 0:
        for n in range(first, last):
            weight[n] *= factor[n]


@jit
def pulls(
    first: int,
    last: int,
    block: RatingBlock,
    known: Numbers,
    of_pair: Numbers,
    gamma: Numbers,
    on_preference: float,
    curvature: Numbers,
    pull: Numbers,
) -> None:
    """curvature = w - z w0, pull = w (y - k - gamma h) + z w0 (k + gamma p) of each pair, p the product for h.

    of_pair : (nnz,) further known numbers, or (0,).
    """
    for n in range(block.row_ptr[first], block.row_ptr[last]):
        offset, weight = _of_source(known, block.col[n]), block.weight[n]
        if len(of_pair) > 0:
            offset += of_pair[n]
        shown = offset
        if len(gamma) > 0:
            times = _of_source(gamma, block.col[n])
            offset, shown = offset + times * block.a_hat[n], shown + times * block.low_rank[n]
        curvature[n] = weight - on_preference
        pull[n] = weight * (block.rating[n] - offset) + on_preference * shown


@jit
def confounder_sums(
    first: int,
    last: int,
    block: RatingBlock,
    known: Numbers,
    known_of_pair: Numbers,
    shown: Numbers,
    shown_of_pair: Numbers,
    unobserved: float,
    on_preference: float,
    sums: Numbers,
) -> None:
    """Add up z w0 h^2 - w0 p^2 and w0 shown p - z w0 known h over each row's pairs."""
    for row in range(first, last):
        square, drawn = 0.0, 0.0
        for n in range(block.row_ptr[row], block.row_ptr[row + 1]):
            at = block.col[n]
            h, p = np.float64(block.a_hat[n]), np.float64(block.low_rank[n])
            square += on_preference * h * h - unobserved * p * p
            shown_here, known_here = _of_source(shown, at), _of_source(known, at)
            if len(shown_of_pair) > 0:
                shown_here += shown_of_pair[n]
            if len(known_of_pair) > 0:
                known_here += known_of_pair[n]
            drawn += unobserved * shown_here * p - on_preference * known_here * h
        sums[row, 0], sums[row, 1] = square, drawn


@jit
def scores(
    first: int,
    last: int,
    block: RatingBlock,
    rows: Numbers,
    others: Numbers,
    rank: int,
    has_biases: bool,
    rows_depart: bool,
    others_depart: bool,
    gamma: float,
    unobserved: float,
    everywhere: bool,
    sums: Numbers,
) -> None:
    """Add up what J and the shared terms need of each row's pairs, in the order of the six sums below.

    rows, others : of either side, [rank numbers whose products are the preference (, bias) (, weight of the
    confounder)]. The side with the weight departs.
    """
    confounded = len(block.a_hat) > 0
    own, products = np.zeros(rank), np.zeros(PIECE)
    for row in range(first, last):
        for k in range(rank):
            own[k] = rows[row, k]
        bias = np.float64(rows[row, rank]) if has_biases else 0.0
        departure = rows[row, rows.shape[1] - 1] - gamma if rows_depart else 0.0
        square, linear, linear_h, curve, curve_h, curve_hh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for start in range(block.row_ptr[row], block.row_ptr[row + 1], PIECE):
            end = min(start + PIECE, block.row_ptr[row + 1])
            row_products(start, end, block.col, own, others, products)
            for n in range(start, end):
                p, w = products[n - start] + bias, np.float64(block.weight[n])
                if has_biases:
                    p += others[block.col[n], rank]
                if others_depart:
                    departure = others[block.col[n], others.shape[1] - 1] - gamma
                h, low_rank = 0.0, 0.0
                if confounded:
                    h, low_rank = np.float64(block.a_hat[n]), np.float64(block.low_rank[n])
                error = block.rating[n] - p - departure * h
                shown = departure * low_rank + (p if everywhere else 0.0)
                w_error, w0_shown = w * error, unobserved * shown
                square += w_error * error - w0_shown * shown
                linear += w_error + w0_shown
                linear_h += w_error * h + w0_shown * low_rank
                curve += w - unobserved
                curve_h += w * h - unobserved * low_rank
                curve_hh += w * h * h - unobserved * low_rank * low_rank
        sums[row, 0], sums[row, 1], sums[row, 2] = square, linear, linear_h
        sums[row, 3], sums[row, 4], sums[row, 5] = curve, curve_h, curve_hh
