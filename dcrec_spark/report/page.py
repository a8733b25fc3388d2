"""The HTML page of a report: one file that loads nothing.

The words are in ``templates/report.html.j2``. This module formats numbers and judges intervals.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from dcrec_spark.evaluation.distributions import Histogram
from dcrec_spark.evaluation.measures import COMPOSITION, Measure, MeasureKind, MetricSettings
from dcrec_spark.evaluation.result import Estimate
from dcrec_spark.evaluation.strata import Stratum
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.plots import panels

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
BETTER, WORSE, NONE, UNKNOWN = "better", "worse", "no difference shown", "no interval"
_LABELS = {MeasureKind.NDCG: "NDCG", MeasureKind.MAP: "MAP", MeasureKind.MSE: "MSE", MeasureKind.MAE: "MAE"}
_LABELS |= {MeasureKind.ITEM_MSE: "MSE per item", MeasureKind.ITEM_MAE: "MAE per item"}
_LABELS |= {
    MeasureKind.HIT_RATING: "Mean rating of hits",
    MeasureKind.RARE_SHARE: "Places with fewer than 5 ratings",
    MeasureKind.RAREST_SHARE: "Places with fewer than 3 ratings",
    MeasureKind.LARGEST_SHARE: "Lists with the most listed item",
    MeasureKind.POPULARITY: "Popularity compared with the training's",
}
_NDCG, _MSE = Measure(MeasureKind.NDCG), Measure(MeasureKind.MSE)


class PartFacts(NamedTuple):
    """One set of ratings: training or test."""

    users: int
    items: int
    ratings: Histogram


class Stage(NamedTuple):
    """Objective of one stage of the fit after each iteration."""

    name: str
    objective: str
    values: Sequence[float]
    tol: float
    max_iter: int

    @property
    def changes(self) -> list[float]:
        """Relative change by each iteration but the first. At least 1e-16, for a logarithmic axis."""
        pairs = zip(self.values, self.values[1:], strict=False)
        return [max(abs(new - old) / abs(old), 1e-16) for old, new in pairs]

    @property
    def converged(self) -> bool:
        """Whether the last iteration changed the objective by less than the tolerance."""
        return len(self.values) > 1 and self.changes[-1] < self.tol


class CertaintyFacts(NamedTuple):
    """Uncertainty of the lists."""

    coverage: float  # nominal, of the intervals
    widths: Histogram  # of the intervals of all listed items
    extrapolating: float | None  # share of the listed items. None without an exposure model
    odds: Sequence[float]  # quartiles over users of the odds ratio that would change the first item
    few: float | None  # share of users with an effective number of ratings below 5. None without exposures


@dataclass(frozen=True)
class ReportFacts:
    """All that a report shows."""

    record: Mapping[str, Any]  # run.json of the evaluation, as it is so far
    models: Mapping[str, str]  # name -> description; the first is evaluated, the others are compared with it
    intercept: float  # of the evaluated model
    unrated_are_zeros: bool  # whether predictions are scores below the rating scale
    problems: Sequence[str]  # sentences that a reader has to see first
    training: PartFacts
    test: PartFacts  # those that were used
    per_user: pd.DataFrame  # low, high, n: how many users have how many training ratings
    per_item: pd.DataFrame  # the same of items
    stages: Sequence[Stage]
    check: PredictiveCheck | str  # or a sentence on why there is none
    p_values: Sequence[int]  # users in each of equal bins of the p-value
    settings: MetricSettings  # variants of the metrics, and the bootstrap
    estimates: Mapping[str, Mapping[str, Estimate]]  # model -> measure -> estimate
    differences: Mapping[str, Mapping[str, Estimate]]  # evaluated model minus the named one
    # With differences of the model from the one it is compared with. Or a sentence on why there are none.
    strata: Sequence[tuple[Stratum, Mapping[str, Estimate]]] | str
    certainty: CertaintyFacts | str  # or a sentence on why there is none
    gamma: Histogram | None  # confounder weights of the users. None without a confounder
    negative_gammas: int  # how many of them are below 0
    samples: Mapping[str, Sequence[Any]]  # user -> rows: rank, title, score, preference, confounder, reasons_text
    no_reasons: str  # why the samples have no reasons; empty where they have some
    k: int  # the longest cut
    listed: pd.DataFrame  # low, high, n: in how many users' first k places an item is
    fit_timings: Mapping[str, float]  # seconds by step of the run that fitted the model


def render(facts: ReportFacts) -> str:
    """Render the page as HTML.

    Every text is escaped, whatever it contains. Only figures are markup. The content security policy of the page
    forbids it to load anything or to run scripts.
    """
    model, described = next(iter(facts.models.items()))
    of_lists = Measure(MeasureKind.NDCG, facts.k, over_catalogue=True)
    loader = PackageLoader("dcrec_spark.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "signed": signed, "share": share, "interval": interval, "label": label}
    environment.globals |= {"verdict": verdict, "convergence_of": convergence_of, "figures": panels}
    environment.globals |= {"estimated": draw_estimates, "in_strata": draw_strata}
    return environment.get_template("report.html.j2").render(
        facts=facts,
        model=model,
        title=f"Evaluation: {described}, {date.fromisoformat(facts.record['run_date']):%-d %B %Y}",
        problems=problems(facts),
        groups=measure_groups(facts.estimates),
        differing=[m for m in _measures(facts.differences) if Measure.parse(m).kind not in COMPOSITION],
        shown=[m for m in (_NDCG, of_lists, _MSE) if m in _measures(facts.estimates)],
        covered=[m for m in _measures(facts.estimates) if Measure.parse(m).kind is MeasureKind.COVERAGE],
        DASH=DASH,
    )


def label(name: str) -> str:
    """Heading for a measure."""
    measure = Measure.parse(name)
    cut = "" if measure.k is None else f"@{measure.k}"
    return _LABELS.get(measure.kind, measure.kind.capitalize()) + cut


def number(value: float | None, digits: int = 3) -> str:
    """Format a number: decimals for small ones, thousands separators for large ones, a dash for undefined ones."""
    if value is None or math.isnan(value):
        return DASH
    if abs(value) >= 100:
        return f"{value:,.{0 if abs(value) >= 10_000 else 1}f}".replace("-", MINUS)
    return f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float) -> str:
    """Format a number with its sign."""
    return f"+{number(value)}" if value >= 0 else number(value)


def share(value: float) -> str:
    """Format a share in per cent."""
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def interval(estimate: Estimate) -> str:
    """Format both ends of an interval. Empty where there is none."""
    _, low, high, _ = estimate
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def verdict(measure: str, difference: Estimate) -> str:
    """Judge a difference by its interval. Where 0 lies inside, no difference is shown."""
    _, low, high, _ = difference
    if low is None or high is None:
        return UNKNOWN
    if low <= 0 <= high:
        return NONE
    return BETTER if (low > 0) != Measure.parse(measure).is_small_good else WORSE


def convergence_of(stage: Stage) -> str:
    """Say in a sentence whether a fit converged."""
    head = f"{stage.name.capitalize()} stage: {len(stage.values)} iterations"
    if len(stage.values) < 2:
        return f"{head}, too few to judge convergence."
    if stage.converged:
        return f"{head}. Converged: the last relative change is {stage.changes[-1]:.1e}, tol is {stage.tol:g}."
    return (
        f"{head}. NOT converged: the last relative change is {stage.changes[-1]:.1e}, above tol = {stage.tol:g} "
        f"(max_iter = {stage.max_iter})."
    )


def problems(facts: ReportFacts) -> list[str]:
    """Sentences that a reader has to see first: a failed check, a fit that did not converge, what the runs warn of."""
    failed = [convergence_of(stage) for stage in facts.stages if not stage.converged]
    if isinstance(facts.check, PredictiveCheck) and not facts.check.passed:
        failed.insert(0, f"Exposure predictive check FAILED (p = {facts.check.pValue:.3f}): {facts.check.verdict}.")
    return [*failed, *facts.problems]


def _measures(estimates: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    return list(dict.fromkeys(measure for of_model in estimates.values() for measure in of_model))


def measure_groups(estimates: Mapping[str, Mapping[str, Estimate]]) -> dict[str, list[Measure]]:
    """Measures by the caption of their table: rankings of test items, lists from the whole catalogue, errors."""
    parsed = [Measure.parse(name) for name in _measures(estimates)]
    others = (MeasureKind.COVERAGE, *COMPOSITION)
    ranked = [measure for measure in parsed if measure.kind not in others and not measure.is_error]
    groups = {
        "Ranking of each user's test items": [m for m in ranked if not m.over_catalogue],
        "Lists of unseen items from the whole catalogue": [m for m in ranked if m.over_catalogue],
        "What these lists consist of": [m for m in parsed if m.kind in COMPOSITION],
        "Errors of predicted ratings (smaller is better)": [m for m in parsed if m.is_error],
    }
    return {caption: measures for caption, measures in groups.items() if measures}


# A figure, its title, and a sentence on how to read it.
Picture = tuple[Figure, str, str]


def draw_estimates(facts: ReportFacts, measure: str) -> Picture:
    """Draw a measure of all models."""
    rows = {name: of[measure] for name, of in facts.estimates.items() if measure in of}
    parsed = Measure.parse(measure)
    name = f"{label(measure)} over the catalogue" if parsed.over_catalogue else label(measure)
    side = "left" if parsed.is_error else "right"
    return panels.plot_forest(rows, name), name, f"Value and interval. Further {side} is better."


def draw_strata(facts: ReportFacts, name: str) -> Picture:
    """Draw the differences of a measure by stratum."""
    measure = Measure.parse(name)
    strata = [] if isinstance(facts.strata, str) else facts.strata
    rows = {f"{of.side}s, {of.numbers}": found[measure] for of, found in strata if measure in found}
    model, other = list(facts.models)[:2]
    title, side = f"{label(measure)}: {model} minus {other}", "Left" if measure.is_error else "Right"
    return (panels.plot_forest(rows, title, zero=True), title, f"{side} of the line the model is better.")
