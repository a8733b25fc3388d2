"""The exposure predictive check: each user's held-out exposures against replicated ones, over all items.

A share s of the exposures was held out of training, each on its own. With r_ui = pi_u . lambda_i the fitted rate of the
*training* exposures, the held-out part k_ui of a pair is distributed as

    counts:  Poisson(mu_ui),   mu_ui = s / (1 - s) r_ui
    0 or 1:  1 with odds s p / (1 - p),   p = r_ui / (1 - s),   where the pair is not in training; else 0

The log-likelihood of a user's held-out exposures is the Poisson one over all items, zeros too, at the posterior means:

    T_u = sum_{k_ui > 0} (k_ui log mu_ui - log k_ui!) - s / (1 - s) E[pi_u] . sum_i E[lambda_i]

A replication costs what it draws, not U x I: the points of a Poisson process with rate pi_u . lambda_i over the items
are as many as Poisson(pi_u . sum_i lambda_i), each of component k with probability proportional to
pi_uk sum_i lambda_ik, and of item i, given k, proportional to lambda_ik. Points are thinned to the rate that is wanted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dcrec_spark.kernels.gamma import Floats, noise
from dcrec_spark.kernels.random import Keys, gamma_draws, poisson_draws, stream

Places = NDArray[np.int64]

# The highest probability of an exposure that is there or not: a fitted rate may exceed 1, and odds may not be infinite.
CERTAIN = 0.95
# Keys of neighbours differ by 2^64 over the golden ratio, as in SplitMix64, so that their noise is unrelated.
_APART = np.uint64(0x9E3779B97F4A7C15)
# What a stream of random numbers is for.
_USERS, _ITEMS, _TOTALS, _POINTS, _TIES = range(5)


class CountedPairs(NamedTuple):
    """CountedPairs with how often each occurs: row, col, times (n,), sorted by row, then col, each pair once."""

    row: Places
    col: Places
    times: Floats


class Factors(NamedTuple):
    """The Gamma posterior of some rows: key (m,) hashes of the ids, shape and rate (m, L)."""

    key: Keys
    shape: Floats
    rate: Floats

    def mean(self) -> Floats:
        return self.shape / self.rate

    def draw(self, seed: int) -> Floats:
        return gamma_draws(seed, self.key, self.shape) / self.rate


class HeldOut(NamedTuple):
    """How exposures were held out: the share s, and whether they are counts or 0 and 1."""

    share: float
    counted: bool

    @property
    def thinned(self) -> float:
        """Held-out exposures for each one in training, on average."""
        return self.share / (1.0 - self.share)

    @property
    def most(self) -> float:
        """The highest intensity of points for each unit of the fitted rate."""
        if self.counted:
            return self.thinned
        highest = CERTAIN * (1.0 - self.share)
        return float(self.intensity(np.array([highest]))[0]) / highest

    def intensity(self, rate: Floats) -> Floats:
        """Compute the rate at which points have to come so that a pair has one with the right probability."""
        if self.counted:
            return self.thinned * rate
        p = np.minimum(rate / (1.0 - self.share), CERTAIN)
        return np.asarray(np.log1p(self.share * p / (1.0 - p)))


class UserChecks(NamedTuple):
    """p_value (m,), and log_likelihood (R + 1, m): first of the real exposures, then of the replications."""

    p_value: Floats
    log_likelihood: Floats


def check_users(
    training: CountedPairs,
    held_out: CountedPairs,
    users: Factors,
    items: Factors,
    how: HeldOut,
    replications: int,
    seed: int,
) -> UserChecks:
    """Compare each user's held-out log-likelihood with those of draws from the fitted model.

    training, held_out : all pairs of these users with a part there. items : all of the model.

    Every replication draws the factors anew from their posteriors, an item's the same for all users, then exposures.
    Where the posterior is the truth, each p-value is uniform. A user's result does not depend on the other users.
    """
    user_mean, item_mean = users.mean(), items.mean()
    expected = how.thinned * _inner(user_mean, item_mean.sum(axis=0)[None])
    sums = np.empty((replications + 1, len(users.key)))
    for replication in range(replications + 1):
        pairs = held_out
        if replication:
            pairs = replicate(training, users, items, how, stream(seed, replication))
        rate = _inner(user_mean, item_mean, pairs.row, pairs.col)
        worth = pairs.times * np.log(how.thinned * rate) - gammaln(pairs.times + 1.0)
        sums[replication] = np.bincount(pairs.row, worth, len(users.key)) - expected
    return UserChecks(p_values(sums, noise(stream(seed, 0, _TIES), users.key, 1)[:, 0]), sums)


def replicate(training: CountedPairs, users: Factors, items: Factors, how: HeldOut, seed: int) -> CountedPairs:
    """Draw held-out exposures of all users over all items from the fitted model."""
    user, item = users.draw(stream(seed, _USERS)), items.draw(stream(seed, _ITEMS))
    row, col, uniform = _points(users.key, user, item, how.most, seed)
    n_items = len(items.key)
    if how.counted:
        pair, times = np.unique(row * n_items + col, return_counts=True)
        return CountedPairs(pair // n_items, pair % n_items, times.astype(np.float64))
    rate = _inner(user, item, row, col)
    accepted = uniform * how.most * rate < how.intensity(rate)
    pair = np.unique(row[accepted] * n_items + col[accepted])
    pair = pair[~_among(pair, training.row * n_items + training.col)]
    return CountedPairs(pair // n_items, pair % n_items, np.ones(len(pair)))


def _points(key: Keys, user: Floats, item: Floats, scale: float, seed: int) -> tuple[Places, Places, Floats]:
    """Draw the points of a Poisson process with rate scale user . item: row, column and a uniform number for each."""
    weight = np.cumsum(user * item.sum(axis=0), axis=1)
    total = weight[:, -1]
    number = poisson_draws(noise(stream(seed, _TOTALS), key, 1)[:, 0], scale * total)
    row = np.repeat(np.arange(len(key)), number)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    with np.errstate(over="ignore"):
        point_key = (key[row].view(np.uint64) + nth.astype(np.uint64) * _APART).view(np.int64)
    uniform = noise(stream(seed, _POINTS), point_key, 3)
    component = np.zeros(len(row), np.int64)
    level = uniform[:, 0] * total[row]
    for threshold in np.ascontiguousarray(weight.T[:-1]):
        component += level >= threshold[row]
    return row, _columns(item, component, uniform[:, 1]), uniform[:, 2]


def _columns(item: Floats, component: Places, uniform: Floats) -> Places:
    n_items, rank = item.shape
    cumulated = np.cumsum(item.T, axis=1)
    # One sorted line for all components: component k lies between k and k + 1. One that is 0 is never drawn.
    total = np.maximum(cumulated[:, -1:], np.finfo(np.float64).tiny)
    line = (cumulated / total + np.arange(rank)[:, None]).reshape(-1)
    place = np.searchsorted(line, component + uniform, side="right")
    return np.asarray(np.clip(place - component * n_items, 0, n_items - 1))


def _among(wanted: Places, known: Places) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, wanted), len(known) - 1)] == wanted)


def _inner(left: Floats, right: Floats, row: Places | None = None, col: Places | None = None) -> Floats:
    """Multiply rows with rows. All of ``left`` with the one of ``right`` where no places are given.

    Not by BLAS, whose last bit depends on how many there are.
    """
    total = np.zeros(len(left) if row is None else len(row))
    for x, y in zip(np.ascontiguousarray(left.T), np.ascontiguousarray(right.T), strict=True):
        total += x * y if row is None else x[row] * y[col]
    return total


def p_values(statistic: Floats, uniform: Floats | float = 0.5) -> Floats:
    """Compute P(replicated < real), in (0, 1), the real one's place among its equals drawn by ``uniform`` in [0, 1).

    statistic : (R + 1, ...), the real ones first. It is uniform where the real one is but another replication, ties or
    not. Never 0 or 1, which a limited number of replications cannot show.
    """
    real, replicated = statistic[0], statistic[1:]
    less = (replicated < real).sum(axis=0)
    equal = (replicated == real).sum(axis=0)
    return np.asarray((less + (equal + 1) * uniform) / len(statistic))


def squared_deviations(log_likelihood: Floats) -> Floats:
    """Compute each user's squared distance from the mean of all R + 1, in their standard deviations. (R + 1, m).

    Both include the real one, so it is comparable with the replications. 0 where all are the same, up to rounding.
    """
    deviation = log_likelihood - log_likelihood.mean(axis=0)
    spread = deviation.std(axis=0)
    flat = spread <= 1e-12 * (1.0 + np.abs(log_likelihood[0]))
    return np.where(flat, 0.0, deviation / np.where(flat, 1.0, spread)) ** 2
