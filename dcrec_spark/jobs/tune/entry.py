"""One row of the trials table: a candidate in one round, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import Measure
from dcrec_spark.evaluation.result import Metrics, Score
from dcrec_spark.jobs.tune.candidates import Candidate, as_json

DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Outcome:
    """What came of a fit: metrics of the ratings held out, sweeps, and seconds of stage 2."""

    metrics: Metrics
    sweeps: int
    seconds: float


@dataclass(frozen=True)
class Place:
    """Where a trial belongs: its search (a fingerprint of data, split and metric), run, round, and the metric."""

    search: str
    run_id: str
    rung: int
    metric: str


@dataclass(frozen=True)
class Entry:
    """The columns of dcrec_spark.publish.schemas.TRIALS."""

    search: str
    key: str
    run_id: str
    trial: int
    rung: int
    max_iter: int
    parameters: str
    exposure: str
    status: str
    error: str | None
    metric: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    resampled: list[float]
    metrics: Mapping[str, float]
    sweeps: int | None
    seconds: float | None

    @classmethod
    def of(cls, candidate: Candidate, place: Place, result: Outcome | FitError) -> "Entry":
        """Make the row of a trial that has just ended."""
        which: dict[str, Any] = {
            "search": place.search,
            "key": candidate.key(place.search),
            "run_id": place.run_id,
            "trial": candidate.number,
            "rung": place.rung,
            "max_iter": candidate.outcome.max_iter,
            "parameters": as_json(candidate.parameters),
            "exposure": as_json(candidate.exposure_parameters),
            "metric": place.metric,
        }
        return cls(**which, **(_failed(result) if isinstance(result, FitError) else _done(result, place.metric)))

    @property
    def done(self) -> bool:
        """Whether it has a value."""
        return self.status == DONE

    def score(self) -> Score:
        """Return the chosen metric with its resamples, for paired differences with other trials of the search."""
        return Score(np.array(self.resampled), self.n or 0, self.n or 0)


def _done(result: Outcome, metric: str) -> dict[str, Any]:
    estimates = result.metrics.estimates()
    chosen = estimates[metric]
    (scores,) = result.metrics.scores.values()
    return {
        "status": DONE,
        "error": None,
        "value": chosen.value,
        "ci_low": chosen.ci_low,
        "ci_high": chosen.ci_high,
        "n": chosen.n,
        "resampled": scores[Measure.parse(metric)].resampled.tolist(),
        "metrics": {name: estimate.value for name, estimate in estimates.items() if not np.isnan(estimate.value)},
        "sweeps": result.sweeps,
        "seconds": result.seconds,
    }


def _failed(error: FitError) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(("value", "ci_low", "ci_high", "n", "sweeps", "seconds"))
    return {"status": FAILED, "error": str(error), "resampled": [], "metrics": {}, **nothing}
