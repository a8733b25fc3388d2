"""Single precision compared with double, on MovieLens 100K: how far apart the fits end.

Measured with 5 sweeps: objectives differ by at most 6e-8 of themselves, the scores of the training pairs by at most
2e-4 of a star, and those of the Poisson outcome by 1.5e-3 (three of 100,000 by more than 1e-3). The bounds leave room
for other processors.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.local.fits import Exposure, fit_exposure, fit_outcome
from dcrec_spark.local.ratings import Ratings

PRECISIONS = ("float64", "float32")


@pytest.fixture(scope="module")
def ratings(data_folder: Path) -> Ratings:
    user, item, rating = np.loadtxt(data_folder / "ml-100k" / "u.data", np.int64, usecols=(0, 1, 2)).T
    users, items = np.unique(user, return_inverse=True), np.unique(item, return_inverse=True)
    return Ratings(users[1], items[1], rating.astype(np.float64), users[0], items[0])


@pytest.fixture(scope="module")
def exposures(ratings: Ratings) -> dict[str, Exposure]:
    settings: dict[str, Any] = {"rank": 5, "maxIter": 10, "tol": 0.0}
    return {p: fit_exposure(ratings, PoissonFactorization(precision=p, **settings)) for p in PRECISIONS}


def test_exposures_agree(ratings: Ratings, exposures: dict[str, Exposure]) -> None:
    double, single = (exposures[p] for p in PRECISIONS)
    np.testing.assert_allclose(single.elbo, double.elbo, rtol=1e-6)
    np.testing.assert_allclose(
        single.at(ratings.user, ratings.item), double.at(ratings.user, ratings.item), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    "settings", [{"outcome": "weighted", "alpha": 1.0}, {"outcome": "probabilistic"}, {"outcome": "poisson"}]
)
def test_outcomes_agree(ratings: Ratings, exposures: dict[str, Exposure], settings: dict[str, Any]) -> None:
    double, single = (
        fit_outcome(ratings, DeconfoundedMF(precision=p, rank=10, maxIter=5, tol=0.0, **settings), exposures[p])
        for p in PRECISIONS
    )
    np.testing.assert_allclose(single.objective, double.objective, rtol=1e-6)
    scores = [model.scores(ratings.user, ratings.item) for model in (single, double)]
    np.testing.assert_allclose(*scores, rtol=0, atol=5e-3 if settings["outcome"] == "poisson" else 1e-3)
    assert np.abs(scores[0] - scores[1]).max() > 0
