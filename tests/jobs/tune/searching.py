"""Searches without Spark: candidates by their settings, and fits that are a formula."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dcrec_spark.config import TuneConfig, load_config
from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.result import Metrics, Score
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.jobs.tune.candidates import Candidate
from dcrec_spark.jobs.tune.entry import Outcome
from dcrec_spark.jobs.tune.fits import Attempt

SETTINGS = MetricSettings(replications=3)


def config(*overrides: str, search: str = "grid") -> TuneConfig:
    return load_config(TuneConfig, None, [f"tuning.search={search}", *(f"tuning.{text}" for text in overrides)])


def outcome(value: float, noise: Sequence[float] = (0.0, 0.01, -0.01)) -> Outcome:
    score = Score(np.array([value, *(value + one for one in noise)]), 10, 10)
    return Outcome(Metrics(SETTINGS, {"prediction": {"ndcg": score, "mse": score}}, {}), 7, 0.5)


@dataclass
class Formula:
    """Fits that come to what a formula says; a FitError in place of a value is one."""

    value: Callable[[Candidate], float | FitError]
    wave: int = 2
    fitted: list[Candidate] = field(default_factory=list)
    stop_after: int | None = None

    def run(self, candidates: Sequence[Candidate], last: bool) -> Iterator[Attempt]:
        for candidate in candidates:
            if len(self.fitted) == self.stop_after:
                raise KeyboardInterrupt("stopped by SIGTERM")
            self.fitted.append(candidate)
            found = self.value(candidate)
            yield candidate, found if isinstance(found, FitError) else outcome(found)

    def close(self) -> None:
        """Nothing to let go of."""
