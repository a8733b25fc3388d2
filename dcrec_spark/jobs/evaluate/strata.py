"""Whom the model serves better than its relative: differences among users, and items, with few and many ratings.

The relative is what the evaluation compares with first: the classical twin, or the second model that is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from dcrec_spark.evaluation.measures import Kind
from dcrec_spark.evaluation.result import Estimate, MetricRow, Metrics
from dcrec_spark.evaluation.settings import Columns, MetricSettings
from dcrec_spark.evaluation.strata import Stratum, evaluate_strata
from dcrec_spark.jobs.evaluate.comparison import MODEL, Comparison
from dcrec_spark.report.facts import StrataFacts


def measure_strata(
    predictions: DataFrame, comparison: Comparison, columns: Columns, settings: MetricSettings, most: int
) -> list[Stratum]:
    """Measure the model and its relative within strata; nothing where there is no relative, or ``most`` is 0.

    predictions : the test with a column for each model.
    """
    if not (most and comparison.relatives):
        return []
    models = {name: name for name in (MODEL, next(iter(comparison.relatives)))}
    strata = evaluate_strata(predictions, comparison.training, models, columns, settings, most)
    return [stratum._replace(metrics=_without_coverage(stratum.metrics)) for stratum in strata]


def _without_coverage(metrics: Metrics) -> Metrics:
    """Drop what is a share of all items, of which a stratum has a part."""
    scores = {
        name: {measure: score for measure, score in of.items() if measure.kind is not Kind.COVERAGE}
        for name, of in metrics.scores.items()
    }
    return replace(metrics, scores=scores)


def _difference(stratum: Stratum) -> Metrics:
    model, relative = stratum.metrics.scores
    return stratum.metrics.difference(model, relative)


def metric_rows(strata: Sequence[Stratum]) -> list[MetricRow]:
    """Rows of the table ``metrics``: of both models and their difference, with the stratum in ``split``."""
    return [
        row
        for stratum in strata
        for metrics in (stratum.metrics, _difference(stratum))
        for row in metrics.rows(f"test, {stratum.side}s with {stratum.numbers} training ratings")
    ]


def recorded(strata: Sequence[Stratum]) -> list[dict[str, Any]]:
    """Differences as ``run.json`` has them, of each stratum by measure; null where one is undefined."""
    return [
        {
            **{name: getattr(stratum, name) for name in ("side", "lowest", "highest", "members")},
            "models": list(stratum.metrics.scores),
            "differences": {measure: _recorded(estimate) for measure, estimate in _estimates(stratum)},
        }
        for stratum in strata
    ]


def _estimates(stratum: Stratum) -> Iterator[tuple[str, Estimate]]:
    yield from _difference(stratum).estimates().items()


def _recorded(estimate: Estimate) -> dict[str, float | None]:
    numbers = estimate._asdict().items()
    return {name: None if number is None or np.isnan(number) else number for name, number in numbers}


def strata_facts(comparison: Comparison, strata: Sequence[Stratum]) -> StrataFacts | str:
    """Differences as the report has them; a sentence where nothing was measured."""
    if not comparison.relatives:
        return "This model has no classical twin, and evaluation.compare_with names no other model to compare it with."
    if not strata:
        return "Not done: evaluation.strata is 0."
    rows = [
        (stratum.side, stratum.numbers, stratum.members, measure, *estimate)
        for stratum in strata
        for measure, estimate in _estimates(stratum)
    ]
    columns = ["side", "ratings", "members", "measure", "value", "low", "high", "n"]
    differences = pd.DataFrame(rows, columns=columns).astype({"value": float, "low": float, "high": float})
    return StrataFacts(next(iter(comparison.relatives)), differences)
