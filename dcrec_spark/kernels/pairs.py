"""What each rated pair weighs, and adds to the normal equations of its row: by NumPy of few, by loops of many."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.csr import row_sums
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock
from dcrec_spark.kernels.threads import made_in_pieces, over, over_rows

# NumPy takes as long for what is made of a pair as for so many multiplications.
WORK = 16


def ratings_and_weights(given: Array, factor: Array, alpha: float, dtype: Any) -> tuple[Floats, Floats]:
    """Return ratings y as numbers of this type, and their weights (1 + alpha y) factor, (nnz,) each.

    given : (nnz,) ratings as they are stored. factor : (nnz,), or (0,) where all are 1.
    """
    if not pays(WORK * len(given)):
        rating, narrow = given.astype(dtype), np.dtype(dtype).type
        weight = 1 + narrow(alpha) * rating
        return rating, weight * factor.astype(dtype) if len(factor) else weight
    from dcrec_spark.kernels.loops import pairs as loops

    rating, weight = np.empty(len(given), dtype), np.empty(len(given), dtype)
    arrays = plain(given), plain(factor)
    over(lambda first, last: loops.weights(first, last, *arrays, float(alpha), rating, weight), len(given), len(given))
    return rating, weight


class Known(NamedTuple):
    """What is known of a mean before its row is solved: a number of its source, and a weight of the confounder.

    of_source : (m,), or (1,) where all sources have the same. gamma : (m,) or (1,); (0,) without such a term.
    """

    of_source: NDArray[np.float64]
    gamma: Floats = np.empty(0)

    def of_pairs(self, col: NDArray[np.int32], confounder: Floats) -> Floats:
        """Return it of each pair, by the pairs' sources and what the weight is multiplied with; (nnz,) or (1,)."""
        known = _of_sources(self.of_source, col)
        return known + _of_sources(self.gamma, col) * confounder if len(self.gamma) else known


def _of_sources(numbers: Floats, col: NDArray[np.int32]) -> Floats:
    return numbers[col] if len(numbers) > 1 else numbers


def pulls(block: RatingBlock, known: Known, design: Design, dtype: Any) -> tuple[Floats, Floats]:
    """Return curvature and pull of each pair: w - z w0, and w (y - offset) + z w0 shown; (nnz,) each.

    The offset is what is known of the pair's mean; what the sums over all pairs have of it is shown: there the product
    of the exposures stands for h.
    """
    z_w0, length = design.on_preference, len(block.col)
    if pays(WORK * length):
        from dcrec_spark.kernels.loops import pairs as loops

        curvature, pull = np.empty(length, dtype), np.empty(length, dtype)
        of_pairs = (block.rating, block.weight, block.a_hat, block.product)
        arrays = [plain(each) for each in (block.row_ptr, block.col, *of_pairs, *known)]
        given = (*arrays, float(z_w0), curvature, pull)
        over_rows(lambda first, last: loops.pulls(first, last, *given), block.row_ptr)
        return curvature, pull
    narrow = np.dtype(dtype).type(z_w0)

    def pulled(at: slice) -> Floats:
        piece = block.piece(at.start, at.stop)
        left: Floats = piece.weight * (piece.rating - known.of_pairs(piece.col, piece.a_hat))
        return left + z_w0 * known.of_pairs(piece.col, piece.product) if z_w0 else left

    return (
        made_in_pieces(lambda at: block.weight[at] - narrow, length, dtype),
        made_in_pieces(pulled, length, dtype),
    )


def confounder_sums(
    block: RatingBlock, known: Known, shown: Known, design: Design
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what the pairs add to the curvature and to the pull of the weight that each row has for the confounder.

    Sums over the row's pairs of z w0 h^2 - w0 p^2 and of w0 shown p - z w0 known h, p the product of the exposures;
    (n,) each.

    Parameters
    ----------
    known, shown : of the preference, on the pair and in the sums over all pairs; without a weight of the confounder.
    """
    w0, z_w0 = design.unobserved, design.on_preference
    if pays(WORK * len(block.col)):
        from dcrec_spark.kernels.loops import pairs as loops

        sums = np.empty((len(block.row_ptr) - 1, 2))
        of_pairs = (block.a_hat, block.product)
        arrays = [plain(each) for each in (block.row_ptr, block.col, *of_pairs, known.of_source, shown.of_source)]
        given = (*arrays, float(w0), float(z_w0), sums)
        over_rows(lambda first, last: loops.confounder_sums(first, last, *given), block.row_ptr)
        return sums[:, 0], sums[:, 1]

    def curved(at: slice) -> Floats:
        square: Floats = z_w0 * np.square(block.a_hat[at]) - w0 * np.square(block.product[at])
        return square

    def drawn(at: slice) -> Floats:
        piece = block.piece(at.start, at.stop)
        of_all = w0 * shown.of_pairs(piece.col, piece.product) * piece.product
        return of_all - z_w0 * known.of_pairs(piece.col, piece.a_hat) * piece.a_hat

    def per_row(of_pairs: Any) -> NDArray[np.float64]:
        return row_sums(block.row_ptr, made_in_pieces(of_pairs, len(block.col), np.float64))

    return per_row(curved), per_row(drawn)
