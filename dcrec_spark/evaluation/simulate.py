"""The paper's simulation: confounded ratings whose potential outcomes are known for every pair.

A hidden confounder c_u of each user moves both what the user is exposed to and what the user likes::

    c_u, beta_i ~ Gamma_K(shape, spread)                            confounder, item_attribute
    theta_u     = g_theta c_u + (1 - g_theta) Gamma_K(shape, spread)    user_preference
    a_ui        = min(Poisson(c_u . beta_i), 1)                      exposed
    y_ui(1)     = min(1 + Poisson((theta_u + g_y c_u) . beta_i), 5)  rating, had the user been exposed

The core draws one block of users against all items with NumPy; Spark only hands out the blocks. Each
user has streams of random numbers of its own, seeded by (seed, kind, user), so a pair's values never depend
on blocks or partitions. Each kind of draw has its own stream, so runs that differ in
``confounding_outcome`` alone share their exposures and test pairs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConfigError

HIGHEST_RATING = 5.0
# Bounds a task's memory: a handful of temporary arrays of this many float64, however many users there are.
PAIRS_PER_BLOCK = 1 << 19

PAIR_SCHEMA = "user long, item long, rating double, expected double, exposed boolean, in_test boolean"

Reading = Literal["rate", "scale"]
TestPairs = Literal["all", "unseen", "withheld"]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]


class Kind(IntEnum):
    """Purpose of a stream of random numbers, a part of its seed."""

    ITEM_ATTRIBUTE = 0
    CONFOUNDER = 1
    OWN_PREFERENCE = 2
    EXPOSURE = 3
    OUTCOME = 4
    TEST = 5


@dataclass(frozen=True)
class Simulation:
    """Settings of one simulated world.

    Parameters
    ----------
    n_users, n_items, n_factors : int
        Size of the world.
    confounding_preference : float
        g_theta in [0, 1], how much of the preference is the confounder itself.
    confounding_outcome : float
        g_y >= 0, how much the confounder adds to the rating besides the preference.
    gamma_shape, gamma_spread : float
        The two numbers of Gamma_K(0.3, 0.3).
    gamma_reading : {"scale", "rate"}
        What ``gamma_spread`` is; the paper does not say. At 10 factors, the scale reading (the authors' code) exposes
        about 7 % of pairs, the rate reading about 90 %.
    test_pairs_per_user : int
        Size of each user's random test set.
    test_pairs : {"all", "unseen", "withheld"}
        "all" draws test pairs from all pairs, so exposed ones are also in the ratings; "unseen" draws from pairs
        without exposure (a user with fewer than asked gives all of them); "withheld" draws from all pairs, and leaves
        those out of the ratings.
    seed : int
        Of all streams of random numbers.

    Raises
    ------
    ConfigError
        Naming the setting that is out of its range.
    """

    n_users: int = 1000
    n_items: int = 1000
    n_factors: int = 10
    confounding_preference: float = 0.6
    confounding_outcome: float = 3.0
    gamma_shape: float = 0.3
    gamma_spread: float = 0.3
    gamma_reading: Reading = "scale"
    test_pairs_per_user: int = 20
    test_pairs: TestPairs = "all"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_factors"):
            self._require(name, "at least 1", holds=getattr(self, name) >= 1)
        for name in ("gamma_shape", "gamma_spread"):
            self._require(name, "a finite number above 0", holds=0 < getattr(self, name) < np.inf)
        self._require("confounding_preference", "from 0 to 1", holds=0 <= self.confounding_preference <= 1)
        self._require("confounding_outcome", "a finite number from 0", holds=0 <= self.confounding_outcome < np.inf)
        self._require("gamma_reading", f"one of {get_args(Reading)}", holds=self.gamma_reading in get_args(Reading))
        self._require("test_pairs", f"one of {get_args(TestPairs)}", holds=self.test_pairs in get_args(TestPairs))
        enough = 0 <= self.test_pairs_per_user <= self.n_items
        self._require("test_pairs_per_user", f"from 0 to n_items = {self.n_items}", holds=enough)
        self._require("seed", "at least 0", holds=self.seed >= 0)

    def _require(self, name: str, expected: str, *, holds: bool) -> None:
        if not holds:
            raise ConfigError(f"simulation setting {name} is {getattr(self, name)!r}; expected {expected}")

    @property
    def gamma_scale(self) -> float:
        """Scale of the Gamma distribution under the chosen reading.

        Examples
        --------
        >>> Simulation(gamma_spread=0.5, gamma_reading="rate").gamma_scale
        2.0
        """
        return self.gamma_spread if self.gamma_reading == "scale" else 1.0 / self.gamma_spread


class Users(NamedTuple):
    """True ``confounder`` c_u and ``preference`` theta_u of some users, (n, K) each."""

    confounder: Floats
    preference: Floats


class Block(NamedTuple):
    """Outcomes of some users and all items, (n, n_items) each; ``rating`` is the potential outcome of every pair."""

    exposed: Flags
    rating: Floats
    outcome_rate: Floats
    in_test: Flags


@dataclass(frozen=True)
class Simulated:
    """A simulated world as lazy DataFrames: each action draws the same values anew, unless they are persisted.

    Parameters
    ----------
    settings : Simulation
        What the world was drawn by.
    ratings : DataFrame
        user, item: long; rating: double. The exposed pairs, which a recommender gets to see.
    test : DataFrame
        user, item: long; rating: double, the potential outcome y_ui(1); expected: double, its expectation given the
        truth; exposed: boolean (unseen pairs: ``where("not exposed")``).
    """

    settings: Simulation
    ratings: DataFrame
    test: DataFrame


def draw_items(settings: Simulation) -> Floats:
    """Item attributes beta, (n_items, K). One stream, in item order: a world of more items begins with the same ones.

    Examples
    --------
    >>> few, many = (draw_items(Simulation(n_items=n, n_factors=2, test_pairs_per_user=1)) for n in (3, 5))
    >>> bool((few == many[:3]).all())
    True
    """
    generator = _generator(settings, Kind.ITEM_ATTRIBUTE)
    return generator.gamma(settings.gamma_shape, settings.gamma_scale, (settings.n_items, settings.n_factors))


def draw_users(settings: Simulation, users: Ids) -> Users:
    """Confounders and preferences of the given user ids, in the order of the ids."""
    confounder = _draw_user_gammas(settings, Kind.CONFOUNDER, users)
    own_preference = _draw_user_gammas(settings, Kind.OWN_PREFERENCE, users)
    share = settings.confounding_preference
    return Users(confounder, share * confounder + (1 - share) * own_preference)


def draw_block(settings: Simulation, users: Ids, item_attribute: Floats) -> Block:
    """Exposures, potential outcomes and test pairs of the given users against all items."""
    truth = draw_users(settings, users)
    exposed = (
        _draw_counts(settings, Kind.EXPOSURE, users, _inner_products(truth.confounder[:, None], item_attribute)) > 0
    )
    outcome_rate = _inner_products(_outcome_factors(settings, truth)[:, None], item_attribute)
    rating = np.minimum(1.0 + _draw_counts(settings, Kind.OUTCOME, users, outcome_rate), HIGHEST_RATING)
    return Block(exposed, rating, outcome_rate, _draw_test_pairs(settings, users, exposed))


def expected_rating(outcome_rate: Floats) -> Floats:
    """Compute E[min(1 + N, 5)] for N ~ Poisson(m), exactly: 5 - exp(-m) (4 + 3 m + 2 m^2 / 2! + m^3 / 3!).

    Examples
    --------
    >>> expected_rating(np.array([0.0, 100.0])).tolist()
    [1.0, 5.0]
    """
    m = outcome_rate
    return HIGHEST_RATING - np.exp(-m) * (4.0 + m * (3.0 + m * (1.0 + m / 6.0)))


def expected_outcomes(settings: Simulation, users: Ids, items: Ids) -> Floats:
    """Compute expected potential outcomes E[y_ui(1)] given the truth.

    Parameters
    ----------
    settings : Simulation
        The world.
    users, items : (n,) int arrays
        The pairs (users[n], items[n]).

    Returns
    -------
    (n,) float array
        In [1, 5].

    Raises
    ------
    ConfigError
        An id is outside the simulated world.
    """
    for name, ids, limit in (("user", users, settings.n_users), ("item", items, settings.n_items)):
        outside = (ids < 0) | (ids >= limit)
        if outside.any():
            raise ConfigError(f"{name} {ids[outside][0]} is not simulated; expected ids from 0 to {limit - 1}")
    distinct, position = np.unique(users, return_inverse=True)
    factors = _outcome_factors(settings, draw_users(settings, distinct))
    return expected_rating(_inner_products(factors[position], draw_items(settings)[items]))


def simulate(spark: SparkSession, settings: Simulation, users_per_block: int | None = None) -> Simulated:
    """Draw the world on Spark, a block of users against all items at a time.

    Parameters
    ----------
    spark : SparkSession
        Session that draws.
    settings : Simulation
        The world.
    users_per_block : int, optional
        By default as many as make ``PAIRS_PER_BLOCK`` pairs; never changes the result.

    Returns
    -------
    Simulated
    """
    step = users_per_block or max(1, PAIRS_PER_BLOCK // settings.n_items)

    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        item_attribute = draw_items(settings)
        for batch in batches:
            for start in batch.column(0).to_pylist():
                users = np.arange(start, min(start + step, settings.n_users), dtype=np.int64)
                yield _block_to_batch(users, draw_block(settings, users, item_attribute))

    pairs = spark.range(0, settings.n_users, step).mapInArrow(draw, PAIR_SCHEMA)
    visible = "exposed and not in_test" if settings.test_pairs == "withheld" else "exposed"
    return Simulated(
        settings,
        ratings=pairs.where(visible).select("user", "item", "rating"),
        test=pairs.where("in_test").select("user", "item", "rating", "expected", "exposed"),
    )


def _generator(settings: Simulation, kind: Kind, *ids: int) -> np.random.Generator:
    return np.random.default_rng((settings.seed, int(kind), *ids))


def _draw_user_gammas(settings: Simulation, kind: Kind, users: Ids) -> Floats:
    factors = np.empty((len(users), settings.n_factors))
    for row, user in enumerate(users):
        generator = _generator(settings, kind, int(user))
        factors[row] = generator.gamma(settings.gamma_shape, settings.gamma_scale, settings.n_factors)
    return factors


def _draw_counts(settings: Simulation, kind: Kind, users: Ids, rates: Floats) -> Floats:
    counts = np.empty(rates.shape)
    for row, user in enumerate(users):
        counts[row] = _generator(settings, kind, int(user)).poisson(rates[row])
    return counts


def _draw_test_pairs(settings: Simulation, users: Ids, exposed: Flags) -> Flags:
    chosen = np.zeros(exposed.shape, dtype=np.bool_)
    for row, user in enumerate(users):
        order = _generator(settings, Kind.TEST, int(user)).permutation(settings.n_items)
        if settings.test_pairs == "unseen":
            order = order[~exposed[row, order]]
        chosen[row, order[: settings.test_pairs_per_user]] = True
    return chosen


def _outcome_factors(settings: Simulation, truth: Users) -> Floats:
    return truth.preference + settings.confounding_outcome * truth.confounder


def _inner_products(left: Floats, right: Floats) -> Floats:
    """Inner products over the last axis; not by BLAS, whose last bit depends on the shape of the block."""
    total = left[..., 0] * right[..., 0]
    for factor in range(1, left.shape[-1]):
        total += left[..., factor] * right[..., factor]
    return total


def _block_to_batch(users: Ids, block: Block) -> pa.RecordBatch:
    """Exposed or tested pairs of a block as rows of ``PAIR_SCHEMA``, by user, then item."""
    rows, items = np.nonzero(block.exposed | block.in_test)
    columns = {
        "user": users[rows],
        "item": items.astype(np.int64),
        "rating": block.rating[rows, items],
        "expected": expected_rating(block.outcome_rate[rows, items]),
        "exposed": block.exposed[rows, items],
        "in_test": block.in_test[rows, items],
    }
    return pa.RecordBatch.from_pydict(columns)
