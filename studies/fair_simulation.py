"""Simulated ratings in which no cheap rule is right for both signs of the confounding.

In the paper's simulation (:mod:`~studies.paper_simulation`) a confounder can only raise exposure and rating together.
"Predict low where nobody looks" is then always right. Here hidden segments decide what users are exposed to, and this
may raise or lower their ratings::

    m_u, q_i ~ Dirichlet(concentration)                         hidden segments of users and items
    P(a_ui = 1) = 1 - exp(-activity_u popularity_i (floor + m_u . q_i))
    z_ui = m_u . q_i, standardised over all pairs               the confounder
    y_ui(1) = mean + b_u + c_i + theta_u . beta_i + effect z_ui + noise, rounded to 1, ..., 5

Every kind of draw has a random stream of its own: data sets of one seed share all but the effect. All pairs are held in
memory: 1,000 by 1,000 takes 100 MB.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dcrec_spark.local.lists import ListPlaces

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Confounding = Literal["raises", "lowers", "mixed", "none", "self-selection", "single-item"]

LOWEST, HIGHEST = 1, 5
# Mean of the ratings, and standard deviations of their parts, in stars.
_MEAN, _USER_BIAS, _ITEM_BIAS, _TASTE, _NOISE = 3.2, 0.4, 0.4, 0.5, 0.9
_TASTE_FACTORS = 3
_ACTIVITY = 0.5  # standard deviation of its logarithm
_FLOOR = 0.05  # exposure to items outside the user's segments


_Stream = IntEnum("_Stream", "SEGMENTS RATES BIASES TASTE NOISE EXPOSURE SIGNS SINGLE_ITEM TEST", start=0)


@dataclass(frozen=True)
class FairSimulation:
    """A simulated data set, of which a recommender sees ``ratings``.

    confounding : what exposure does to ratings. "mixed": raises those of half of the users, lowers those of the others.
    "none": the confounder moves exposure alone. The last two break the method's assumptions. "self-selection": users
    look at what they are going to like. "single-item": another confounder for each item, so that no other item carries
    information about it. effect : stars that one standard deviation of the confounder adds or takes. rated : share of
    the pairs that are exposed. concentration : of the Dirichlet: the smaller, the purer the segments.
    popularity : standard deviation of the logarithm of the items' popularity: the larger, the longer the tail.
    test_pairs_per_user : random pairs of each user, which are withheld from the ratings.

    Raises
    ------
    ValueError : a setting is out of its range.
    """

    confounding: Confounding
    n_users: int = 600
    n_items: int = 600
    n_segments: int = 5
    effect: float = 0.7
    rated: float = 0.05
    concentration: float = 0.1
    popularity: float = 0.8
    test_pairs_per_user: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        allowed = {
            "confounding": self.confounding in get_args(Confounding),
            "n_users": self.n_users >= 1,
            "n_items": self.n_items >= 1,
            "n_segments": self.n_segments >= 1,
            "effect": 0 <= self.effect < np.inf,
            "rated": 0 < self.rated < 1,
            "concentration": 0 < self.concentration < np.inf,
            "popularity": 0 <= self.popularity < np.inf,
            "test_pairs_per_user": 0 <= self.test_pairs_per_user <= self.n_items,
            "seed": self.seed >= 0,
        }
        for name, holds in allowed.items():
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)!r}, out of its range")

    @cached_property
    def ratings(self) -> dict[str, Any]:
        """Pairs that were exposed and not withheld: ``user, item, rating``, (n,) each, by user, then item."""
        return self._pairs(self.exposed & ~self.in_test)

    @cached_property
    def test(self) -> dict[str, Any]:
        """Random pairs with their potential ratings: ``user, item, rating, unseen``, (n,) each."""
        pairs = self._pairs(self.in_test)
        return {**pairs, "unseen": ~self.exposed[pairs["user"], pairs["item"]]}

    def expected(self, user: Ints, item: Ints) -> Floats:
        """Compute the expected potential rating of pairs, (n,)."""
        return expected_of_rounded(self.level[user, item], _NOISE)

    def _pairs(self, chosen: Flags) -> dict[str, Any]:
        user, item = np.nonzero(chosen)
        return {"user": user.astype(np.int64), "item": item.astype(np.int64), "rating": self.rating[user, item]}

    @cached_property
    def level(self) -> Floats:
        """Rating before noise and rounding, (n_users, n_items)."""
        return self._without_confounder + self._effects

    @cached_property
    def rating(self) -> Floats:
        """Potential rating of every pair, 1, ..., 5."""
        return np.clip(np.rint(self.level + self._noise), LOWEST, HIGHEST)

    @cached_property
    def exposed(self) -> Flags:
        """Pairs that users were exposed to."""
        uniform = self._stream(_Stream.EXPOSURE).random((self.n_users, self.n_items))
        return uniform < -np.expm1(-_scale_to_share(self._rate, self.rated))

    @cached_property
    def in_test(self) -> Flags:
        """Random test pairs of each user."""
        rank = self._stream(_Stream.TEST).random((self.n_users, self.n_items)).argsort(axis=1)
        chosen = np.zeros((self.n_users, self.n_items), np.bool_)
        np.put_along_axis(chosen, rank[:, : self.test_pairs_per_user], True, axis=1)
        return chosen

    def _stream(self, stream: _Stream) -> np.random.Generator:
        return np.random.default_rng((self.seed, int(stream)))

    @cached_property
    def _affinity(self) -> Floats:
        stream = self._stream(_Stream.SEGMENTS)
        prior = np.full(self.n_segments, self.concentration)
        return np.asarray(stream.dirichlet(prior, self.n_users) @ stream.dirichlet(prior, self.n_items).T)

    @cached_property
    def _without_confounder(self) -> Floats:
        biases, taste = self._stream(_Stream.BIASES), self._stream(_Stream.TASTE)
        user = biases.normal(0.0, _USER_BIAS, (self.n_users, 1))
        item = biases.normal(0.0, _ITEM_BIAS, (1, self.n_items))
        theta = taste.normal(size=(self.n_users, _TASTE_FACTORS))
        beta = taste.normal(size=(self.n_items, _TASTE_FACTORS))
        return np.asarray(_MEAN + user + item + _TASTE * (theta @ beta.T) / np.sqrt(_TASTE_FACTORS))

    @cached_property
    def _noise(self) -> Floats:
        return self._stream(_Stream.NOISE).normal(0.0, _NOISE, (self.n_users, self.n_items))

    @cached_property
    def _single_item_confounder(self) -> Floats:
        return self._stream(_Stream.SINGLE_ITEM).normal(size=(self.n_users, self.n_items))

    @cached_property
    def _effects(self) -> Floats:
        z, signs = standardise(self._affinity), {"raises": 1.0, "lowers": -1.0}
        if self.confounding == "mixed":
            return self.effect * self._stream(_Stream.SIGNS).choice([-1.0, 1.0], (self.n_users, 1)) * z
        if self.confounding == "single-item":
            return self.effect * self._single_item_confounder
        return self.effect * signs.get(self.confounding, 0.0) * z

    @cached_property
    def _rate(self) -> Floats:
        stream = self._stream(_Stream.RATES)
        activity = stream.lognormal(0.0, _ACTIVITY, (self.n_users, 1))
        popularity = stream.lognormal(0.0, self.popularity, (1, self.n_items))
        rate = np.asarray(activity * popularity * (_FLOOR + self._affinity))
        if self.confounding == "self-selection":
            return rate * np.exp(self.effect * standardise(self.level + self._noise))
        return rate * np.exp(self._single_item_confounder) if self.confounding == "single-item" else rate


def expected_of_rounded(level: Floats, noise: float) -> Floats:
    """Compute the mean of a normal variable that is rounded to 1, ..., 5: 1 + sum_k P(rounded >= k), k = 2, ..., 5.

    level : means before rounding, any shape. noise : standard deviation.

    >>> expected_of_rounded(np.array([3.0, -9.0, 9.0]), 0.9).round(6).tolist()
    [3.0, 1.0, 5.0]
    """
    steps = np.arange(LOWEST + 1, HIGHEST + 1) - 0.5
    return np.asarray(LOWEST + ndtr((np.asarray(level)[..., None] - steps) / noise).sum(axis=-1))


def standardise(values: Floats) -> Floats:
    """Shift and scale to mean 0 and standard deviation 1; constants become 0."""
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))


def _scale_to_share(rate: Floats, share: float) -> Floats:
    """Multiply the rates by the one factor that makes ``share`` of the pairs exposed, on average."""
    low, high = 0.0, 1.0
    while -np.expm1(-high * rate).mean() < share:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if -np.expm1(-middle * rate).mean() < share else (low, middle)
    return np.asarray(high * rate)


# ---- lists, by the truth


class ListValue(NamedTuple):
    """Mean expected rating of the places of lists, and by how much the best lists of as many places are better."""

    value: float
    regret: float


def value_of(places: ListPlaces, expected: Floats, seen: Flags, n: int) -> ListValue:
    """Compute the value of lists of n places where the truth is known.

    expected : (U, I) expected ratings. seen : (U, I) pairs that lists leave out, true there.
    """
    value = float(expected[places.user, places.item].mean())
    best = -np.sort(np.where(seen, np.inf, -expected), axis=1)[:, :n]
    return ListValue(value, float(best[np.isfinite(best)].mean()) - value)
