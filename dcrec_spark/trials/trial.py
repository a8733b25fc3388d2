"""One trial: settings of both stages, fitted to some parts of the data, asked for its scores of others."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.arrays import Array
from dcrec_spark.errors import FitError
from dcrec_spark.models.degenerate import degeneracies, vanished
from dcrec_spark.models.exposure import PoissonFactorization
from dcrec_spark.models.in_memory import Exposure, Outcome, Ratings, fit_exposure, fit_outcome
from dcrec_spark.models.outcome import DeconfoundedMF
from dcrec_spark.trials.data import Parts
from dcrec_spark.trials.side_by_side import Result, side_by_side

Confounder = Literal["fitted", "permuted", "popularity"]


@dataclass(frozen=True)
class Trial:
    """Parameters of the estimators, by their names.

    data : which of the data sets. fit, predict : names of its parts.
    exposure : of PoissonFactorization; None where the adjustment has no confounder.
    confounder : "fitted" a_hat; or a placebo: "permuted", each user's a_hat dealt out to other items (the same deal for
    all users, so that it stays of low rank); "popularity", the item's number of exposures, scaled to the mean of a_hat.
    """

    outcome: Mapping[str, Any]
    exposure: Mapping[str, Any] | None
    data: str = ""
    fit: tuple[str, ...] = ("train",)
    predict: tuple[str, ...] = ("validation",)
    confounder: Confounder = "fitted"

    @property
    def stage_one(self) -> str:
        """What the exposure model depends on: trials that agree in it share one. Empty where there is none."""
        return "" if self.exposure is None else json.dumps([self.data, self.fit, dict(self.exposure)], sort_keys=True)


@dataclass(frozen=True)
class Fitted:
    """What came of a trial: scores of each part, (n,), in its order; the objective after each sweep; gamma, (U,).

    vanished : whether nothing is left of the preference factors, so that the scores are the confounder's alone.
    """

    scores: Mapping[str, Array]
    objective: Array
    gamma: Array
    seconds: float
    vanished: bool = False


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
        """The trials' results, in their order, as they are there.

        Raises
        ------
        FitError : that of the first trial which has one.
        """
        for found in self.attempt(trials):
            if isinstance(found, FitError):
                raise found
            yield found

    def attempt(self, trials: Sequence[Trial]) -> Iterator[Fitted | FitError]:
        """As :meth:`run`, with its FitError in the place of each trial that has one; the others go on."""
        self._fit_exposures(trials)
        runnable = [trial for trial in trials if trial.stage_one not in self.failures]
        needed = {t.stage_one: self.exposures[t.stage_one] for t in runnable if t.stage_one}
        with closing(side_by_side(self.spark, (dict(self.data), needed), runnable, _fit)) as results:
            for trial in trials:
                failure = self.failures.get(trial.stage_one)
                yield _fitted(next(results)) if failure is None else failure

    def _fit_exposures(self, trials: Sequence[Trial]) -> None:
        known = self.exposures.keys() | self.failures.keys()
        new = {t.stage_one: t for t in trials if t.stage_one and t.stage_one not in known}
        for name, found in zip(
            new, side_by_side(self.spark, dict(self.data), list(new.values()), _fit_exposure), strict=True
        ):
            failure = _failure(found)
            if failure is not None:
                self.failures[name] = failure
            else:
                self.exposures[name] = Exposure(found["users"].copy(), found["items"].copy(), tuple(found["elbo"]))


def _fit_exposure(data: Mapping[str, Parts], trial: Trial) -> Result:
    ratings = data[trial.data].ratings(*trial.fit)
    try:
        found = fit_exposure(ratings, PoissonFactorization(**dict(trial.exposure or {})))
    except FitError as error:
        return _as_result(error)
    return {"users": found.users, "items": found.items, "elbo": np.array(found.elbo)}


def _fit(shared: tuple[Mapping[str, Parts], Mapping[str, Exposure]], trial: Trial) -> Result:
    data, exposures = shared
    start = time.perf_counter()
    parts = data[trial.data]
    ratings = parts.ratings(*trial.fit)
    exposure = confounder(exposures[trial.stage_one], ratings, trial.confounder) if trial.stage_one else None
    try:
        model = fit_outcome(ratings, DeconfoundedMF(**dict(trial.outcome)), exposure)
    except FitError as error:
        return _as_result(error)
    scores = {f"score {part}": model.scores(parts.of[part]["user"], parts.of[part]["item"]) for part in trial.predict}
    facts = {"objective": np.array(model.objective), "gamma": model.gamma, "vanished": _has_vanished(model, ratings)}
    return {**scores, **facts, "seconds": np.array(time.perf_counter() - start)}


def _has_vanished(model: Outcome, ratings: Ratings) -> Array:
    size = len(model.users) * len(model.items) * ratings.rating.mean() ** 2
    return np.array(vanished(degeneracies("outcome", model.users.T @ model.users, model.items.T @ model.items, size)))


def _fitted(found: Result) -> Fitted | FitError:
    failure = _failure(found)
    if failure is not None:
        return failure
    scores = {name.removeprefix("score "): a for name, a in found.items() if name.startswith("score ")}
    return Fitted(scores, found["objective"], found["gamma"], float(found["seconds"]), bool(found["vanished"]))


def _as_result(error: FitError) -> Result:
    """An error as it travels: side by side, what is raised ends all the others too."""
    return {"error": np.frombuffer(str(error).encode(), np.uint8)}


def _failure(found: Result) -> FitError | None:
    return FitError(found["error"].tobytes().decode()) if "error" in found else None


def confounder(fitted: Exposure, ratings: Ratings, kind: Confounder) -> Exposure:
    """The exposure model's a_hat, or the placebo that takes its place."""
    if kind == "fitted":
        return fitted
    if kind == "permuted":
        deal = np.random.default_rng(0).permutation(len(fitted.items))
        return Exposure(fitted.users, fitted.items[deal])
    popularity = np.bincount(ratings.item, minlength=len(fitted.items)).astype(np.float64)
    mean = fitted.users.mean(axis=0) @ fitted.items.mean(axis=0)
    return Exposure(np.ones((len(fitted.users), 1)), (popularity * mean / popularity.mean())[:, None])
