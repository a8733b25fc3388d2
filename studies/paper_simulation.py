"""The paper's simulation: confounded ratings whose potential outcomes are known for every pair.

A hidden confounder c_u of each user raises both exposure and rating::

    c_u, beta_i ~ Gamma_K(shape, spread)                                confounder, item_attribute
    theta_u     = g_theta c_u + (1 - g_theta) Gamma_K(shape, spread)    user_preference
    a_ui        = min(Poisson(c_u . beta_i), 1)                         exposed
    y_ui(1)     = min(1 + Poisson((theta_u + g_y c_u) . beta_i), 5)     rating, had the user been exposed

NumPy draws one block of users against all items. Spark distributes the blocks. Each user has random streams of its own,
seeded by (seed, purpose, user), so a pair's values never depend on blocks or partitions. Simulations that differ in
``confounding_outcome`` alone share exposures and test pairs.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, model_validator
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config.types import Section

HIGHEST_RATING = 5.0
# Bounds a task's memory: a handful of temporary arrays of this many float64.
PAIRS_PER_BLOCK = 1 << 19
PAIR_SCHEMA = "user long, item long, rating double, expected double, exposed boolean, in_test boolean"

Reading = Literal["rate", "scale"]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]


# Purposes of the streams of random numbers, a part of their seeds.
Stream = IntEnum("Stream", "ITEM_ATTRIBUTE CONFOUNDER OWN_PREFERENCE EXPOSURE OUTCOME TEST", start=0)


class Simulation(Section):
    """Settings and seed: they determine every value that is drawn.

    n_users, n_items : 5,000 in the paper, which does not report n_factors, K. confounding_preference : g_theta, the
    share of the preference that is the confounder itself. confounding_outcome : g_y, what the confounder adds to the
    rating. gamma_spread : of all factors; its reading the paper leaves open. "scale" (the authors' code): users are
    exposed to 7 % of the pairs; "rate": to 90 %. test_pairs : random pairs of each user. "all": exposed pairs too;
    "unseen": unexposed ones only; "withheld": exposed ones too, which are no ratings.
    """

    n_users: int = Field(default=1000, ge=1)
    n_items: int = Field(default=1000, ge=1)
    n_factors: int = Field(default=10, ge=1)
    confounding_preference: float = Field(default=0.6, ge=0, le=1)
    confounding_outcome: float = Field(default=3.0, ge=0)
    gamma_shape: float = Field(default=0.3, gt=0)
    gamma_spread: float = Field(default=0.3, gt=0)
    gamma_reading: Reading = "scale"
    test_pairs_per_user: int = Field(default=20, ge=0)
    test_pairs: Literal["all", "unseen", "withheld"] = "all"
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _items_are_enough(self) -> Self:
        if self.test_pairs_per_user > self.n_items:
            raise ValueError(f"test_pairs_per_user at most n_items = {self.n_items}")
        return self

    @property
    def gamma_scale(self) -> float:
        """Scale of the Gamma distribution under the chosen reading.

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


class Simulated(NamedTuple):
    """Lazy DataFrames: each action draws the same values again, unless they are persisted.

    ratings : user, item: long; rating: double. The exposed pairs, which a recommender sees.
    test : user, item: long; rating: double, the potential outcome y_ui(1); expected: double, its expectation given the
    truth; exposed: boolean.
    """

    ratings: DataFrame
    test: DataFrame


def draw_items(settings: Simulation) -> Floats:
    """Draw the item attributes beta, (n_items, K). More items begin with the same ones.

    >>> few, many = (draw_items(Simulation(n_items=n, n_factors=2, test_pairs_per_user=1)) for n in (3, 5))
    >>> bool((few == many[:3]).all())
    True
    """
    generator = _generator(settings, Stream.ITEM_ATTRIBUTE)
    return generator.gamma(settings.gamma_shape, settings.gamma_scale, (settings.n_items, settings.n_factors))


def draw_users(settings: Simulation, users: Ids) -> Users:
    """Draw confounders and preferences of the given user ids, in the order of the ids."""
    confounder = _draw_user_gammas(settings, Stream.CONFOUNDER, users)
    own_preference = _draw_user_gammas(settings, Stream.OWN_PREFERENCE, users)
    share = settings.confounding_preference
    return Users(confounder, share * confounder + (1 - share) * own_preference)


def draw_block(settings: Simulation, users: Ids, item_attribute: Floats) -> Block:
    """Draw exposures, potential outcomes and test pairs of the given users against all items."""
    truth = draw_users(settings, users)
    exposure_rate = _inner_products(truth.confounder[:, None], item_attribute)
    exposed = _draw_counts(settings, Stream.EXPOSURE, users, exposure_rate) > 0
    outcome_factors = truth.preference + settings.confounding_outcome * truth.confounder
    outcome_rate = _inner_products(outcome_factors[:, None], item_attribute)
    rating = np.minimum(1.0 + _draw_counts(settings, Stream.OUTCOME, users, outcome_rate), HIGHEST_RATING)
    return Block(exposed, rating, outcome_rate, _draw_test_pairs(settings, users, exposed))


def expected_rating(outcome_rate: Floats) -> Floats:
    """Compute E[min(1 + N, 5)] for N ~ Poisson(m), exactly: 5 - exp(-m) (4 + 3 m + 2 m^2 / 2! + m^3 / 3!).

    >>> expected_rating(np.array([0.0, 100.0])).tolist()
    [1.0, 5.0]
    """
    m = outcome_rate
    return HIGHEST_RATING - np.exp(-m) * (4.0 + m * (3.0 + m * (1.0 + m / 6.0)))


def simulate(spark: SparkSession, settings: Simulation, users_per_block: int | None = None) -> Simulated:
    """Draw the data set on Spark, a block of users against all items at a time.

    users_per_block : by default as many as make ``PAIRS_PER_BLOCK`` pairs; never changes the result.
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
        ratings=pairs.where(visible).select("user", "item", "rating"),
        test=pairs.where("in_test").select("user", "item", "rating", "expected", "exposed"),
    )


def _generator(settings: Simulation, stream: Stream, *ids: int) -> np.random.Generator:
    return np.random.default_rng((settings.seed, int(stream), *ids))


def _draw_user_gammas(settings: Simulation, stream: Stream, users: Ids) -> Floats:
    shape, scale, n = settings.gamma_shape, settings.gamma_scale, settings.n_factors
    rows = [_generator(settings, stream, int(user)).gamma(shape, scale, n) for user in users]
    return np.array(rows).reshape(len(users), n)


def _draw_counts(settings: Simulation, stream: Stream, users: Ids, rates: Floats) -> Floats:
    counts = np.empty(rates.shape)
    for row, user in enumerate(users):
        counts[row] = _generator(settings, stream, int(user)).poisson(rates[row])
    return counts


def _draw_test_pairs(settings: Simulation, users: Ids, exposed: Flags) -> Flags:
    chosen = np.zeros(exposed.shape, dtype=np.bool_)
    for row, user in enumerate(users):
        order = _generator(settings, Stream.TEST, int(user)).permutation(settings.n_items)
        if settings.test_pairs == "unseen":
            order = order[~exposed[row, order]]
        chosen[row, order[: settings.test_pairs_per_user]] = True
    return chosen


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
