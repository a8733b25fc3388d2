"""Metrics with their intervals, and differences between models on the same resamples."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.measures import Measure, MetricSettings
from dcrec_spark.kernels.bootstrap import percentile_interval

_FEWEST_FOR_INTERVAL = 2


class Estimate(NamedTuple):
    """Value of a metric, the interval around it (None where there is none), and the number of units averaged over."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n: int


class Score(NamedTuple):
    """A metric of one model.

    resampled : (1 + replications,) the value, then the value in each replication. NaN where it is undefined. (1,)
        where nothing was resampled.
    n : users, ratings, items or catalogue items that it averages over.
    units : users or items that were resampled.
    """

    resampled: NDArray[np.float64]
    n: int
    units: int

    def estimate(self, confidence: float) -> Estimate:
        """Value with the bootstrap's percentile interval. Of one unit, or without replications, there is none."""
        interval = None
        if self.units >= _FEWEST_FOR_INTERVAL:
            interval = percentile_interval(self.resampled[1:], confidence)
        low, high = interval or (None, None)
        return Estimate(float(self.resampled[0]), low, high, self.n)


@dataclass(frozen=True, repr=False)
class Metrics:
    """Measures of one or several models, with what their intervals are made of.

    settings : variants of the measures, and the bootstrap.
    scores : model -> measure -> score.
    counts : rows of the input, users with test ratings, and ``dropped`` rows or ``users_without_list``. Of predictions
        also the ``items`` with test ratings, and those of them that are ``items_missing`` from the metrics over items.

    Examples
    --------
    >>> import numpy as np
    >>> from dcrec_spark.evaluation.measures import MeasureKind, Measure
    >>> ndcg, none = Measure(MeasureKind.NDCG, 5), MetricSettings(replications=0)
    >>> scores = {name: {ndcg: Score(np.array([value]), 9, 9)} for name, value in (("new", 0.75), ("old", 0.5))}
    >>> metrics = Metrics(none, scores, {})
    >>> metrics.estimates("new")["ndcg@5"]
    Estimate(value=0.75, ci_low=None, ci_high=None, n=9)
    >>> metrics.difference("new", "old").as_dict()
    {'ndcg@5': 0.25}
    """

    settings: MetricSettings
    scores: Mapping[str, Mapping[Measure, Score]]
    counts: Mapping[str, int]

    def __repr__(self) -> str:
        """Show each model's measures with their intervals, a line each, as a notebook does."""
        lines = []
        for model, scores in self.scores.items():
            for measure, score in scores.items():
                value, low, high, n = score.estimate(self.settings.confidence)
                interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
                lines.append(f"{model}: {measure} {value:.4g}{interval}, n {n}")
        return "\n".join(lines)

    def estimates(self, model: str | None = None) -> dict[str, Estimate]:
        """Value, interval and n by measure, of the one model or the one that is named. Raises ConfigError: neither."""
        scores = self.scores[self._model(model)]
        return {str(measure): score.estimate(self.settings.confidence) for measure, score in scores.items()}

    def as_dict(self, model: str | None = None) -> dict[str, float]:
        """Value by measure, of the one model or the one that is named."""
        return {measure: estimate.value for measure, estimate in self.estimates(model).items()}

    def rows(self, split: str) -> list[tuple[object, ...]]:
        """Rows of the table of metrics: model, split, metric with its variant, value, ci_low, ci_high, n."""
        return [
            (model, split, self.settings.variant(measure), *score.estimate(self.settings.confidence))
            for model, scores in self.scores.items()
            for measure, score in scores.items()
        ]

    def join(self, other: "Metrics") -> "Metrics":
        """Models and measures of both evaluations.

        Raises ConfigError: their settings differ in more than the cuts, or a measure of a model is in both.
        """
        if self.settings != replace(other.settings, ks=self.settings.ks):
            raise ConfigError(f"metrics of different settings: found {other.settings}, expected {self.settings}")
        scores = dict(self.scores)
        for model, measures in other.scores.items():
            if scores.get(model, {}).keys() & measures.keys():
                raise ConfigError(f"model {model!r} is in both evaluations: give each a name of its own")
            scores[model] = {**scores.get(model, {}), **measures}
        return replace(self, scores=scores)

    def difference(self, model: str, baseline: str) -> "Metrics":
        """``model`` minus ``baseline``, with intervals of the paired differences: both met the same resamples.

        Of coverage, which averages over no test ratings, the difference of the two shares, whatever the catalogues.

        Raises DataError: the two do not average over equally many units, so they were not given the same test ratings.
        """
        first, second = self.scores[self._model(model)], self.scores[self._model(baseline)]
        scores = {}
        for measure in (measure for measure in first if measure in second):
            one, other = first[measure], second[measure]
            if one.n != other.n and (one.units or other.units):
                raise DataError(
                    f"{measure}: {model!r} has n={one.n} and {baseline!r} n={other.n}: a paired difference needs the "
                    "same test ratings for both; join_predictions keeps them together"
                )
            scores[measure] = Score(one.resampled - other.resampled, one.n, one.units)
        return replace(self, scores={f"{model} - {baseline}": scores})

    def _model(self, name: str | None) -> str:
        if name is None and len(self.scores) == 1:
            return next(iter(self.scores))
        if name is None or name not in self.scores:
            raise ConfigError(f"model: found {name!r}, expected one of {', '.join(map(repr, self.scores))}")
        return name
