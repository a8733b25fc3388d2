"""Five recommenders on simulated data whose truth is known: errors on pairs that nobody rated, value of the lists.

Fits run in one process each, side by side. Settings are the same for all rows: the priors suit the row with
biases best, by trial on other seeds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.engine.cells import Array
from dcrec_spark.local.data import Parts
from dcrec_spark.local.lists import ListPlaces
from dcrec_spark.local.trial import Bench, Confounder, Trial
from studies.fair_simulation import Confounding, FairSimulation, ListValue, value_of

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


class Row(NamedTuple):
    """A recommender of the table: its settings, and what takes the place of the substitute confounder."""

    settings: Mapping[str, Any]
    confounder: Confounder | None = None


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
    data = {f"{kind}-{seed}": parts_of(simulated) for (kind, seed), simulated in drawn.items()}
    trials = [(name, key, _trial(row, key)) for key in drawn for name, row in ROWS.items()]
    results: dict[tuple[str, Confounding], list[tuple[float, ...]]] = {}
    fits = Bench(spark, data).run([trial for _, _, trial in trials])
    for (name, key, _), fitted in zip(trials, fits, strict=True):
        results.setdefault((name, key[0]), []).append(
            (
                *_errors(drawn[key], data[f"{key[0]}-{key[1]}"].of["test"], fitted.scores["test"]),
                *_value(drawn[key], fitted.lists),
            )
        )
        done(f"{name}, seed {key[1]}")
    return {name: {kind: Closeness(*np.array(results[name, kind]).T) for kind in _kinds(drawn)} for name in ROWS}


def parts_of(simulated: FairSimulation) -> Parts:
    """Hold a data set as a fit in one process takes it; test pairs whose user or item has no rating are left out."""
    pairs = {"train": simulated.ratings, "test": simulated.test}
    return Parts.of_indices(simulated.n_users, simulated.n_items, pairs).select_known("test", ("train",))


def _kinds(drawn: Mapping[tuple[Confounding, int], FairSimulation]) -> Iterator[Confounding]:
    yield from dict.fromkeys(kind for kind, _ in drawn)


def _trial(row: Row, key: tuple[Confounding, int]) -> Trial:
    kind, seed = key
    exposure = None if row.confounder is None else {**EXPOSURE, "seed": seed}
    outcome = {**SHARED, **row.settings, "seed": seed}
    chosen: Confounder = row.confounder or "fitted"
    return Trial(outcome, exposure, f"{kind}-{seed}", predict=("test",), confounder=chosen, list_length=LIST_LENGTH)


def _value(simulated: FairSimulation, lists: ListPlaces | None) -> ListValue:
    assert lists is not None
    user, item = np.arange(simulated.n_users)[:, None], np.arange(simulated.n_items)
    return value_of(lists, simulated.expected(user, item), simulated.exposed, LIST_LENGTH)


def _errors(simulated: FairSimulation, pairs: Mapping[str, Array], scores: Array) -> tuple[float, float]:
    error = np.clip(scores, 1.0, 5.0) - pairs["rating"]
    return float(np.mean(error**2)), float(np.mean(error[~simulated.exposed[pairs["user"], pairs["item"]]]))
