"""Keys of ids, and random draws by key: Gamma and Poisson, from counter-based noise.

Every draw is a function of (seed, path, key of the id) alone, so it is the same in any block, task or retry.
A path names the purpose of a draw: the number of a replication, the side, the attempt.
"""

from collections.abc import Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, pdtr, pdtrik
from xxhash import xxh64_intdigest

from dcrec_spark.kernels.gamma import Floats, noise

Keys = NDArray[np.int64]
Flags = NDArray[np.bool_]

_STEPS = 2.0**53  # of `noise`, from 0 to 1
_SEED_OF_SPARK = 42


def keys_of(ids: Sequence[str]) -> Keys:
    """Return the hash of each id's text, (n,): the same as Spark's ``xxhash64``, without a job."""
    hashes = (xxh64_intdigest(text.encode(), seed=_SEED_OF_SPARK) for text in ids)
    return np.fromiter(hashes, np.uint64, len(ids)).view(np.int64)


def stream(seed: int, *path: int) -> int:
    """Derive a seed for the purpose ``path``, unrelated to those of other paths and other seeds."""
    for step in path:
        seed = int(noise(seed, np.array([step], np.int64), 1)[0, 0] * _STEPS)
    return seed


def gamma_draws(seed: int, key: Keys, shape: Floats) -> Floats:
    """Draw from Gamma(shape, 1) by Marsaglia and Tsang (2000). (n, L), like ``shape``.

    Attempt t of a row takes noise(stream(seed, t), key), so no row changes the draws of another. Their method
    needs shapes from 1: Gamma(shape + 1) is drawn and multiplied by U^(1 / shape).
    """
    rank = shape.shape[1]
    d = shape + 2.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    draws = np.empty_like(d)
    pending = np.ones(d.shape, np.bool_)
    rows = np.arange(len(key))
    for attempt in count(1):
        if not len(rows):
            break
        uniform = noise(stream(seed, attempt), key[rows], 2 * rank)
        proposal, accepted = _marsaglia_tsang(d[rows], c[rows], uniform[:, :rank], uniform[:, rank:])
        accepted &= pending[rows]
        draws[rows] = np.where(accepted, proposal, draws[rows])
        pending[rows] &= ~accepted
        rows = rows[pending[rows].any(axis=1)]
    return draws * (1.0 - noise(stream(seed, 0), key, rank)) ** (1.0 / shape)


def _marsaglia_tsang(d: Floats, c: Floats, uniform: Floats, other: Floats) -> tuple[Floats, Flags]:
    with np.errstate(invalid="ignore", divide="ignore"):  # a normal below -1 / c is no proposal
        normal = ndtri(uniform)
        v = (1.0 + c * normal) ** 3
        accepted = (v > 0.0) & (np.log1p(-other) < 0.5 * normal**2 + d * (1.0 - v + np.log(v)))
    return d * v, accepted


def poisson_draws(uniform: Floats, mean: Floats) -> NDArray[np.int64]:
    """Draws of Poisson(mean), mean > 0, by inversion of ``uniform`` in [0, 1), (n,).

    The smallest k with P(X <= k) > uniform.
    """
    drawn = np.ceil(pdtrik(uniform, mean))
    below = np.maximum(drawn - 1.0, 0.0)  # the inverse may be off by rounding
    return np.asarray(np.where(pdtr(below, mean) > uniform, below, drawn), np.int64)
