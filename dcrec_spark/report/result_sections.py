"""Results: metrics, reliability of predictions, the weight of the confounder, changes of the ranking."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dcrec_spark.evaluation.measures import Kind, Measure
from dcrec_spark.evaluation.ranking_change import RankingChange
from dcrec_spark.report import figures
from dcrec_spark.report.blocks import (
    Block,
    Cell,
    Heading,
    Note,
    Picture,
    Pictures,
    Points,
    Section,
    Table,
    Text,
    cells,
    picture,
    tone_of,
)
from dcrec_spark.report.facts import ChangeFacts, ReportFacts, rows_of
from dcrec_spark.report.words import (
    BETTER,
    DASH,
    MINUS,
    NONE,
    UNKNOWN,
    WORSE,
    full_label,
    interval,
    label,
    number,
    plural,
    share,
    signed,
    verdict,
)

# (model, measure) -> a row with value, low, high, n.
Rows = dict[tuple[str, str], Any]
_TEST_ITEMS = "Ranking of each user's test items, means over users"
_CATALOGUE = "Lists of unseen items from the whole catalogue, means over users"
_ERRORS = "Errors of the predicted ratings (smaller is better)"


def is_coverage(name: str) -> bool:
    """Whether a measure is the share of the catalogue in somebody's list."""
    return Measure.parse(name).kind is Kind.COVERAGE


def headlines(facts: ReportFacts) -> list[str]:
    """Measures that are shown first: of test items, of lists from the catalogue, of errors."""
    measured = list(dict.fromkeys(facts.metrics.estimates.measure))
    wanted = [Measure(Kind.NDCG), Measure(Kind.NDCG, facts.k, over_catalogue=True), Measure(Kind.MSE)]
    return [measure for measure in wanted if measure in measured]


def in_short(facts: ReportFacts) -> list[str]:
    """Sentence for each of the headlines: the value, and which other models it beats."""
    return [_compared(facts, measure) for measure in headlines(facts)]


def _compared(facts: ReportFacts, measure: str) -> str:
    row = _by_model_and_measure(facts.metrics.estimates)[facts.models[0].name, measure]
    between = interval(row.low, row.high)
    text = f"{full_label(measure)} {number(row.value)}{f' ({between})' if between else ''}"
    differences = facts.metrics.differences[facts.metrics.differences.measure == measure]
    by: dict[str, list[str]] = {}
    for other in rows_of(differences):
        by.setdefault(verdict(measure, other.low, other.high), []).append(str(other.model))
    words = {
        BETTER: "better than",
        WORSE: "worse than",
        NONE: "no difference shown from",
        UNKNOWN: "without intervals not compared with",
    }
    comparisons = [f"{words[kind]} {_and(names)}" for kind, names in by.items()]
    return f"{text}: {'; '.join(comparisons)}." if comparisons else f"{text}."


def _by_model_and_measure(estimates: pd.DataFrame) -> Rows:
    return {(row.model, row.measure): row for row in rows_of(estimates)}


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def metrics(facts: ReportFacts) -> Section:
    """All measures of all models, and the differences from the first."""
    names = [name for name in dict.fromkeys(facts.metrics.estimates.measure) if not is_coverage(name)]
    groups: dict[str, list[str]] = {_TEST_ITEMS: [], _CATALOGUE: [], _ERRORS: []}
    for name in names:
        groups[_group(Measure.parse(name))].append(name)
    who = [[Cell(model.name), Cell(model.what), Cell(model.version or DASH)] for model in facts.models]
    blocks: list[Block] = [
        Table("What is compared", ["", "what it is", "version"], who, left=3),
        Text(_how(facts)),
        Pictures([_forest(facts, measure) for measure in headlines(facts)]),
    ]
    blocks += [_estimates(facts, caption, group) for caption, group in groups.items() if group]
    blocks += [Heading("Paired differences"), Text(_reading(facts))]
    tables = [_differences(facts, caption, group) for caption, group in groups.items()]
    blocks += [table for table in tables if table.rows]
    return Section("metrics", "Metrics", [*blocks, Heading("What is measured"), Points(_definitions(facts))])


def _group(measure: Measure) -> str:
    if measure.is_error:
        return _ERRORS
    return _CATALOGUE if measure.over_catalogue else _TEST_ITEMS


def _how(facts: ReportFacts) -> str:
    of = facts.metrics
    if not of.replications:
        return "Nothing was resampled (evaluation.bootstrap = 0): without intervals no difference can be shown."
    return (
        f"Intervals hold {share(of.confidence)} of {of.replications} bootstrap resamples of users and items. All "
        "models met the same test ratings and the same resamples. Items of equal scores share their places."
    )


def _definitions(facts: ReportFacts) -> list[str]:
    of = facts.metrics
    return [
        "NDCG is 1 where the items that a user rates highest stand first, and less the further down they stand. "
        f"A rating is worth {of.gain}.",
        "Recall, Precision and MAP ask which of the first k items are relevant: those with a test rating of "
        f"{of.relevance:g} or more.",
        "MSE and MAE are of predictions as they are, not clipped to the scale; those per item are means over "
        f"{plural(facts.data.test.items, 'item')} of each item's mean. {_missing(facts)}",
        "The published table metrics has every number, with how many users, ratings or items it averages over.",
    ]


def _missing(facts: ReportFacts) -> str:
    missing = facts.data.items_missing
    if not missing:
        return "No item of the test is missing."
    are = "is" if missing == 1 else "are"
    return f"{plural(missing, 'more item')} of the test {are} missing there, without a rating that could be predicted."


def _forest(facts: ReportFacts, measure: str) -> Picture:
    rows = figures.headline(facts.metrics.estimates, measure, [m.name for m in facts.models])
    side = "Further left is better." if Measure.parse(measure).is_error else "Further right is better."
    return picture(
        figures.forest(rows, full_label(measure)),
        f"forest-{measure.replace('@', '-')}",
        full_label(measure),
        f"A dot is the value, a line its interval. {side} Intervals of two models that differ may overlap: see the "
        "table of paired differences.",
    )


def _estimates(facts: ReportFacts, caption: str, measures: Sequence[str]) -> Table:
    estimates = _by_model_and_measure(facts.metrics.estimates)
    rows = [
        [Cell(model.name), *(_estimate(estimates.get((model.name, measure))) for measure in measures)]
        for model in facts.models
        if any((model.name, measure) in estimates for measure in measures)
    ]
    return Table(caption, ["", *(label(measure) for measure in measures)], rows)


def _estimate(row: Any) -> Cell:
    return Cell(DASH) if row is None else Cell(number(row.value), interval(row.low, row.high))


def _reading(facts: ReportFacts) -> str:
    n = len(facts.metrics.differences)
    return (
        f"Each is {facts.models[0].name} minus the other, with the interval of the paired difference. Where 0 lies "
        f"inside, no difference is shown. Were there none at all, {share(1 - facts.metrics.confidence)} of these {n} "
        "intervals or so would still miss 0: a single one proves little."
    )


def _differences(facts: ReportFacts, caption: str, measures: Sequence[str]) -> Table:
    differences = _by_model_and_measure(facts.metrics.differences)
    others = [m.name for m in facts.models[1:] if any((m.name, measure) in differences for measure in measures)]
    rows = [
        [Cell(label(measure)), *(_difference(measure, differences.get((other, measure))) for other in others)]
        for measure in measures
        if any((other, measure) in differences for other in others)
    ]
    return Table(caption, ["", *(f"from {other}" for other in others)], rows)


def _difference(measure: str, row: Any) -> Cell:
    if row is None:
        return Cell(DASH)
    result, between = verdict(measure, row.low, row.high), interval(row.low, row.high)
    return Cell(signed(row.value), f"{between}; {result}" if between else result, tone_of(result))


def reliability(facts: ReportFacts) -> Section:
    """Whether a predicted rating is what the user then gives."""
    binned = facts.reliability
    rows = [
        cells(number(b.prediction, 2), number(b.rating, 2), number(b.deviation, 2), f"{b.n:,}")
        for b in rows_of(binned.bins)
    ]
    table = Table("Test ratings by prediction", ["mean prediction", "mean rating", "deviation", "ratings"], rows)
    blocks: list[Block] = [Points(_reliability_points(facts)), table]
    if len(rows) > 1:
        shown = picture(
            figures.reliability(binned),
            "reliability",
            "Reliability of predictions",
            "On the dashed line predictions are right on average. Below it ratings turn out lower than predicted. "
            "Larger dots stand for more ratings.",
        )
        blocks.insert(1, Pictures([shown]))
    return Section("reliability", "Reliability of predictions", blocks)


def _reliability_points(facts: ReportFacts) -> list[str]:
    slope, bias = facts.reliability.slope, facts.reliability.bias
    points = [
        f"On average predictions are {number(abs(bias), 2)} {'above' if bias > 0 else 'below'} the test ratings.",
        "All predictions are the same, so nothing can be said about their order."
        if math.isnan(slope)
        else f"Where predictions differ by 1, ratings differ by {number(slope, 2)} on average; 1 would be ideal, less "
        "means that predictions are too extreme, more that they are too cautious.",
    ]
    if facts.unrated_are_zeros:
        points.append(
            f"The outcome model is {facts.outcome}: unrated pairs count as 0 in its fit, so its predictions are scores "
            "below the scale of the ratings, made to rank, and not to be read as ratings."
        )
    return points


def gamma(facts: ReportFacts) -> Section:
    """Weight of the confounder: how much each user's ratings go with the exposure."""
    name, title = "gamma", "Gamma: the weight of the confounder"
    if facts.adjustment != "deconfounded":
        reason = (
            "weighs ratings by inverse propensities instead" if facts.adjustment == "ipw" else "adjusts for nothing"
        )
        return Section(name, title, [Note(f"This model has no gamma: it {reason} (adjustment = {facts.adjustment}).")])
    meaning = (
        "Gamma times a_hat, the substitute confounder, is the confounder part of a score. Above 0, items that a user "
        "was likely to be exposed to get better ratings than the user's preference explains; near 0, the adjustment "
        "does nothing."
    )
    values = facts.gamma.values
    if values is None:
        return Section(name, title, [Text(meaning), Note(f"One gamma for all users: {number(facts.gamma.common)}.")])
    if figures.has_one_bar(values.bars):
        same = f"Gamma is {number(values.mean)} for each of {plural(values.n, 'user')}."
        return Section(name, title, [Text(meaning), Note(same)])
    points = [
        f"Mean {number(values.mean)}, standard deviation {number(values.deviation)}, from {number(values.lowest)} to "
        f"{number(values.highest)}, of {plural(values.n, 'user')}.",
        f"{plural(facts.gamma.negative, 'user')} ({share(facts.gamma.negative / values.n)}) below 0.",
    ]
    zero = " The line marks 0: no adjustment." if values.lowest < 0 < values.highest else ""
    shown = picture(
        figures.distribution(values, "gamma", "users", zero=True),
        "gamma",
        "Gamma of each user",
        f"Each bar counts users.{zero}",
    )
    return Section(name, title, [Text(meaning), Points(points), Pictures([shown])])


def change(facts: ReportFacts) -> Section:
    """Users whose recommendations become others, and items that gain or lose by it."""
    name, title = "change", "Where deconfounding changes the ranking"
    if not isinstance(facts.change, ChangeFacts):
        return Section(name, title, [Note(facts.change)])
    change, before, after = facts.change.change, facts.change.before, facts.models[0].name
    unchanged = int(change.replaced.users[change.replaced.replaced == 0].sum())
    old, new = change.popularity
    points = [
        f"{share(1 - change.kept)} of the items in the first {change.k} places of {after} are not in those of {before} "
        f"({plural(change.users, 'user')}).",
        f"{plural(unchanged, 'user')} ({share(unchanged / change.users)}) keep all of their items.",
        f"A listed item has {number(new, 1)} training ratings on average, with {before} {number(old, 1)}.",
    ]
    blocks: list[Block] = [
        Text(_what_changes(facts)),
        Points(points),
        Pictures(_change_pictures(change, before, after)),
    ]
    return Section(name, title, [*blocks, _movers(facts.change, after)])


def _change_pictures(change: RankingChange, before: str, after: str) -> list[Picture]:
    return [
        picture(
            figures.replaced(change),
            "replaced",
            "New items for each user",
            f"How many of a user's first {change.k} items are not among the first {change.k} of {before}. All users at "
            "0 would mean that nothing changes.",
        ),
        picture(
            figures.moves(change),
            "moves",
            "Places gained and lost",
            f"Of the items listed by {after}: where they stood with {before}. At 0 they stand where they stood. "
            f"Beyond: not among the first {change.depth} there.",
        ),
    ]


def _movers(facts: ChangeFacts, after: str) -> Block:
    rows = []
    for item in rows_of(facts.change.items):
        title = facts.titles.get(item.item_id, str(item.item_id))
        gained = f"{item.after - item.before:+,}".replace("-", MINUS)
        rows.append(cells(title, f"{item.before:,}", f"{item.after:,}", gained, f"{item.ratings:,}"))
    if not rows:
        return Note("No item gains or loses a place.")
    head = ["item", f"lists of {facts.before}", f"lists of {after}", "change", "training ratings"]
    return Table(f"Items that gain and lose the most places among the first {facts.change.k}", head, rows)


def _what_changes(facts: ReportFacts) -> str:
    if isinstance(facts.change, ChangeFacts) and facts.change.before == facts.models[1].name:
        what = facts.models[1].what
        return f"Lists of unseen items by {facts.models[0].name}, compared with those of {facts.change.before}: {what}."
    raise AssertionError("the ranking that is compared with is the second model")
