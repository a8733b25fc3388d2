"""Weights of rated pairs, and their contributions to the normal equations of rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock
from dcrec_spark.kernels.threads import loop_input, over, over_rows


def ratings_and_weights(given: Array, factor: Array, alpha: float, dtype: Any) -> tuple[Floats, Floats]:
    """Return ratings y as numbers of this type, and their weights (1 + alpha y) factor, (nnz,) each.

    given : (nnz,) ratings as they are stored. factor : (nnz,), or (0,) if all are 1.
    """
    from dcrec_spark.kernels.loops import pairs

    rating, weight = np.empty(len(given), dtype), np.empty(len(given), dtype)
    over(pairs.weights, len(given), len(given), loop_input(given), loop_input(factor), float(alpha), rating, weight)
    return rating, weight


class Known(NamedTuple):
    """The known part of a mean before its row is solved: a number of its source, and a weight of the confounder.

    of_source : (m,), or (1,) if all sources have the same. gamma : (m,) or (1,); (0,) without such a term.
    """

    of_source: NDArray[np.float64]
    gamma: Floats = np.empty(0)


def pulls(block: RatingBlock, known: Known, design: Design, dtype: Any) -> tuple[Floats, Floats]:
    """Return curvature w - z w0 and pull w (y - offset) + z w0 shown of each pair; (nnz,) each.

    The offset is the known part of the pair's mean. ``shown`` is its part in the sums over all pairs, which have the
    product of the exposures in the place of h.
    """
    from dcrec_spark.kernels.loops import pairs

    curvature, pull = np.empty(len(block.col), dtype), np.empty(len(block.col), dtype)
    given = (block.loop_inputs(), *map(loop_input, known), float(design.on_preference))
    over_rows(pairs.pulls, block.row_ptr, *given, curvature, pull)
    return curvature, pull


def confounder_sums(
    block: RatingBlock, known: Known, shown: Known, design: Design
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what the pairs add to the curvature and to the pull of each row's confounder weight.

    Sums over the row's pairs of z w0 h^2 - w0 p^2 and of w0 shown p - z w0 known h, p the product of the exposures,
    (n,) each.

    Parameters
    ----------
    known, shown : of the preference, on the pair and in the sums over all pairs; without a weight of the confounder.
    """
    from dcrec_spark.kernels.loops import pairs

    sums = np.empty((len(block.row_ptr) - 1, 2))
    given = (block.loop_inputs(), loop_input(known.of_source), loop_input(shown.of_source))
    weights = float(design.unobserved), float(design.on_preference)
    over_rows(pairs.confounder_sums, block.row_ptr, *given, *weights, sums)
    return sums[:, 0], sums[:, 1]
