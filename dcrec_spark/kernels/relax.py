"""Steps longer than to the optimum, on the shapes of Gamma factors."""

import numpy as np

from dcrec_spark.kernels.compiled import pays, plain
from dcrec_spark.kernels.gamma import SPECIAL, Floats
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
    if pays(SPECIAL * updated.size):
        from dcrec_spark.kernels.loops import gamma as loops

        result, arrays = np.empty_like(updated), [plain(each, updated.dtype) for each in (before, updated, prior)]
        over(lambda first, last: loops.over_relaxed(first, last, *arrays, length, result), len(updated))
        return result
    share = np.maximum(before * (updated / before) ** length, prior) - prior
    total = share.sum(axis=1, keepdims=True)
    wanted = (updated - prior).sum(axis=1, keepdims=True)
    scale = np.divide(wanted, total, out=np.zeros_like(total), where=total > 0.0)
    # A row whose shares all vanished has nothing to go by but its update.
    relaxed = np.where(total > 0.0, prior + share * scale, updated)
    return relaxed.astype(updated.dtype, copy=False)
