"""Weights by which pairs of a part stand for all pairs, by an exposure model of the training pairs; without Spark."""

import numpy as np

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.weights import weights_by_exposure
from dcrec_spark.local.data import Parts
from dcrec_spark.local.fits import fit_exposure
from dcrec_spark.models.exposure.estimator import PoissonFactorization


def weights_of(parts: Parts, part: str, train: str, estimator: PoissonFactorization) -> Array:
    """Return the weight of each pair of ``part``, (n,), whose users and items are all in ``train``."""
    ratings, pairs = parts.ratings(train), parts.of[part]
    users, items = np.unique(ratings.user), np.unique(ratings.item)
    exposure = fit_exposure(ratings.of_users(users).of_items(items), estimator)
    return weights_by_exposure(
        exposure.at(np.searchsorted(users, pairs["user"]), np.searchsorted(items, pairs["item"]))
    )
