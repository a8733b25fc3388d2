"""Two ways to fit candidates: many small ones side by side, a task each; large ones one after the other, on all tasks.

Both come to the same metrics, up to rounding. Each exposure model is fitted once, and used by all that share it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import TuneConfig
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.evaluation.metrics import evaluate
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.jobs.estimator_settings import exposure_params, outcome_params
from dcrec_spark.jobs.tune.candidates import Candidate
from dcrec_spark.jobs.tune.entry import Outcome
from dcrec_spark.jobs.tune.held_out import Split, columns, metric_settings
from dcrec_spark.local.data import Parts
from dcrec_spark.local.side_by_side import ROUNDS
from dcrec_spark.local.trial import Bench, Fitted, Trial
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.fitting.degeneracies import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.spark.lineage import cores

# A fit to this many ratings or fewer takes longer to spread over the cluster than to make in one task.
SMALL = 2_000_000
_VANISHED = "outcome: all factors are zero: less regularisation, or more data"

# A candidate, and what came of its fit.
Attempt = tuple[Candidate, Outcome | FitError]


class Fits(Protocol):
    """A way to fit candidates. wave : so many come at a time."""

    wave: int

    def run(self, candidates: Sequence[Candidate], last: bool) -> Iterator[Attempt]:
        """Each with what came of it, in any order. last : whether this is the last round."""

    def close(self) -> None:
        """Release what is cached on the cluster."""


def small(config: TuneConfig, candidates: Sequence[Candidate], columns: Sequence[str], n_ratings: int) -> bool:
    """Whether to fit side by side.

    Raises
    ------
    ConfigError : that is what the configuration says, and it cannot be.
    """
    asked, obstacle = config.tuning.side_by_side, _obstacle(config, candidates, columns)
    if asked is True and obstacle is not None:
        raise ConfigError(f"setting tuning.side_by_side: found true, expected auto or false for {obstacle}")
    if asked == "auto":
        return obstacle is None and n_ratings <= SMALL
    return asked


def _obstacle(config: TuneConfig, candidates: Sequence[Candidate], columns: Sequence[str]) -> str | None:
    """Name what only the distributed fit has."""
    exposures = [c.exposure for c in candidates] + [config.exposure] * (config.tuning.weights == "exposure")
    if "count" in columns and any(exposure is not None for exposure in exposures):
        return "exposure counts (input.columns.count)"
    if "propensity" in columns and any(c.outcome.adjustment == "ipw" for c in candidates):
        return "propensities that are given (input.columns.propensity)"
    return None


# ---- side by side


@dataclass
class SideBySide:
    """Each trial is one task, with all ratings in its memory."""

    config: TuneConfig
    bench: Bench
    settings: MetricSettings
    wave: int

    @classmethod
    def over(cls, spark: SparkSession, config: TuneConfig, parts: Parts) -> "SideBySide":
        """parts : ``train`` and ``validation``."""
        return cls(config, Bench(spark, {"": parts}), metric_settings(config), ROUNDS * cores(spark))

    def run(self, candidates: Sequence[Candidate], last: bool) -> Iterator[Attempt]:
        """In the order of the candidates."""
        trials = [self._trial(candidate) for candidate in candidates]
        for candidate, fitted in zip(candidates, self.bench.attempt(trials), strict=True):
            yield candidate, self._measured(fitted)

    def close(self) -> None:
        """Nothing is cached on the cluster."""

    def _trial(self, candidate: Candidate) -> Trial:
        outcome, exposure = _params(self.config, candidate, [])
        return Trial(outcome, exposure)

    def _measured(self, fitted: Fitted | FitError) -> Outcome | FitError:
        if isinstance(fitted, FitError):
            return fitted
        if fitted.vanished:
            return FitError(_VANISHED)
        parts: Parts = self.bench.data[""]
        metrics = parts.evaluate("validation", {"prediction": fitted.scores["validation"]}, self.settings, ("train",))
        return Outcome(metrics, len(fitted.objective), fitted.seconds)


# ---- one after the other


@dataclass
class OneByOne:
    """Each trial is fitted by the estimators, on the whole cluster."""

    config: TuneConfig
    parts: Split
    exposures: dict[str, PoissonFactorizationModel | FitError] = field(default_factory=dict)
    wave: int = 1

    def run(self, candidates: Sequence[Candidate], last: bool) -> Iterator[Attempt]:
        """Fit candidates that share an exposure model one after the other; in the last round release it after them."""
        ordered = sorted(candidates, key=lambda candidate: candidate.stage_one)
        self._release(self.exposures.keys() - {candidate.stage_one for candidate in ordered})
        for stage_one, sharing in groupby(ordered, key=lambda candidate: candidate.stage_one):
            for candidate in sharing:
                yield candidate, self._fit(candidate)
            if last:
                self._release({stage_one})

    def close(self) -> None:
        """Release the exposure models."""
        self._release(set(self.exposures))

    def _release(self, names: set[str]) -> None:
        for name in names & self.exposures.keys():
            model = self.exposures.pop(name)
            if isinstance(model, PoissonFactorizationModel):
                model.release()

    def _fit(self, candidate: Candidate) -> Outcome | FitError:
        outcome, exposure = _params(self.config, candidate, self.parts.train.columns)
        model = None if exposure is None else self._exposure(candidate.stage_one, exposure)
        if isinstance(model, FitError):
            return model
        try:
            return self._measured(DeconfoundedMF(**outcome, exposureModel=model))
        except FitError as error:
            return error

    def _exposure(self, name: str, params: dict[str, Any]) -> PoissonFactorizationModel | FitError:
        if name not in self.exposures:
            estimator = PoissonFactorization(**params)
            estimator.listener = _quiet
            try:
                self.exposures[name] = estimator.fit(self.parts.train)
            except FitError as error:
                self.exposures[name] = error
        return self.exposures[name]

    def _measured(self, estimator: DeconfoundedMF) -> Outcome:
        estimator.listener = _quiet
        start = time.perf_counter()
        model = estimator.fit(self.parts.train)
        seconds = time.perf_counter() - start
        try:
            if vanished(model.degeneracies):
                raise FitError(_VANISHED)
            predicted: DataFrame = model.transform(self.parts.validation)
            settings = metric_settings(self.config)
            metrics = evaluate(
                predicted, columns=columns(self.config), settings=settings, catalogue_size=model.numItems
            )
            return Outcome(metrics, len(model.objectiveHistory), seconds)
        finally:
            model.release()


def _params(
    config: TuneConfig, candidate: Candidate, columns: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    shared = config.engine, config.run.seed, columns
    exposure = None if candidate.exposure is None else exposure_params(candidate.exposure, *shared)
    return outcome_params(candidate.outcome, *shared), exposure


def _quiet(stage: str, iteration: int, objective: float) -> None:
    """Nobody follows a single one of many fits."""
