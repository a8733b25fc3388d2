"""Rows of the study: our models, and those of others, each with the settings among which it may choose.

Every row tries as many settings: its defaults first, then random draws. The draws of our rows are the same, so that
they differ in the assumption alone. Priors are constant: none is multiplied by a number of ratings.

MLlib's explicit ALS multiplies its own. Its settings are tried with our solver on the same loss, which starts no Spark
job, and the chosen ones are fitted by MLlib itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml.recommendation import ALS

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine.cells import Array
from dcrec_spark.local.fits import NO_FEATURES, Exposure, Outcome, Ratings, fit_exposure, fit_outcome
from dcrec_spark.spark.compat import collect_arrow
from dcrec_spark.spark.session import build_session
from studies.data import DataSet

Settings = dict[str, Any]
BASELINE, DEFAULT, BLEND = "without the confounder", "factors and logarithm", "blend"
PLACEBO, HALF_PLACEBO = "... users and items shuffled", "... items shuffled"
POPULARITY = "popularity"
MLLIB, MLLIB_IMPLICIT, CMFREC, IMPLICIT = "MLlib ALS", "MLlib ALS, implicit", "cmfrec", "implicit ALS"

_OURS: Mapping[str, tuple[Any, ...]] = {
    "rank": (2, 5, 10, 20),
    "regParam": (2.0, 4.0, 8.0, 12.0, 20.0),
    "biasReg": (2.0, 5.0, 10.0),
    "confounderReg": (10.0, 30.0, 100.0, 300.0),
    "exposureRank": (2, 5, 10),
}
_TRIAL_TOL = 1e-3
_SMALL_SPARK = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}
_MLLIBS_LOSS: Settings = {"adjustment": "none", "fitIntercept": False, "fitBiases": False, "regByCount": True}
_DEFAULTS = {name: DeconfoundedMF().getOrDefault(name) for name in _OURS}
_LINEAR = {"confounderLink": "identity"}
MODELS: dict[str, Settings] = {
    BASELINE: {"adjustment": "none"},
    "reconstruction": {"confounder": "reconstruction", **_LINEAR},
    "logarithm": {"confounder": "reconstruction"},
    "factors": _LINEAR,
    DEFAULT: {},
    PLACEBO: {},
    HALF_PLACEBO: {},
    "without intercept": {"adjustment": "none", "fitIntercept": False},
    "without intercept and biases": {"adjustment": "none", "fitIntercept": False, "fitBiases": False},
}
WITH_FEATURES: dict[str, Settings] = {
    "own features": {"adjustment": "none"},
    "own features, factors and logarithm": {},
}
# A tried implementation's grid, after its own defaults.
_PEERS: dict[str, tuple[Settings, Mapping[str, tuple[Any, ...]]]] = {
    MLLIB: (
        {"rank": 10, "regParam": 0.1},
        {"rank": (2, 5, 10, 20), "regParam": (0.03, 0.1, 0.2, 0.3, 0.5)},
    ),
    MLLIB_IMPLICIT: (
        {"rank": 10, "regParam": 0.1, "alpha": 1.0},
        {"rank": (5, 10, 20, 32), "regParam": (0.03, 0.1, 0.3), "alpha": (0.3, 1.0, 5.0, 20.0)},
    ),
    CMFREC: (
        {"k": 10, "lambda_": 10.0, "w_implicit": 0.5},
        {"k": (2, 5, 10, 20), "lambda_": (2.0, 4.0, 8.0, 12.0, 20.0), "w_implicit": (0.1, 0.5, 1.0, 3.0)},
    ),
    IMPLICIT: (
        {"factors": 32, "regularization": 0.01, "alpha": 1.0},
        {"factors": (5, 10, 20, 32), "regularization": (0.1, 1.0, 10.0, 30.0), "alpha": (0.3, 1.0, 5.0)},
    ),
}
PLACEBOS = (PLACEBO, HALF_PLACEBO)
RANKED_ONLY = (POPULARITY, MLLIB_IMPLICIT, IMPLICIT)


@dataclass
class Fits:
    """Fits on one data set, each exposure model once. Scores are dense, (U, I)."""

    data: DataSet
    exposures: dict[tuple[int, int], Exposure] = field(default_factory=dict)

    def score(self, row: str, ratings: Ratings, settings: Settings, is_trial: bool = False) -> Array:
        """Fit a row to ratings, and return its scores of all pairs. is_trial : settings are tried, to be chosen."""
        if row == POPULARITY:
            count = np.bincount(ratings.item, minlength=len(ratings.item_key))
            return np.tile(count.astype(np.float64), (len(ratings.user_key), 1))
        if row in PEERS and not (row == MLLIB and is_trial):
            return PEERS[row](ratings, settings, self.data.seed)
        fixed = {**WITH_FEATURES, **MODELS, MLLIB: _MLLIBS_LOSS}[row]
        tol = {"tol": _TRIAL_TOL} if is_trial else {}
        estimator = DeconfoundedMF(seed=self.data.seed, **{**settings, **fixed, **tol})
        exposure = None
        if estimator.getAdjustment() == "deconfounded":
            exposure = self._exposure(ratings, settings["exposureRank"])
            exposure = shuffled(exposure, row == PLACEBO) if row in PLACEBOS else exposure
        features = self.data.features if row in WITH_FEATURES else NO_FEATURES
        return dense_scores(fit_outcome(ratings, estimator, exposure, features=features))

    def _exposure(self, ratings: Ratings, rank: int) -> Exposure:
        key = len(ratings.rating), rank
        if key not in self.exposures:
            self.exposures[key] = fit_exposure(ratings, PoissonFactorization(rank=rank, seed=self.data.seed))
        return self.exposures[key]


def shuffled(exposure: Exposure, users_too: bool) -> Exposure:
    """Deal the exposure factors out to other items, and to other users. None of them knows the pair's own exposure."""
    users, items = (
        np.random.default_rng(3 + at).permutation(of) for at, of in enumerate((exposure.users, exposure.items))
    )
    return Exposure(users if users_too else exposure.users, items)


def dense_scores(model: Outcome) -> Array:
    """Return the potential ratings of all pairs, (U, I)."""
    scores = model.users @ model.items.T + model.intercept
    if model.user_bias is not None and model.item_bias is not None:
        scores += model.user_bias[:, None] + model.item_bias
    if model.exposure is not None:
        scores += model.gamma[:, None] * model.form.of(model.exposure.users @ model.exposure.items.T)
    return np.asarray(scores)


def draw(row: str, draws: int, seed: int) -> Iterator[Settings]:
    """Yield a row's settings to try: the defaults, then random ones. A row without settings has one."""
    if row == POPULARITY:
        yield {}
        return
    first, grid = _PEERS.get(row, (_DEFAULTS, _OURS))
    random = np.random.default_rng((seed, 2))
    yield dict(first)
    for _ in range(draws - 1):
        yield {name: choices[int(random.integers(len(choices)))] for name, choices in grid.items()}


def _mllib(ratings: Ratings, settings: Settings, seed: int, implicit: bool) -> Array:
    columns = {"user": ratings.user.astype(np.int32), "item": ratings.item.astype(np.int32), "rating": ratings.rating}
    spark = build_session("studies", "local[1]", _SMALL_SPARK)
    als = ALS(implicitPrefs=implicit, maxIter=10, seed=seed, numUserBlocks=1, numItemBlocks=1, **settings)
    model = als.fit(spark.createDataFrame(pa.table(columns)).coalesce(1))
    users, items = np.zeros((len(ratings.user_key), als.getRank())), np.zeros((len(ratings.item_key), als.getRank()))
    for side, factors in ((users, model.userFactors), (items, model.itemFactors)):
        for row in collect_arrow(factors).to_pylist():
            side[row["id"]] = row["features"]
    return np.asarray(users @ items.T)


def _cmfrec(ratings: Ratings, settings: Settings, seed: int) -> Array:
    import pandas as pd
    from cmfrec import CMF

    table = pd.DataFrame({"UserId": ratings.user, "ItemId": ratings.item, "Rating": ratings.rating})
    given = {**settings, "w_main": 1.0, "random_state": seed + 1, "nthreads": 1, "verbose": False}
    model = CMF(add_implicit_features=True, **given).fit(table)
    scores = np.full((len(ratings.user_key), len(ratings.item_key)), model.glob_mean_)
    users, items = np.asarray(model.user_mapping_, np.int64), np.asarray(model.item_mapping_, np.int64)
    biases = model.user_bias_[:, None] + model.item_bias_
    scores[np.ix_(users, items)] += biases + model.A_ @ model.B_.T
    return scores


def _implicit(ratings: Ratings, settings: Settings, seed: int) -> Array:
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    size = len(ratings.user_key), len(ratings.item_key)
    als = AlternatingLeastSquares(random_state=seed, use_gpu=False, num_threads=1, **settings)
    als.fit(csr_matrix((ratings.rating, (ratings.user, ratings.item)), size), show_progress=False)
    return np.asarray(als.user_factors @ als.item_factors.T, np.float64)


def installed_peers() -> list[str]:
    """Name the peers that can be imported here."""
    modules = {CMFREC: "cmfrec", IMPLICIT: "implicit"}
    return [row for row in PEERS if row not in modules or find_spec(modules[row])]


PEERS: dict[str, Callable[[Ratings, Settings, int], Array]] = {
    MLLIB: partial(_mllib, implicit=False),
    MLLIB_IMPLICIT: partial(_mllib, implicit=True),
    CMFREC: _cmfrec,
    IMPLICIT: _implicit,
}
