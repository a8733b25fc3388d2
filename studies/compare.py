"""One comparison: every row tuned on the validation part, then fitted with it too, and measured on the test part.

Choices are made by validation NDCG, as in the paper, and a second time by validation MSE, for the two often differ.
Validation is made of pairs that users came across; weighted by the inverse of their propensity to, its MSE is closer to
that of random pairs, and may choose as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import structlog
from pyspark.sql import SparkSession

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import Measure, MetricSettings
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.strata import bounds_of
from dcrec_spark.local.data import Parts
from dcrec_spark.local.trial import Bench, Trial, weights_of
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from studies.baselines import ALS_ROW, ALS_SETTINGS, baselines, mllib_als
from studies.datasets import REGULAR, REWEIGHTED
from studies.rows import AnyRow, Budget, trial

_log = structlog.get_logger()
SHOWN = ("ndcg", "recall@5", "mse", "mae", "item_mse", "item_mae")
SIGNS = {"ndcg": -1.0, "mse": 1.0, "weighted_mse": 1.0}  # times the metric: smallest is best
CHOICES = ("ndcg", "mse")
_TRAIN, _VALIDATION, _TEST = "train", "validation", "test"
# Where new users make the test, those of the validation are new to its fits too.
_FOLD_IN = {_VALIDATION: "validation_fold_in", _TEST: "fold_in"}
_MOST_STRATA = 3
Advance = Callable[[int], None]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What is compared on which data.

    parts : train, validation, test, and, for users that a fit does not know, validation_fold_in and fold_in: their
    ratings that are given. als_settings : rank and regParam, among which MLlib's ALS chooses. by_strata : whether there
    are figures of users, and of items, with few and many ratings.
    """

    parts: Parts
    rows: Sequence[AnyRow]
    budget: Budget
    seed: int
    replications: int = 200
    with_als: bool = True
    als_settings: Sequence[tuple[int, float]] = tuple(ALS_SETTINGS)
    by_strata: bool = True
    choices: Sequence[str] = CHOICES

    @property
    def tests(self) -> tuple[str, ...]:
        """Parts that take no part in choosing and fitting."""
        return tuple(name for name in (_TEST, REGULAR) if name in self.parts.of)

    @cached_property
    def weights(self) -> Array | None:
        """Of the validation's pairs, (n,), mean 1; None where no choice asks for them."""
        return inverse_propensities(self.parts, _VALIDATION) if "weighted_mse" in self.choices else None

    def validated(self, scores: Array) -> dict[str, float]:
        """Return what validation says of these scores, by each metric that may choose."""
        found = self.parts.evaluate(_VALIDATION, {"it": scores}, MetricSettings(replications=0)).as_dict()
        if self.weights is not None:
            found["weighted_mse"] = float(np.mean(self.weights * (scores - self.parts.of[_VALIDATION]["rating"]) ** 2))
        return found


def inverse_propensities(parts: Parts, part: str) -> Array:
    """Weights of the pairs of a part, (n,), by an exposure model of the training pairs, rank 5; mean 1."""
    weights = weights_of(parts, part, _TRAIN, PoissonFactorization(rank=5, seed=0))
    return np.asarray(weights / weights.mean())


def compare(spark: SparkSession, of: Comparison, advance: Advance) -> Cell:
    """row -> metrics by each choice, as plain numbers; see :func:`_figures`."""
    bench = Bench(spark, {"": of.parts})
    choices, chosen = _chosen(bench, of, advance)
    by_choice: dict[str, Any] = {}
    als = _als(spark, of)
    for choice in of.choices:
        trials = [_final(of, row, chosen[choice][row.name]) for row in of.rows]
        predictions = _predicted(bench, of, trials, advance)
        for part, scores in als[choice].items() if als else ():
            predictions[part][ALS_ROW] = scores
        figures = _figures(of.parts.evaluate(_TEST, predictions[_TEST], _judged(of)))
        by_choice[choice] = {"metrics": figures, "groups": _groups(of, predictions)}
    test = {"test": len(of.parts.of[_TEST]["user"]), "items": len(np.unique(of.parts.of[_TEST]["item"]))}
    return {"seed": of.seed, **test, "items_missing": of.parts.items_lost(_TEST), "choices": choices, **by_choice}


def _predicted(bench: Bench, of: Comparison, trials: Sequence[Trial], advance: Advance) -> dict[str, dict[str, Array]]:
    """Test -> row -> scores of its pairs: of these trials, and of the rows that need no tuning."""
    predictions: dict[str, dict[str, Array]] = {test: {} for test in of.tests}
    for row, fitted in zip(of.rows, bench.run(trials), strict=True):
        for test in of.tests:
            predictions[test][row.name] = fitted.scores[test]
        advance(1)
    return {
        test: {**scores, **baselines(of.parts, _fitted_parts(of), test, of.seed)}
        for test, scores in predictions.items()
    }


def stopped_early(
    spark: SparkSession, of: Comparison, chosen: Mapping[str, Any], sweeps: Sequence[int], advance: Advance
) -> Cell:
    """sweeps -> row -> metrics of the chosen settings after so many sweeps of stage 2, of the test part."""
    bench, by_sweeps = Bench(spark, {"": of.parts}), {}
    for most in sweeps:
        trials = []
        for row in of.rows:
            outcome, exposure = chosen[row.name]["settings"]
            trials.append(_final(of, row, ({**outcome, "maxIter": most, "tol": 0.0 if most < 10 else 1e-4}, exposure)))
        predictions = {}
        for row, fitted in zip(of.rows, bench.run(trials), strict=True):
            predictions[row.name] = fitted.scores[_TEST]
            advance(1)
        by_sweeps[str(most)] = _figures(of.parts.evaluate(_TEST, predictions, _judged(of)))
    return by_sweeps


def _chosen(bench: Bench, of: Comparison, advance: Advance) -> tuple[Cell, dict[str, dict[str, Any]]]:
    """Return what validation says of each row's best sample of settings by each choice, and these samples by row.

    Rows that follow another one come after it: they take the settings that the first choice has made for that one.
    """
    best: dict[str, dict[str, Any]] = {choice: {} for choice in of.choices}
    validated: dict[str, dict[str, float]] = {choice: {} for choice in of.choices}
    chosen, waiting = best[of.choices[0]], list(of.rows)
    while ready := [row for row in waiting if row.follows is None or row.follows in chosen]:
        waiting = [row for row in waiting if row not in ready]
        samples = [
            (row, sample)
            for row in ready
            for sample in row.settings(of.budget, of.seed, chosen[row.follows] if row.follows else None)
        ]
        for (row, sample), metrics in _validated(bench, of, samples, advance):
            for choice in of.choices:
                sign = SIGNS[choice]
                if row.name not in best[choice] or sign * metrics[choice] < sign * validated[choice][row.name]:
                    best[choice][row.name], validated[choice][row.name] = sample, metrics[choice]
    choices = {
        choice: {name: {"validation": validated[choice][name], "settings": sample} for name, sample in of_rows.items()}
        for choice, of_rows in best.items()
    }
    return choices, best


def _validated(
    bench: Bench, of: Comparison, samples: Sequence[tuple[AnyRow, Any]], advance: Advance
) -> Iterator[tuple[tuple[AnyRow, Any], dict[str, float]]]:
    """Fit each sample to the training part, and measure it on the validation's."""
    given = _given(of, _VALIDATION)
    trials = [trial(row, sample, fit=(_TRAIN,), predict=(_VALIDATION,), fold_in=given) for row, sample in samples]
    for (row, sample), fitted in zip(samples, bench.attempt(trials), strict=True):
        advance(1)
        if isinstance(fitted, FitError):  # settings with which no fit is possible are no choice
            _log.warning("a draw has failed", row=row.name, error=str(fitted))
            continue
        yield (row, sample), of.validated(fitted.scores[_VALIDATION])


def _final(of: Comparison, row: AnyRow, sample: Any) -> Trial:
    """Make the trial of the chosen settings, fitted to all but the test."""
    return trial(row, sample, fit=_fitted_parts(of), predict=of.tests, fold_in=_given(of, _TEST))


def _given(of: Comparison, part: str) -> str:
    """Name the ratings by which the users of a part are folded in; empty where fits know them."""
    return _FOLD_IN[part] if _FOLD_IN[part] in of.parts.of else ""


def _fitted_parts(of: Comparison) -> tuple[str, ...]:
    """All but the test, and what is given of its users."""
    return tuple(name for name in (_TRAIN, _VALIDATION, _FOLD_IN[_VALIDATION]) if name in of.parts.of)


def _als(spark: SparkSession, of: Comparison) -> dict[str, dict[str, Array]]:
    """Choice -> test -> scores of MLlib's ALS with the settings that it chooses; empty where ALS takes no part."""
    if not of.with_als or _given(of, _TEST):  # it knows no new users
        return {}
    measured = [
        of.validated(mllib_als(spark, of.parts, (_TRAIN,), _VALIDATION, candidate, of.seed))
        for candidate in of.als_settings
    ]
    best = {c: of.als_settings[int(np.argmin([SIGNS[c] * m[c] for m in measured]))] for c in of.choices}
    both = (_TRAIN, _VALIDATION)
    fitted = {
        b: {test: mllib_als(spark, of.parts, both, test, b, of.seed) for test in of.tests} for b in set(best.values())
    }
    return {choice: fitted[b] for choice, b in best.items()}


def _judged(of: Comparison) -> MetricSettings:
    return MetricSettings(ks=(5,), replications=of.replications)


def _figures(metrics: Metrics) -> dict[str, dict[str, Any]]:
    """row -> metric -> the value, then its value in each bootstrap replication: rows share their replications."""
    return {
        row: {name: np.round(scores[Measure.parse(name)].resampled, 6).tolist() for name in SHOWN}
        for row, scores in metrics.scores.items()
    }


def _groups(of: Comparison, predictions: Mapping[str, Mapping[str, Array]]) -> dict[str, Any]:
    """Figures of parts of the test, and of further tests."""
    strata = _strata(of, predictions[_TEST]) if of.by_strata else {}
    return strata | (_interventions(of, predictions[REGULAR]) if REGULAR in of.tests else {})


def _interventions(of: Comparison, predictions: Mapping[str, Array]) -> dict[str, Any]:
    """Figures of the pairs that users chose: as they chose, and as if each item were come across as often as any."""
    popularity = np.bincount(of.parts.ratings(*_fitted_parts(of)).item, minlength=len(of.parts.item_key))
    weight = 1 / np.maximum(popularity[of.parts.of[REGULAR]["item"]], 1)
    tests = {REGULAR: of.parts, REWEIGHTED: of.parts.with_weights(REGULAR, weight)}
    return {
        name: {"metrics": _figures(parts.evaluate(REGULAR, predictions, _judged(of)))} for name, parts in tests.items()
    }


def _strata(of: Comparison, predictions: Mapping[str, Array]) -> dict[str, Any]:
    """Figures of the test's users by their number of training ratings, and of its items by theirs."""
    pairs, groups = of.parts.of[_TEST], {}
    known = of.parts.ratings(*_fitted_parts(of))
    given = of.parts.ratings(_given(of, _TEST)) if _given(of, _TEST) else known
    for side, training in (("user", given.user), ("item", known.item)):
        size = len(of.parts.user_key if side == "user" else of.parts.item_key)
        ratings = np.bincount(training, minlength=size)[pairs[side]]
        count, members = np.unique(ratings[np.unique(pairs[side], return_index=True)[1]], return_counts=True)
        for number, (lowest, highest) in enumerate(bounds_of(count, members, _MOST_STRATA)):
            chosen = (ratings >= lowest) & (ratings <= highest)
            of_group = {column: values[chosen] for column, values in pairs.items()}
            parts = replace(of.parts, of={_TEST: of_group})
            metrics = parts.evaluate(_TEST, {row: scores[chosen] for row, scores in predictions.items()}, _judged(of))
            groups[f"{side}-{number}"] = {"ratings": [lowest, highest], "metrics": _figures(metrics)}
    return groups
