"""Whom the model serves: its differences from another model among users, and items, with few and many ratings."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dcrec_spark.evaluation.measures import Kind, Measure
from dcrec_spark.report import figures
from dcrec_spark.report.blocks import Block, Cell, Note, Picture, Pictures, Section, Table, Text, picture, tone_of
from dcrec_spark.report.facts import ReportFacts, StrataFacts, rows_of
from dcrec_spark.report.words import DASH, interval, label, plural, share, signed, verdict

# More columns than these are wider than a page.
_SHOWN = (Measure(Kind.NDCG), Measure(Kind.MSE))
_CAPTIONS = {"user": "Users by their training ratings", "item": "Items by their training ratings"}


def strata(facts: ReportFacts) -> Section:
    """Whether the model gains where ratings are few, or where they are many."""
    name, title, measured = "strata", "Whom it serves: by activity and by popularity", facts.strata
    if not isinstance(measured, StrataFacts):
        return Section(name, title, [Note(measured)])
    there = set(measured.differences.measure)
    measures = [measure for measure in _SHOWN if measure in there]
    blocks: list[Block] = [
        Text(_reading(facts, measured, measures)),
        Pictures([_forest(measured, measure) for measure in measures]),
    ]
    tables = [_table(measured.differences, side, measures) for side in _CAPTIONS]
    return Section(name, title, [*blocks, *tables])


def _reading(facts: ReportFacts, measured: StrataFacts, measures: Sequence[str]) -> str:
    of_shown = measured.differences[measured.differences.measure.isin(measures)]
    return (
        f"Each is {facts.models[0].name} minus {measured.other}, for the test ratings of some users, or of some items, "
        "with the interval of the paired difference, and with n, how many users (NDCG) or ratings (errors) it averages "
        "over. Among items, the list of a user holds his test items of the stratum alone. Of "
        f"{plural(len(of_shown), 'difference')} {share(1 - facts.metrics.confidence)} or so would miss 0 if there were "
        "none at all. All measures are in the table metrics, with the stratum in the column split."
    )


def _table(differences: pd.DataFrame, side: str, measures: Sequence[str]) -> Table:
    of_side = differences[differences.side == side]
    rows = []
    for (ratings, members), of in of_side.groupby(["ratings", "members"], sort=False):
        by_measure = {row.measure: row for row in rows_of(of)}
        shown = [_cell(measure, by_measure.get(measure)) for measure in measures]
        rows.append([Cell(str(ratings)), Cell(f"{members:,}"), *shown])
    return Table(_CAPTIONS[side], ["training ratings", f"{side}s", *map(label, measures)], rows)


def _cell(measure: str, row: Any) -> Cell:
    if row is None:
        return Cell(DASH)
    result = verdict(measure, row.low, row.high)
    said = [interval(row.low, row.high), result, f"n = {row.n:,}"]
    return Cell(signed(row.value), "; ".join(filter(None, said)), tone_of(result))


def _forest(measured: StrataFacts, measure: Measure) -> Picture:
    rows = measured.differences[measured.differences.measure == measure]
    rows = rows.assign(model=rows.side + "s, " + rows.ratings)
    side = "Left of the line the model errs less." if measure.is_error else "Right of the line the model ranks better."
    what = f"{label(measure)} minus that of {measured.other}"
    return picture(
        figures.forest(rows, what, zero=True),
        f"strata-{measure}",
        f"{what}, by training ratings",
        f"A dot is the difference, a line its interval, the long line no difference. {side}",
    )
