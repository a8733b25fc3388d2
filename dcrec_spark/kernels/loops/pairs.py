"""What rated pairs add to normal equations and to J, row by row: :mod:`dcrec_spark.kernels.pairs` and ``ridge_sums``.

Arrays of the sources, ``known`` and ``gamma``, are (m,), or (1,) where all sources have the same; an array of a term
that there is not has no length.
"""

import numpy as np

from dcrec_spark.kernels.compiled import Numbers, Places
from dcrec_spark.kernels.loops.compiling import compiled, inlined
from dcrec_spark.kernels.loops.poisson import row_products

# Pairs whose products are made at a time: they stay in the fastest cache.
PIECE = 256


@inlined
def _of_source(numbers: Numbers, source: int) -> float:
    """Return what a source has, or what all of them have."""
    number: float = numbers[source if len(numbers) > 1 else 0]
    return number


@compiled
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


@compiled
def pulls(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    rating: Numbers,
    weight: Numbers,
    a_hat: Numbers,
    product: Numbers,
    known: Numbers,
    gamma: Numbers,
    on_preference: float,
    curvature: Numbers,
    pull: Numbers,
) -> None:
    """curvature = w - z w0, pull = w (y - k - gamma h) + z w0 (k + gamma p) of each pair, p the product for h."""
    for n in range(row_ptr[first], row_ptr[last]):
        offset = _of_source(known, col[n])
        shown = offset
        if len(gamma) > 0:
            times = _of_source(gamma, col[n])
            offset, shown = offset + times * a_hat[n], shown + times * product[n]
        curvature[n] = weight[n] - on_preference
        pull[n] = weight[n] * (rating[n] - offset) + on_preference * shown


@compiled
def confounder_sums(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    a_hat: Numbers,
    product: Numbers,
    known: Numbers,
    shown: Numbers,
    unobserved: float,
    on_preference: float,
    sums: Numbers,
) -> None:
    """Add up z w0 h^2 - w0 p^2 and w0 shown p - z w0 known h over each row's pairs."""
    for row in range(first, last):
        square, drawn = 0.0, 0.0
        for n in range(row_ptr[row], row_ptr[row + 1]):
            h, p = np.float64(a_hat[n]), np.float64(product[n])
            square += on_preference * h * h - unobserved * p * p
            drawn += unobserved * _of_source(shown, col[n]) * p - on_preference * _of_source(known, col[n]) * h
        sums[row, 0], sums[row, 1] = square, drawn


@compiled
def scores(
    first: int,
    last: int,
    row_ptr: Places,
    col: Places,
    rating: Numbers,
    weight: Numbers,
    a_hat: Numbers,
    product: Numbers,
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
    """Add up, over each row's pairs, what J and the shared terms need of them, in the order of the six sums below.

    rows, others : [factors (, bias) (, weight of the confounder)] of either side; whose has the weight, departs.
    """
    confounded = len(a_hat) > 0
    own, products = np.zeros(rank), np.zeros(PIECE)
    for row in range(first, last):
        for k in range(rank):
            own[k] = rows[row, k]
        bias = np.float64(rows[row, rank]) if has_biases else 0.0
        departure = rows[row, rows.shape[1] - 1] - gamma if rows_depart else 0.0
        square, linear, linear_h, curve, curve_h, curve_hh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for start in range(row_ptr[row], row_ptr[row + 1], PIECE):
            end = min(start + PIECE, row_ptr[row + 1])
            row_products(start, end, col, own, others, products)
            for n in range(start, end):
                p, w = products[n - start] + bias, np.float64(weight[n])
                if has_biases:
                    p += others[col[n], rank]
                if others_depart:
                    departure = others[col[n], others.shape[1] - 1] - gamma
                h, low_rank = (np.float64(a_hat[n]), np.float64(product[n])) if confounded else (0.0, 0.0)
                error = rating[n] - p - departure * h
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
