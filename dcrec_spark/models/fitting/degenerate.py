"""Fits that ended somewhere useless, named: factors that vanished, factors that are copies of one another."""

import logging

import numpy as np

from dcrec_spark.engine.cells import Array

_log = logging.getLogger(__name__)

# A share of what is large beside it (in squares), and of a perfect correlation.
NOTHING, THE_SAME = 1e-12, 1e-9


def degeneracies(
    stage: str, user_gram: Array, item_gram: Array, size: float = 0.0, at_prior: Array | None = None
) -> list[str]:
    """What is wrong with the factors of a fit, in sentences; empty for a sound one.

    user_gram, item_gram : (K, K). Component k is as strong as the product of its squares on both sides; two are
    copies where they are parallel on both. size : the sum of squares, over all pairs, of what they should explain.
    at_prior : (K,) whether a Gamma factor is left at its prior; posterior means never vanish.
    """
    strength = np.diag(user_gram) * np.diag(item_gram)
    gone = strength <= NOTHING * strength.max() if at_prior is None else at_prior
    if not np.vdot(user_gram, item_gram) > NOTHING * size or gone.all():
        found = [f"{stage}: all {len(strength)} factors are zero: less regularisation, or more data"]
    else:
        which = "zero" if at_prior is None else "left at its prior"
        found = [f"{stage}: factor {k} is {which}: a smaller rank would do" for k in np.flatnonzero(gone)]
        alike = _parallel(user_gram) & _parallel(item_gram) & ~gone[:, None] & ~gone[None, :]
        first = alike.argmax(axis=0)  # the first of each factor's copies, itself if there is none
        for j in np.unique(first[~gone]):
            copies = np.flatnonzero((first == j) & ~gone)
            if len(copies) > 1:
                named = ", ".join(map(str, copies))
                found.append(f"{stage}: factors {named} are copies of one another: a smaller rank, or another seed")
    for sentence in found:
        _log.warning("degenerate fit: %s", sentence)
    return found


def vanished(found: list[str]) -> bool:
    """Whether nothing at all is left of the factors."""
    return any("factors are zero" in sentence for sentence in found)


def _parallel(gram: Array) -> Array:
    length = np.sqrt(np.diag(gram))
    with np.errstate(divide="ignore", invalid="ignore"):
        parallel: Array = np.abs(gram) / np.outer(length, length) > 1.0 - THE_SAME
    return parallel
