"""Exposures drawn from the exposure model, split at random, and fits to them without Spark."""

from typing import NamedTuple

import numpy as np

from dcrec_spark.kernels.gamma import geometric_mean
from dcrec_spark.kernels.poisson import update_shape
from tests.problems import count_block
from tests.reference.poisson import Array, Priors

SHARE = 0.2
# Rates of 0.3 on average; of 0.1, so that exposures are rare.
COMMON = Priors(1.0, 3.0, 1.0, 3.0)
RARE = Priors(1.0, 3.0, 1.0, 10.0)


class Split(NamedTuple):
    training: Array
    held_out: Array


def split(exposures: Array, seed: int) -> Split:
    """Every single exposure is held out by itself."""
    held_out = np.random.default_rng(seed).binomial(exposures.astype(int), SHARE).astype(float)
    return Split(exposures - held_out, held_out)


def drawn(seed: int, priors: Priors = COMMON, n_users: int = 120, n_items: int = 200) -> Array:
    rng = np.random.default_rng(seed)
    user = rng.gamma(priors.user_shape, 1.0 / priors.user_rate, (n_users, 3))
    item = rng.gamma(priors.item_shape, 1.0 / priors.item_rate, (n_items, 3))
    return rng.poisson(user @ item.T).astype(float)


def posterior(exposures: Array, rank: int, priors: Priors, sweeps: int = 60) -> list[tuple[Array, Array]]:
    """Shape (n, L) and rate (n, L) of users and of items, by coordinate ascent with the package's kernel."""
    tables = [count_block(exposures), count_block(exposures.T)]
    prior = [(priors.user_shape, priors.user_rate), (priors.item_shape, priors.item_rate)]
    rng = np.random.default_rng(0)
    sides = [
        (shape * (1.0 + rng.random((n, rank))), np.full(rank, rate))
        for n, (shape, rate) in zip(exposures.shape, prior, strict=True)
    ]
    for _ in range(sweeps):
        for this, other in ((0, 1), (1, 0)):
            means = [geometric_mean(*side) for side in sides]
            shape = update_shape(prior[this][0], tables[this], means[this], means[other])
            sides[this] = shape, prior[this][1] + (sides[other][0] / sides[other][1]).sum(axis=0)
    return [(shape, np.tile(rate, (len(shape), 1))) for shape, rate in sides]
