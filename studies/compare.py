"""One comparison: every row tuned on the validation part, then fitted with it too, and measured on the test part.

Choices are made by validation NDCG, as in the paper, and a second time by validation MSE, because the two often differ.
Validation is made of pairs that users chose. Weighted by the inverse of their exposure propensity, its MSE is closer to
that of random pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import structlog
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import Measure, MetricSettings
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.evaluation.strata import bounds_of
from dcrec_spark.local.data import Parts
from dcrec_spark.local.trial import Bench, weights_of
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from studies.datasets import REGULAR, REWEIGHTED
from studies.rows import Budget, Row, Sample
from studies.units import Cell

_log = structlog.get_logger()
SHOWN = ("ndcg", "recall@5", "mse", "mae", "item_mse", "item_mae")
SIGNS = {"ndcg": -1.0, "mse": 1.0, "weighted_mse": 1.0}  # times the metric: smallest is best
CHOICES = ("ndcg", "mse")
ALS_ROW = "mllib-als"
ALS_SETTINGS = tuple((rank, reg) for rank in (5, 20) for reg in (0.03, 0.1, 0.3))
_ALS_SWEEPS, _MOST_STRATA = 15, 3
_TRAIN, _VALIDATION, _TEST = "train", "validation", "test"
# With new users as the test, those of the validation are new to its fits too.
_FOLD_IN = {_VALIDATION: "validation_fold_in", _TEST: "fold_in"}


@dataclass(frozen=True)
class Comparison:
    """Data, rows, and how they are tuned.

    parts : train, validation, test, and, for users that a fit does not know, validation_fold_in and fold_in: their
    ratings that are given. als_settings : rank and regParam, among which MLlib's ALS chooses. by_strata : whether there
    are figures of users, and of items, with few and many ratings.
    """

    parts: Parts
    rows: Sequence[Row]
    budget: Budget
    seed: int
    replications: int = 200
    with_als: bool = True
    als_settings: Sequence[tuple[int, float]] = ALS_SETTINGS
    by_strata: bool = True
    choices: Sequence[str] = CHOICES

    @property
    def tests(self) -> tuple[str, ...]:
        """Parts that take no part in choosing and fitting."""
        return tuple(name for name in (_TEST, REGULAR) if name in self.parts.of)

    @property
    def fitted(self) -> tuple[str, ...]:
        """Parts of the final fits: all but the test, and what is given of its users."""
        return tuple(name for name in (_TRAIN, _VALIDATION, _FOLD_IN[_VALIDATION]) if name in self.parts.of)

    def given(self, part: str) -> str:
        """Name the ratings by which the users of a part are folded in; empty where fits know them."""
        return _FOLD_IN[part] if _FOLD_IN[part] in self.parts.of else ""

    @cached_property
    def weights(self) -> Array | None:
        """Of the validation's pairs, (n,), mean 1; None where no choice asks for them."""
        return inverse_propensities(self.parts, _VALIDATION) if "weighted_mse" in self.choices else None

    def validate(self, scores: Array) -> dict[str, float]:
        """Measure scores of the validation's pairs, by each metric that may choose."""
        found = self.parts.evaluate(_VALIDATION, {"it": scores}, MetricSettings(replications=0)).as_dict()
        if self.weights is not None:
            found["weighted_mse"] = float(np.mean(self.weights * (scores - self.parts.of[_VALIDATION]["rating"]) ** 2))
        return found

    def measure(self, parts: Parts, test: str, predictions: Mapping[str, Array]) -> Cell:
        """Row -> metric -> the value, then that of each bootstrap replication: rows share their replications."""
        settings = MetricSettings(ks=(5,), replications=self.replications)
        metrics: Metrics = parts.evaluate(test, predictions, settings)
        return {
            row: {name: np.round(scores[Measure.parse(name)].resampled, 6).tolist() for name in SHOWN}
            for row, scores in metrics.scores.items()
        }


def inverse_propensities(parts: Parts, part: str) -> Array:
    """Weights of the pairs of a part, (n,), by an exposure model of the training pairs, rank 5; mean 1."""
    weights = weights_of(parts, part, _TRAIN, PoissonFactorization(rank=5, seed=0))
    return np.asarray(weights / weights.mean())


def compare(spark: SparkSession, of: Comparison) -> Cell:
    """Compare: choice -> "metrics" and "groups" -> row -> metric, as plain numbers."""
    bench = Bench(spark, {"": of.parts})
    best = _choose(bench, of)
    chosen = {
        choice: {name: {"validation": value, "settings": sample} for name, (value, sample) in found.items()}
        for choice, found in best.items()
    }
    als, by_choice = _als(spark, of), {}
    for choice in of.choices:
        samples = {name: sample for name, (_, sample) in best[choice].items()}
        trials = [
            row.trial(samples[row.name], fit=of.fitted, predict=of.tests, fold_in=of.given(_TEST)) for row in of.rows
        ]
        fits = list(bench.run(trials))
        predictions = {
            test: {row.name: fit.scores[test] for row, fit in zip(of.rows, fits, strict=True)}
            | als.get(choice, {}).get(test, {})
            | baselines(of.parts, of.fitted, test, of.seed)
            for test in of.tests
        }
        figures = of.measure(of.parts, _TEST, predictions[_TEST])
        by_choice[choice] = {"metrics": figures, "groups": _groups(of, predictions)}
    test = {"test": len(of.parts.of[_TEST]["user"]), "items": len(np.unique(of.parts.of[_TEST]["item"]))}
    return {"seed": of.seed, **test, "items_missing": of.parts.items_lost(_TEST), "choices": chosen, **by_choice}


def _choose(bench: Bench, of: Comparison) -> dict[str, dict[str, tuple[float, Sample]]]:
    """Choice -> row -> its best value on the validation part, and the settings.

    Rows that follow another one come after it: they take the settings that the first choice has made for that one.
    """
    best: dict[str, dict[str, tuple[float, Sample]]] = {choice: {} for choice in of.choices}
    chosen, waiting = best[of.choices[0]], list(of.rows)
    while ready := [row for row in waiting if row.follows is None or row.follows in chosen]:
        waiting = [row for row in waiting if row not in ready]
        samples = [
            (row, sample)
            for row in ready
            for sample in row.draw(of.budget, of.seed, chosen[row.follows][1] if row.follows else None)
        ]
        for row, sample, metrics in _validated(bench, of, samples):
            for choice in of.choices:
                sign, name = SIGNS[choice], row.name
                if name not in best[choice] or sign * metrics[choice] < sign * best[choice][name][0]:
                    best[choice][name] = metrics[choice], sample
    return best


def _validated(
    bench: Bench, of: Comparison, samples: Sequence[tuple[Row, Sample]]
) -> Iterator[tuple[Row, Sample, dict[str, float]]]:
    """Fit each sample to the training part, and measure it on the validation's."""
    parts: Any = {"fit": (_TRAIN,), "predict": (_VALIDATION,), "fold_in": of.given(_VALIDATION)}
    trials = [row.trial(sample, **parts) for row, sample in samples]
    for (row, sample), fitted in zip(samples, bench.attempt(trials), strict=True):
        if isinstance(fitted, FitError):  # settings with which no fit is possible are no choice
            _log.warning("a draw has failed", row=row.name, error=str(fitted))
            continue
        yield row, sample, of.validate(fitted.scores[_VALIDATION])


def baselines(parts: Parts, fit: tuple[str, ...], predict: str, seed: int) -> dict[str, Array]:
    """Row -> scores of the pairs to predict, (n,). Popularity, a number of ratings, has no errors worth reading."""
    known, pairs = parts.ratings(*fit), parts.of[predict]
    count = np.bincount(known.item, minlength=len(parts.item_key)).astype(np.float64)
    total = np.bincount(known.item, known.rating, minlength=len(parts.item_key))
    mean, n = known.rating.mean(), len(pairs["item"])
    item_mean = np.divide(total, count, out=np.full(len(count), mean), where=count > 0)
    return {
        "random": np.random.default_rng(seed).uniform(known.rating.min(), known.rating.max(), n),
        "global-mean": np.full(n, mean),
        "item-mean": item_mean[pairs["item"]],
        "popularity": count[pairs["item"]],
    }


def _als(spark: SparkSession, of: Comparison) -> dict[str, dict[str, dict[str, Array]]]:
    """Choice -> test -> scores of MLlib's ALS with the settings that it chooses; empty where ALS takes no part."""
    if not of.with_als or of.given(_TEST):  # it knows no new users
        return {}
    measured = [
        of.validate(mllib_als(spark, of, (_TRAIN,), (_VALIDATION,), candidate)[_VALIDATION])
        for candidate in of.als_settings
    ]
    best = {c: of.als_settings[int(np.argmin([SIGNS[c] * m[c] for m in measured]))] for c in of.choices}
    fitted = {b: mllib_als(spark, of, (_TRAIN, _VALIDATION), of.tests, b) for b in set(best.values())}
    return {choice: {test: {ALS_ROW: fitted[b][test]} for test in of.tests} for choice, b in best.items()}


def mllib_als(
    spark: SparkSession, of: Comparison, fit: tuple[str, ...], predict: tuple[str, ...], settings: tuple[int, float]
) -> dict[str, Array]:
    """Part -> scores of MLlib's ALS with explicit ratings, (n,). settings : rank and regParam."""
    rank, reg = settings
    known = of.parts.ratings(*fit)
    train = _frame(spark, {"user": known.user, "item": known.item, "rating": known.rating})
    als = ALS(userCol="user", itemCol="item", ratingCol="rating", rank=rank, regParam=reg, maxIter=_ALS_SWEEPS)
    scores = {}
    with TemporaryDirectory() as scratch:
        spark.sparkContext.setCheckpointDir(scratch)  # without checkpoints its lineage can overflow the JVM's stack
        model = als.setSeed(of.seed).fit(train)
        for part in predict:
            pairs = {**of.parts.of[part], "place": np.arange(len(of.parts.of[part]["user"]))}
            scored = model.transform(_frame(spark, pairs)).select("place", "prediction").toArrow().sort_by("place")
            scores[part] = np.asarray(scored["prediction"].to_numpy(), np.float64)
    return scores


def _frame(spark: SparkSession, columns: Mapping[str, Array]) -> DataFrame:
    narrow = {n: c.astype(np.int32) if n in ("user", "item") else c for n, c in columns.items()}
    return spark.createDataFrame(pa.table(narrow))


def _groups(of: Comparison, predictions: Mapping[str, Mapping[str, Array]]) -> Cell:
    """Figures of parts of the test, and of further tests."""
    strata = _strata(of, predictions[_TEST]) if of.by_strata else {}
    return strata | (_interventions(of, predictions[REGULAR]) if REGULAR in of.tests else {})


def _interventions(of: Comparison, predictions: Mapping[str, Array]) -> Cell:
    """Figures of the pairs that users chose: as they chose, and as if exposure to each item were equal."""
    popularity = np.bincount(of.parts.ratings(*of.fitted).item, minlength=len(of.parts.item_key))
    weight = 1 / np.maximum(popularity[of.parts.of[REGULAR]["item"]], 1)
    tests = {REGULAR: of.parts, REWEIGHTED: of.parts.with_weights(REGULAR, weight)}
    return {name: {"metrics": of.measure(parts, REGULAR, predictions)} for name, parts in tests.items()}


def _strata(of: Comparison, predictions: Mapping[str, Array]) -> Cell:
    """Figures of the test's users by their number of training ratings, and of its items by theirs."""
    pairs, groups = of.parts.of[_TEST], {}
    known = of.parts.ratings(*of.fitted)
    given = of.parts.ratings(of.given(_TEST)) if of.given(_TEST) else known
    for side, training in (("user", given.user), ("item", known.item)):
        size = len(of.parts.user_key if side == "user" else of.parts.item_key)
        ratings = np.bincount(training, minlength=size)[pairs[side]]
        count, members = np.unique(ratings[np.unique(pairs[side], return_index=True)[1]], return_counts=True)
        for number, (lowest, highest) in enumerate(bounds_of(count, members, _MOST_STRATA)):
            chosen = (ratings >= lowest) & (ratings <= highest)
            parts = replace(of.parts, of={_TEST: {column: values[chosen] for column, values in pairs.items()}})
            figures = of.measure(parts, _TEST, {row: scores[chosen] for row, scores in predictions.items()})
            groups[f"{side}-{number}"] = {"ratings": [lowest, highest], "metrics": figures}
    return groups
