"""Metrics with their intervals, and differences between models on the same resamples."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.kernels.bootstrap import percentile_interval
from dcrec_spark.publish import schemas

_FEWEST_FOR_INTERVAL = 2


class Estimate(NamedTuple):
    """A value, the interval around it (None where there is none), and the number of units that it averages over."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n: int


class Score(NamedTuple):
    """A metric of one model.

    resampled : (1 + replications,) the value, then the value in each replication; NaN where it is undefined. (1,)
        where nothing was resampled.
    n : users, ratings, items or catalogue items that it averages over.
    units : users or items that were resampled.
    """

    resampled: NDArray[np.float64]
    n: int
    units: int

    def estimate(self, confidence: float) -> Estimate:
        """With the bootstrap's percentile interval; of one unit, or without replications, there is none."""
        interval = None
        if self.units >= _FEWEST_FOR_INTERVAL:
            interval = percentile_interval(self.resampled[1:], confidence)
        low, high = interval or (None, None)
        return Estimate(float(self.resampled[0]), low, high, self.n)


@dataclass(frozen=True)
class Metrics:
    """What an evaluation found.

    scores : model -> measure (``ndcg``, ``recall@5``, ...) -> Score.
    counts : of the input: ``rows``, ``users`` with test ratings, and ``dropped`` rows or ``users_without_list``.
    """

    settings: MetricSettings
    scores: Mapping[str, Mapping[str, Score]]
    counts: Mapping[str, int]

    def estimates(self, model: str | None = None) -> dict[str, Estimate]:
        """measure -> value, interval and n, of the one model or the one that is named."""
        scores = self.scores[self._model(model)]
        return {measure: score.estimate(self.settings.confidence) for measure, score in scores.items()}

    def as_dict(self, model: str | None = None) -> dict[str, float]:
        """measure -> value, of the one model or the one that is named."""
        return {measure: estimate.value for measure, estimate in self.estimates(model).items()}

    def table(self, spark: SparkSession, run_id: str, split: str) -> DataFrame:
        """The published table ``metrics``: a row for each model and measure, each with its variant in its name."""
        rows = [
            (run_id, model, split, self.settings.variant(measure), *estimate)
            for model in self.scores
            for measure, estimate in self.estimates(model).items()
        ]
        return spark.createDataFrame(rows, schemas.METRICS)

    def joined(self, other: "Metrics") -> "Metrics":
        """The models of both, to be compared.

        Raises
        ------
        ConfigError : the settings differ, or a model is in both.
        """
        if self.settings != other.settings:
            raise ConfigError(f"metrics of different settings: found {other.settings}, expected {self.settings}")
        twice = sorted(self.scores.keys() & other.scores.keys())
        if twice:
            raise ConfigError(f"model {twice[0]!r} is in both evaluations: give each a name of its own")
        return replace(self, scores={**self.scores, **other.scores})

    def difference(self, model: str, baseline: str) -> "Metrics":
        """``model`` minus ``baseline``, with intervals of the paired differences: both met the same resamples.

        Of coverage, which averages over no test ratings, the difference of the two shares, whatever the catalogues.

        Raises
        ------
        DataError : the two do not average over equally many units, so they were not given the same test ratings.
        """
        one, other = self.scores[self._model(model)], self.scores[self._model(baseline)]
        scores = {}
        for measure in (measure for measure in one if measure in other):
            mine, theirs = one[measure], other[measure]
            if mine.n != theirs.n and (mine.units or theirs.units):
                raise DataError(
                    f"{measure}: {model!r} has n={mine.n} and {baseline!r} n={theirs.n}: a paired difference needs the "
                    "same test ratings for both; join_predictions keeps them together"
                )
            scores[measure] = Score(mine.resampled - theirs.resampled, mine.n, mine.units)
        return replace(self, scores={f"{model} - {baseline}": scores})

    def _model(self, name: str | None) -> str:
        if name is None and len(self.scores) == 1:
            return next(iter(self.scores))
        if name is None or name not in self.scores:
            raise ConfigError(f"model: found {name!r}, expected one of {', '.join(map(repr, self.scores))}")
        return name
