"""One trial: settings of both stages, fitted to some parts of the data, asked for its scores of others."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.arrays import Array
from dcrec_spark.errors import DataError
from dcrec_spark.models.exposure import PoissonFactorization
from dcrec_spark.models.in_memory import (
    Exposure,
    Ints,
    Outcome,
    Ratings,
    fit_and_fold_in,
    fit_exposure,
    fit_outcome,
)
from dcrec_spark.models.outcome import DeconfoundedMF
from dcrec_spark.trials.data import Parts
from dcrec_spark.trials.side_by_side import Result, side_by_side

Confounder = Literal["fitted", "permuted", "popularity"]


@dataclass(frozen=True)
class Trial:
    """Parameters of the estimators, by their names.

    data : which of the data sets. fit, predict : names of its parts. Users and items of the fit are those of its parts,
    as an estimator has them, so the pairs to predict have to be of these (:meth:`Parts.known`).
    fold_in : the part by which new users are folded in, whose scores are then asked for; empty for a plain fit.
    exposure : of PoissonFactorization; None where the adjustment has no confounder.
    confounder : "fitted" a_hat; or a placebo: "permuted", each user's a_hat dealt out to other items (the same deal for
    all users, so that it stays of low rank); "popularity", the item's number of exposures, scaled to the mean of a_hat.
    """

    outcome: Mapping[str, Any]
    exposure: Mapping[str, Any] | None
    data: str = ""
    fit: tuple[str, ...] = ("train",)
    predict: tuple[str, ...] = ("validation",)
    fold_in: str = ""
    confounder: Confounder = "fitted"

    @property
    def stage_one(self) -> str:
        """What the exposure model depends on: trials that agree in it share one. Empty where there is none to share."""
        if self.exposure is None or self.fold_in:
            return ""
        return json.dumps([self.data, self.fit, dict(self.exposure)], sort_keys=True)


@dataclass(frozen=True)
class Fitted:
    """What came of a trial: scores of each part, (n,), in its order; the objective after each sweep; gamma, (U,)."""

    scores: Mapping[str, Array]
    objective: Array
    gamma: Array
    seconds: float


@dataclass
class Bench:
    """Fits trials side by side, each exposure model once.

    data : name -> parts. Exposure models that were fitted stay here for later trials.
    """

    spark: SparkSession
    data: Mapping[str, Parts]
    exposures: dict[str, Exposure] = field(default_factory=dict)

    def run(self, trials: Sequence[Trial]) -> Iterator[Fitted]:
        """The trials' results, in their order, as they are there."""
        self._fit_exposures(trials)
        needed = {t.stage_one: self.exposures[t.stage_one] for t in trials if t.stage_one}
        for found in side_by_side(self.spark, (dict(self.data), needed), list(trials), _fit):
            scores = {name.removeprefix("score "): a for name, a in found.items() if name.startswith("score ")}
            yield Fitted(scores, found["objective"], found["gamma"], float(found["seconds"]))

    def _fit_exposures(self, trials: Sequence[Trial]) -> None:
        new = {t.stage_one: t for t in trials if t.stage_one and t.stage_one not in self.exposures}
        for name, found in zip(
            new, side_by_side(self.spark, dict(self.data), list(new.values()), _fit_exposure), strict=True
        ):
            self.exposures[name] = Exposure(found["users"].copy(), found["items"].copy(), tuple(found["elbo"]))


@dataclass(frozen=True)
class _Rows:
    """Ratings of a fit, and which of the data set's users and items its rows are; both sorted."""

    ratings: Ratings
    users: Ints
    items: Ints

    @classmethod
    def of(cls, ratings: Ratings, items: Ints | None = None) -> "_Rows":
        """items : those of a fit before, for users to fold in; their ratings of others are left out."""
        if items is not None:
            ratings = ratings.only(np.isin(ratings.item, items))
        users, items = np.unique(ratings.user), np.unique(ratings.item) if items is None else items
        return cls(ratings.of_users(users).of_items(items), users, items)

    def score(self, model: Outcome, pairs: Mapping[str, Array]) -> Array:
        """Scores of a part's pairs."""
        unknown = ~(np.isin(pairs["user"], self.users) & np.isin(pairs["item"], self.items))
        if unknown.any():
            raise DataError(f"{unknown.sum()} of {len(unknown)} pairs are of users or items that no fit knows")
        return model.scores(np.searchsorted(self.users, pairs["user"]), np.searchsorted(self.items, pairs["item"]))


def _fit_exposure(data: Mapping[str, Parts], trial: Trial) -> Result:
    rows = _Rows.of(data[trial.data].ratings(*trial.fit))
    found = fit_exposure(rows.ratings, PoissonFactorization(**dict(trial.exposure or {})))
    return {"users": found.users, "items": found.items, "elbo": np.array(found.elbo)}


def _fit(shared: tuple[Mapping[str, Parts], Mapping[str, Exposure]], trial: Trial) -> Result:
    data, exposures = shared
    start = time.perf_counter()
    parts, estimator = data[trial.data], DeconfoundedMF(**dict(trial.outcome))
    rows = _Rows.of(parts.ratings(*trial.fit))
    if trial.fold_in:
        first = None if trial.exposure is None else PoissonFactorization(**dict(trial.exposure))
        new = _Rows.of(parts.ratings(trial.fold_in), rows.items)
        model, rows = fit_and_fold_in(rows.ratings, estimator, first, new.ratings), new
    else:
        own = confounder(exposures[trial.stage_one], rows.ratings, trial.confounder) if trial.stage_one else None
        model = fit_outcome(rows.ratings, estimator, own)
    scores = {f"score {part}": rows.score(model, parts.of[part]) for part in trial.predict}
    facts = {"objective": np.array(model.objective), "gamma": model.gamma}
    return {**scores, **facts, "seconds": np.array(time.perf_counter() - start)}


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
