"""Poisson bootstrap: how far would a metric move with other users? In one pass, wherever the users lie.

A replication draws each user Poisson(1) times instead of drawing n of n (Hanley and MacGibbon 2006; Chamandy et al.
2012). The draw depends on (seed, replication, key of the user's id) and on nothing else, so partitions may be added up
in any way, and models that are compared meet the same resamples.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from dcrec_spark.kernels.gamma import noise

Floats = NDArray[np.float64]

# 16 random bits choose a weight. The probabilities are off by less than 2^-16, mean and variance by less than 1e-4.
_BITS = 16
_WEIGHT_OF: NDArray[np.uint8] = poisson.ppf((np.arange(1 << _BITS) + 0.5) / (1 << _BITS), 1.0).astype(np.uint8)
# A uniform number has 53 random bits: three draws of 16, the fourth word stays empty.
_DRAWS = 3
# Rows at a time: with 200 replications their weights take 6.5 MB.
_CHUNK = 1 << 12


def poisson_weights(seed: int, key: NDArray[np.int64], replications: int) -> NDArray[np.uint8]:
    """Draw how often each row takes part in each replication, (n, replications).

    key : (n,) hashes of the rows' ids. More replications keep the first ones.
    """
    words = -(-replications // _DRAWS)
    bits = (noise(seed, key, words) * 2.0 ** (_BITS * _DRAWS)).astype("<u8")
    draws = bits.view("<u2").reshape(len(key), words, 4)[:, :, :_DRAWS].reshape(len(key), words * _DRAWS)
    weights: NDArray[np.uint8] = _WEIGHT_OF[draws[:, :replications]]
    return weights


def resampled_sums(seed: int, key: NDArray[np.int64], values: Floats, replications: int) -> Floats:
    """Add up the rows: as they are, then in each replication.

    Parameters
    ----------
    seed : of the resamples. key : (n,) hashes of the rows' ids. values : (n, m). replications : how many.

    Returns
    -------
    (1 + replications, m). Sums of disjoint sets of rows may be added.
    """
    sums = np.zeros((1 + replications, values.shape[1]))
    sums[0] = values.sum(axis=0)
    for start in range(0, len(key) if replications else 0, _CHUNK):
        weights = poisson_weights(seed, key[start : start + _CHUNK], replications)
        sums[1:] += weights.T.astype(np.float64) @ values[start : start + _CHUNK]
    return sums


def percentile_interval(replicates: Floats, confidence: float) -> tuple[float, float] | None:
    """Bound the middle ``confidence`` of the replicates; None when none of them is defined.

    A replication that drew no user at all is NaN, and is left out.
    """
    defined = replicates[~np.isnan(replicates)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
