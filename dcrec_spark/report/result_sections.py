"""How good the model is, and what the adjustment does: metrics, reliability, gamma, changes of the ranking."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

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
    CATALOGUE,
    DASH,
    ERRORS,
    MINUS,
    NONE,
    WORSE,
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
_COVERAGE = f"{CATALOGUE}coverage"


def headlines(facts: ReportFacts) -> list[str]:
    """The measures that are shown first: of test items, of lists from the catalogue, of errors."""
    found = list(dict.fromkeys(facts.metrics.estimates.measure))
    wanted = ["ndcg", f"{CATALOGUE}ndcg@{facts.k}", "mse"]
    return [measure for measure in wanted if measure in found]


def in_short(facts: ReportFacts) -> list[str]:
    """A sentence for each of the headlines: the value, and whom it beats."""
    return [_compared(facts, measure) for measure in headlines(facts)]


def _compared(facts: ReportFacts, measure: str) -> str:
    row = _by_model_and_measure(facts.metrics.estimates)[facts.models[0].name, measure]
    between = interval(row.low, row.high)
    text = f"{full_label(measure)} {number(row.value)}{f' ({between})' if between else ''}"
    differences = facts.metrics.differences[facts.metrics.differences.measure == measure]
    by: dict[str, list[str]] = {}
    for other in rows_of(differences):
        by.setdefault(verdict(measure, other.low, other.high), []).append(str(other.model))
    words = {BETTER: "better than", WORSE: "worse than", NONE: "no difference shown from", "no interval": "beside"}
    told = [f"{words[kind]} {_and(names)}" for kind, names in by.items()]
    return f"{text}: {'; '.join(told)}." if told else f"{text}."


def _by_model_and_measure(estimates: pd.DataFrame) -> Rows:
    return {(row.model, row.measure): row for row in rows_of(estimates)}


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def full_label(measure: str) -> str:
    """With what the lists are drawn from."""
    return f"{label(measure)} over the catalogue" if measure.startswith(CATALOGUE) else label(measure)


def metrics(facts: ReportFacts) -> Section:
    """All measures of all models, and the differences from the first."""
    found = facts.metrics
    measures = [m for m in dict.fromkeys(found.estimates.measure) if not m.startswith(_COVERAGE)]
    groups = {
        "Ranking of each user's test items, means over users": [
            m for m in measures if m not in ERRORS and not m.startswith(CATALOGUE)
        ],
        "Lists of unseen items from the whole catalogue, means over users": [
            m for m in measures if m.startswith(CATALOGUE)
        ],
        "Errors of the predicted ratings (smaller is better)": [m for m in measures if m in ERRORS],
    }
    who = [[Cell(m.name), Cell(m.what), Cell(m.version or DASH, m.path or "")] for m in facts.models]
    blocks: list[Block] = [
        Table("What is compared", ["", "what it is", "version"], who, left=3),
        Text(_how(facts)),
        Pictures([_forest(facts, measure) for measure in headlines(facts)]),
    ]
    blocks += [_estimates(facts, caption, group) for caption, group in groups.items() if group]
    blocks += [Heading("Paired differences"), Text(_reading(facts))]
    tables = [_differences(facts, caption, group) for caption, group in groups.items()]
    blocks += [table for table in tables if table.rows]
    return Section("metrics", "Metrics", [*blocks, Text(_variants(facts))])


def _how(facts: ReportFacts) -> str:
    found = facts.metrics
    if not found.replications:
        return "Nothing was resampled (evaluation.bootstrap = 0): without intervals no difference can be shown."
    return (
        f"Intervals hold {share(found.confidence)} of {found.replications} bootstrap resamples of users (errors per "
        "item: of items). All rows met the same test ratings and the same resamples."
    )


def _variants(facts: ReportFacts) -> str:
    found = facts.metrics
    return (
        f"A rating is worth {found.gain} in NDCG. An item is relevant, for Recall, Precision and MAP, from a rating of "
        f"{found.relevance:g} on. Errors are of predictions as they are, not clipped to the scale; those per item are "
        "means of each item's own. The table of metrics beside this report has every number, with how many users, "
        "ratings or items it averages over."
    )


def _forest(facts: ReportFacts, measure: str) -> Picture:
    rows = figures.headline(facts.metrics.estimates, measure, [m.name for m in facts.models])
    side = "Further left is better." if measure in ERRORS else "Further right is better."
    return picture(
        figures.forest(rows, full_label(measure)),
        f"forest-{measure.replace('@', '-')}",
        full_label(measure),
        f"A dot is the value, a line its interval. {side} Whether two differ is told by the table of differences: "
        "their intervals may overlap and still do.",
    )


def _estimates(facts: ReportFacts, caption: str, measures: Sequence[str]) -> Table:
    found = _by_model_and_measure(facts.metrics.estimates)
    rows = []
    for model in [m.name for m in facts.models]:
        if not any((model, measure) in found for measure in measures):
            continue
        rows.append([Cell(model), *(_estimate(found, model, measure) for measure in measures)])
    return Table(caption, ["", *(label(measure) for measure in measures)], rows)


def _estimate(found: Rows, model: str, measure: str) -> Cell:
    if (model, measure) not in found:
        return Cell(DASH)
    row = found[model, measure]
    return Cell(number(row.value), interval(row.low, row.high))


def _reading(facts: ReportFacts) -> str:
    n = len(facts.metrics.differences)
    return (
        f"Each is {facts.models[0].name} minus the other, with the interval of the paired difference. Where 0 lies "
        f"inside, no difference is shown. Were there none at all, {share(1 - facts.metrics.confidence)} of these {n} "
        "intervals or so would still miss 0: a single one proves little."
    )


def _differences(facts: ReportFacts, caption: str, measures: Sequence[str]) -> Table:
    found = _by_model_and_measure(facts.metrics.differences)
    others = [m.name for m in facts.models[1:] if any((m.name, measure) in found for measure in measures)]
    rows = [
        [Cell(label(measure)), *(_difference(found, other, measure) for other in others)]
        for measure in measures
        if others
    ]
    return Table(caption, ["", *(f"from {other}" for other in others)], rows)


def _difference(found: Rows, other: str, measure: str) -> Cell:
    if (other, measure) not in found:
        return Cell(DASH)
    row = found[other, measure]
    said = verdict(measure, row.low, row.high)
    between = interval(row.low, row.high)
    return Cell(signed(row.value), f"{between}; {said}" if between else said, tone_of(said))


def reliability(facts: ReportFacts) -> Section:
    """Whether a predicted rating is what the user then gives."""
    found = facts.reliability
    points = [
        f"On average predictions are {number(abs(found.bias), 2)} "
        f"{'above' if found.bias > 0 else 'below'} the test ratings.",
        "All predictions are the same, so nothing can be said about their order."
        if math.isnan(found.slope)
        else f"Where predictions differ by 1, ratings differ by {number(found.slope, 2)} on average; 1 would be ideal, "
        "less means that predictions are too extreme, more that they are too cautious.",
    ]
    if facts.unrated_are_zeros:
        points.append(
            f"The outcome model is {facts.outcome}: unrated pairs count as 0 in its fit, so its predictions are scores "
            "below the scale of the ratings, made to rank, and not to be read as ratings."
        )
    bins = found.bins
    rows = [
        cells(number(b.prediction, 2), number(b.rating, 2), number(b.deviation, 2), f"{b.n:,}") for b in rows_of(bins)
    ]
    shown = picture(
        figures.reliability(found),
        "reliability",
        "Reliability of predictions",
        "On the dashed line predictions are right on average. Below it ratings turn out lower than predicted. Larger "
        "dots stand for more ratings.",
    )
    table = Table("Test ratings by prediction", ["mean prediction", "mean rating", "its deviation", "ratings"], rows)
    return Section("reliability", "Reliability of predictions", [Points(points), Pictures([shown]), table])


def gamma(facts: ReportFacts) -> Section:
    """How much each user's ratings go with the exposure."""
    name, title = "gamma", "Gamma: the weight of the confounder"
    if facts.adjustment != "deconfounded":
        reason = (
            "weighs ratings by inverse propensities instead" if facts.adjustment == "ipw" else "adjusts for nothing"
        )
        return Section(name, title, [Note(f"This model has no gamma: it {reason} (adjustment = {facts.adjustment}).")])
    found = facts.gamma
    meaning = (
        "Gamma times the substitute confounder a_hat is the confounder part of a score. Above 0, items that a user was "
        "likely to be exposed to get better ratings than his preference explains; near 0, the adjustment does nothing."
    )
    if found.values is None:
        return Section(name, title, [Text(meaning), Note(f"One gamma for all users: {number(found.common)}.")])
    values = found.values
    points = [
        f"Mean {number(values.mean)}, standard deviation {number(values.deviation)}, from {number(values.lowest)} to "
        f"{number(values.highest)}, of {plural(values.n, 'user')}.",
        f"{plural(found.negative, 'user')} ({share(found.negative / values.n)}) below 0.",
    ]
    shown = picture(
        figures.distribution(values, "gamma", "users", zero=True),
        "gamma",
        "Gamma of each user",
        "Each bar counts users. Where there is a vertical line, it marks 0: no adjustment.",
    )
    return Section(name, title, [Text(meaning), Points(points), Pictures([shown])])


def change(facts: ReportFacts) -> Section:
    """Whose recommendations become others, and which items gain or lose by it."""
    name, title = "change", "Where deconfounding changes the ranking"
    if not isinstance(facts.change, ChangeFacts):
        return Section(name, title, [Note(facts.change)])
    found, before, after = facts.change.change, facts.change.before, facts.models[0].name
    unchanged = int(found.replaced.users[found.replaced.replaced == 0].sum())
    old, new = found.popularity
    points = [
        f"{share(1 - found.kept)} of the items in the first {found.k} places of {after} are not in those of {before} "
        f"({plural(found.users, 'user')}).",
        f"{plural(unchanged, 'user')} ({share(unchanged / found.users)}) keep all of their items.",
        f"A listed item has {number(new, 1)} training ratings on average, with {before} {number(old, 1)}.",
    ]
    pictures = [
        picture(
            figures.replaced(found),
            "replaced",
            "New items for each user",
            f"How many of a user's first {found.k} items are not among the first {found.k} of {before}. All users at 0 "
            "would mean that nothing changes.",
        ),
        picture(
            figures.moves(found),
            "moves",
            "Places gained and lost",
            f"Of the items listed by {after}: where they stood with {before}. At 0 they stand where they stood. "
            f"Beyond: not among the first {found.depth} there.",
        ),
    ]
    rows = []
    for item in rows_of(found.items):
        shown = facts.change.titles.get(item.item_id, str(item.item_id))
        gained = item.after - item.before
        rows.append(
            cells(shown, f"{item.before:,}", f"{item.after:,}", f"{gained:+,}".replace("-", MINUS), f"{item.ratings:,}")
        )
    head = ["item", f"lists of {before}", f"lists of {after}", "change", "training ratings"]
    table = Table(f"Items that gain and lose the most places among the first {found.k}", head, rows)
    blocks: list[Block] = [Text(_what_changes(facts)), Points(points), Pictures(pictures)]
    return Section(name, title, [*blocks, table if rows else Note("No item gains or loses a place.")])


def _what_changes(facts: ReportFacts) -> str:
    if isinstance(facts.change, ChangeFacts) and facts.change.before == facts.models[1].name:
        what = facts.models[1].what
        return f"Lists of unseen items by {facts.models[0].name}, compared with those of {facts.change.before}: {what}."
    raise AssertionError("the ranking that is compared with is the second model")
