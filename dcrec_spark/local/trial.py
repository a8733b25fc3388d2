"""Trials side by side: settings of both stages, fitted to parts of the data in one task each, and their scores."""

import json
import pickle
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from threadpoolctl import threadpool_limits

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import DataError, FitError
from dcrec_spark.evaluation.weights import weights_by_exposure
from dcrec_spark.local.data import Parts
from dcrec_spark.local.fits import Exposure, Ints, Outcome, Ratings, fit_exposure, fit_outcome
from dcrec_spark.local.lists import ListPlaces, rank_unseen
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.fitting.facts import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.spark.compat import collect_arrow
from dcrec_spark.spark.lineage import broadcast, cores

Shared = TypeVar("Shared")
Work = TypeVar("Work")
Result = TypeVar("Result")

# Tasks for each core in one Spark job: results return, and can be recorded, when a job ends.
ROUNDS = 4
Confounder = Literal["fitted", "shuffled"]


@dataclass(frozen=True)
class Trial:
    """Parameters of the estimators, by their names.

    data : which of the data sets. fit, predict : names of its parts. Users and items of the fit are those of its parts,
    as an estimator has them, so the pairs to predict have to be of these (:meth:`Parts.select_known`).
    exposure : of PoissonFactorization. None where the adjustment has no confounder.
    confounder : "fitted" a_hat. Or "shuffled", a placebo of the same rank: that of another user and another item.
    list_length : places of the lists, of items that each user of the fit has not rated there. 0: no lists.
    """

    outcome: Mapping[str, Any]
    exposure: Mapping[str, Any] | None
    data: str = ""
    fit: tuple[str, ...] = ("train",)
    predict: tuple[str, ...] = ("validation",)
    confounder: Confounder = "fitted"
    list_length: int = 0

    @property
    def stage_one(self) -> str:
        """What the exposure model depends on: trials that agree in it share one. Empty where there is none to share."""
        if self.exposure is None:
            return ""
        return json.dumps([self.data, self.fit, dict(self.exposure)], sort_keys=True)


@dataclass(frozen=True)
class Fitted:
    """What came of a trial: scores of each part, (n,), in its order. The objective after each sweep. Gamma, (U,).

    vanished : whether nothing is left of the preference factors, so that the scores are the confounder's alone.
    lists : where the trial asks for them, by indices of the data set.
    """

    scores: Mapping[str, Array]
    objective: Array
    gamma: Array
    seconds: float
    vanished: bool = False
    lists: ListPlaces | None = None


@dataclass
class Bench:
    """Fits trials side by side, each exposure model once.

    data : name -> parts. Exposure models that were fitted stay here for later trials, and so do their failures.
    """

    spark: SparkSession
    data: Mapping[str, Parts]
    exposures: dict[str, Exposure] = field(default_factory=dict)
    failures: dict[str, FitError] = field(default_factory=dict)

    def run(self, trials: Sequence[Trial]) -> Iterator[Fitted]:
        """Yield results in order, as soon as they are there. Raises FitError: that of the first trial which has one."""
        for result in self.attempt(trials):
            if isinstance(result, FitError):
                raise result
            yield result

    def attempt(self, trials: Sequence[Trial]) -> Iterator[Fitted | FitError]:
        """As :meth:`run`, with its FitError in the place of each trial that has one. The others go on."""
        self._fit_exposures(trials)
        runnable = [trial for trial in trials if trial.stage_one not in self.failures]
        needed = {t.stage_one: self.exposures[t.stage_one] for t in runnable if t.stage_one}
        with closing(side_by_side(self.spark, (dict(self.data), needed), runnable, _fit)) as results:
            for trial in trials:
                yield self.failures.get(trial.stage_one) or next(results)

    def _fit_exposures(self, trials: Sequence[Trial]) -> None:
        known = self.exposures.keys() | self.failures.keys()
        new = {t.stage_one: t for t in trials if t.stage_one and t.stage_one not in known}
        results = side_by_side(self.spark, dict(self.data), list(new.values()), _fit_exposure)
        for name, result in zip(new, results, strict=True):
            if isinstance(result, FitError):
                self.failures[name] = result
            else:
                self.exposures[name] = result


@dataclass(frozen=True)
class _Rows:
    """Ratings of a fit, and which of the data set's users and items its rows are. Both sorted."""

    ratings: Ratings
    users: Ints
    items: Ints

    @classmethod
    def of(cls, ratings: Ratings) -> "_Rows":
        users, items = np.unique(ratings.user), np.unique(ratings.item)
        return cls(ratings.of_users(users).of_items(items), users, items)

    def score(self, model: Outcome, pairs: Mapping[str, Array]) -> Array:
        unknown = ~(np.isin(pairs["user"], self.users) & np.isin(pairs["item"], self.items))
        if unknown.any():
            raise DataError(f"{unknown.sum()} of {len(unknown)} pairs are of users or items that no fit knows")
        return model.scores(np.searchsorted(self.users, pairs["user"]), np.searchsorted(self.items, pairs["item"]))


def _fit_exposure(data: Mapping[str, Parts], trial: Trial) -> Exposure | FitError:
    rows = _Rows.of(data[trial.data].ratings(*trial.fit))
    try:
        return fit_exposure(rows.ratings, PoissonFactorization(**dict(trial.exposure or {})))
    except FitError as error:  # what is raised here would end all others too
        return error


def _fit(shared: tuple[Mapping[str, Parts], Mapping[str, Exposure]], trial: Trial) -> Fitted | FitError:
    data, exposures = shared
    start = time.perf_counter()
    parts = data[trial.data]
    rows = _Rows.of(parts.ratings(*trial.fit))
    try:
        exposure = confounder(exposures[trial.stage_one], trial.confounder) if trial.stage_one else None
        model = fit_outcome(rows.ratings, DeconfoundedMF(**dict(trial.outcome)), exposure)
    except FitError as error:
        return error
    scores = {part: rows.score(model, parts.of[part]) for part in trial.predict}
    seconds = time.perf_counter() - start
    facts = np.array(model.objective), model.gamma, seconds, vanished(model.facts.degeneracies)
    if not trial.list_length:
        return Fitted(scores, *facts)
    places = rank_unseen(model, rows.ratings, trial.list_length)
    places = places._replace(user=rows.users[places.user], item=rows.items[places.item])
    return Fitted(scores, *facts, places)


def confounder(fitted: Exposure, kind: Confounder) -> Exposure:
    """Return the exposure model's a_hat, or the placebo that takes its place.

    Both sides are dealt out: with items alone, the composition of a user's exposures would still be true.
    """
    if kind == "fitted":
        return fitted
    return Exposure(_dealt_out(fitted.users), _dealt_out(fitted.items))


def _dealt_out(rows: Array) -> Array:
    return np.asarray(rows[np.random.default_rng(0).permutation(len(rows))])


def weights_of(parts: Parts, part: str, train: str, estimator: PoissonFactorization) -> Array:
    """Weights, (n,), by which the pairs of ``part`` represent all pairs, by an exposure model fitted to ``train``."""
    rows, pairs = _Rows.of(parts.ratings(train)), parts.of[part]
    exposure = fit_exposure(rows.ratings, estimator)
    user, item = np.searchsorted(rows.users, pairs["user"]), np.searchsorted(rows.items, pairs["item"])
    return weights_by_exposure(exposure.at(user, item))


def side_by_side(
    spark: SparkSession,
    shared: Shared,
    works: Sequence[Work],
    function: Callable[[Shared, Work], Result],
) -> Generator[Result, None, None]:
    """Yield ``function(shared, work)`` for each of ``works``, in their order, each computed by one task.

    Results arrive a few for each core at a time, so that the caller can record them. An error ends the job. The
    caller has the results before it. Spark sends ``shared`` to each executor once. All can be pickled.
    """
    shared_value = broadcast(spark, (shared, list(works)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                everything, all_works = shared_value.value
                with threadpool_limits(1):  # each core has a task
                    cell = pickle.dumps(function(everything, all_works[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "data": pa.array([cell], pa.binary())})

    wave = ROUNDS * cores(spark)
    try:
        for start in range(0, len(works), wave):
            end = min(start + wave, len(works))
            results = collect_arrow(spark.range(start, end, 1, end - start).mapInArrow(run, "id long, data binary"))
            for row in results.sort_by("id").to_pylist():
                yield pickle.loads(row["data"])
    finally:
        shared_value.destroy()
