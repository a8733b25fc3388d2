"""Five recommenders on simulated data whose truth is known: errors on pairs that nobody rated, value of the lists.

Fits run in one process each, side by side. Settings are the same for all rows: the priors suit the row with
biases best, by trial on other seeds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine.cells import Array
from dcrec_spark.local.data import Gathered
from dcrec_spark.local.fits import Exposure, Ratings, fit_exposure, fit_outcome
from dcrec_spark.local.lists import rank_unseen
from dcrec_spark.local.side_by_side import side_by_side
from studies.fair_simulation import Confounding, FairSimulation, value_of

KINDS: dict[Confounding, str] = {
    "lowers": "exposure\nlowers ratings",
    "none": "exposure changes\nno rating",
    "raises": "exposure\nraises ratings",
}
SEEDS = (0, 1, 2)
LIST_LENGTH = 10
SHARED = {"rank": 5, "fitBiases": False, "regParam": 5.0, "biasReg": 15.0, "maxIter": 50, "tol": 1e-4}
_CONFOUNDER = {"adjustment": "deconfounded", "fitBiases": True}
EXPOSURE = {"rank": 5, "maxIter": 100}
Errors = tuple[float, float, float, float]


class Row(NamedTuple):
    """A recommender of the table: its settings, and what takes the place of the substitute confounder."""

    settings: Mapping[str, Any]
    confounder: Literal["fitted", "shuffled"] | None = None


ROWS: dict[str, Row] = {
    "intercept-free": Row({"adjustment": "none", "fitIntercept": False}),
    "plain": Row({"adjustment": "none"}),
    "with biases": Row({"adjustment": "none", "fitBiases": True}),
    "deconfounded": Row(_CONFOUNDER, "fitted"),
    "shuffled": Row(_CONFOUNDER, "shuffled"),
}


@dataclass(frozen=True)
class Closeness:
    """Errors of one row on data sets of one kind, a number for each seed.

    squared_error : mean squared error on random pairs. bias : mean of prediction minus truth, of the unseen among them.
    value : mean expected rating of the items in all lists. regret : by how much the best lists are better.
    """

    squared_error: Array
    bias: Array
    value: Array
    regret: Array


def draw_data(size: int) -> dict[tuple[Confounding, int], FairSimulation]:
    """(kind, seed) -> data set of ``size`` users and as many items."""
    tested = min(40, size // 2)
    return {
        (kind, seed): FairSimulation(kind, n_users=size, n_items=size, test_pairs_per_user=tested, seed=seed)
        for kind in KINDS
        for seed in SEEDS
    }


def compare(
    spark: SparkSession, drawn: Mapping[tuple[Confounding, int], FairSimulation], done: Callable[[str], None]
) -> dict[str, dict[Confounding, Closeness]]:
    """Row -> kind of confounding -> how close its predictions are. ``done`` is called with a note after each fit."""
    results: dict[tuple[str, Confounding], list[Errors]] = {}
    for (kind, seed), rows in zip(drawn, side_by_side(spark, EXPOSURE, list(drawn.values()), _errors), strict=True):
        for name, errors in rows.items():
            results.setdefault((name, kind), []).append(errors)
            done(f"{name}, seed {seed}")
    kinds = dict.fromkeys(kind for kind, _ in drawn)
    return {name: {kind: Closeness(*np.array(results[name, kind]).T) for kind in kinds} for name in ROWS}


def _errors(exposure_params: Mapping[str, Any], simulated: FairSimulation) -> dict[str, Errors]:
    """Fit all rows to a data set: row -> its errors. Pairs whose user or item has no rating are left out."""
    user, item = np.arange(simulated.n_users), np.arange(simulated.n_items)
    ratings = Gathered(Ratings(**simulated.ratings, user_key=user, item_key=item), simulated.test).select_known()
    users, items = np.unique(ratings.train.user), np.unique(ratings.train.item)
    (train, test), truth = ratings.compact(), simulated.expected(user[:, None], item)
    exposure = fit_exposure(train, PoissonFactorization(**exposure_params, seed=simulated.seed))
    found = {}
    for name, row in ROWS.items():
        estimator = DeconfoundedMF(**{**SHARED, **row.settings, "seed": simulated.seed})
        model = fit_outcome(train, estimator, None if row.confounder is None else _confounder(exposure, row.confounder))
        error = np.clip(model.scores(test["user"], test["item"]), 1.0, 5.0) - test["rating"]
        lists = rank_unseen(model, train, LIST_LENGTH)
        lists = lists._replace(user=users[lists.user], item=items[lists.item])
        value = value_of(lists, truth, simulated.exposed, LIST_LENGTH)
        found[name] = (float(np.mean(error**2)), float(np.mean(error[test["unseen"]])), *value)
    return found


def _confounder(fitted: Exposure, kind: str) -> Exposure:
    """Return a_hat, or the placebo: that of another user and another item.

    Both sides are dealt out: with items alone, the composition of a user's exposures would still be true.
    """
    if kind == "fitted":
        return fitted
    users, items = (np.random.default_rng(0).permutation(rows) for rows in (fitted.users, fitted.items))
    return Exposure(users, items)
