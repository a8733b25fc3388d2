"""Steps longer than to the optimum: on the shapes of Gamma factors, and on rows of least squares."""

import numpy as np

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.gamma import LOGARITHM, Floats
from dcrec_spark.kernels.threads import over


def over_relaxed(before: Floats, updated: Floats, prior: Floats, length: float) -> Floats:
    """Move each shape ``length`` times as far as its update did, on a logarithmic scale.

    A shape stays at or above its prior, and a row's shapes add up to what they add up to in the update: an update
    shares the row's count out anew, and so does a longer one.

    Parameters
    ----------
    before, updated : (n, F) shapes before and after a plain update; the second at least the prior.
    prior : (F,). length : 1 gives ``updated``.

    Returns
    -------
    (n, F), of the type of ``updated``.
    """
    if length == 1.0:
        return updated
    relaxed = np.empty_like(updated)
    if pays(LOGARITHM * updated.size):
        from dcrec_spark.kernels.loops import gamma as loops

        numbers = plain(before), plain(updated), plain(prior), float(length)
        over(lambda first, last: loops.relaxed(first, last, *numbers, relaxed), len(updated), updated.size)
        return relaxed
    over(
        lambda first, last: _relax(before, updated, prior, length, relaxed, slice(first, last)),
        len(updated),
        updated.size,
    )
    return relaxed


def _relax(before: Floats, updated: Floats, prior: Floats, length: float, relaxed: Floats, rows: slice) -> None:
    moved = updated[rows]
    share = np.maximum(before[rows] * (moved / before[rows]) ** length, prior) - prior
    total = share.sum(axis=1, keepdims=True)
    wanted = (moved - prior).sum(axis=1, keepdims=True)
    scale = np.divide(wanted, total, out=np.zeros_like(total), where=total > 0.0)
    # A row whose shares all vanished has nothing to go by but its update.
    relaxed[rows] = np.where(total > 0.0, prior + share * scale, moved)


def over_relaxed_rows(before: Floats | None, solved: Floats, length: float) -> Floats:
    """Move each row ``length`` times as far as to its solution.

    Below a length of 2 the loss of each row falls all the same: what it is above its smallest shrinks by
    (1 - length)^2.

    Parameters
    ----------
    before, solved : (n, F) rows before the step, and where it ends; before is None for steps that begin nowhere.
    length : 1 gives ``solved``.
    """
    if length == 1.0 or before is None:
        return solved
    start = before.astype(solved.dtype, copy=False)
    return np.asarray(start + solved.dtype.type(length) * (solved - start))
