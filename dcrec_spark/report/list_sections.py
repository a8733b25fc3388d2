"""Lists that users get to see, and what they cost: sample users, coverage, timings, how the run was made."""

import json
from collections.abc import Mapping

from dcrec_spark.evaluation.measures import Measure
from dcrec_spark.report import figures
from dcrec_spark.report.blocks import (
    Block,
    Cell,
    Folded,
    Heading,
    Note,
    Pictures,
    Points,
    Section,
    Table,
    Text,
    cells,
    picture,
)
from dcrec_spark.report.facts import ReportFacts, SampleUser, rows_of
from dcrec_spark.report.fit_sections import one_bar
from dcrec_spark.report.result_sections import is_coverage
from dcrec_spark.report.words import number


def samples(facts: ReportFacts) -> Section:
    """Show a few users' recommendations, with the parts of each score."""
    name, title = "samples", "Sample users"
    if not facts.samples:
        return Section(name, title, [Note("No users were asked for: evaluation.sample_users = 0.")])
    how_to_read = (
        "Users are chosen by a hash of the seed, so always the same ones. Score = preference + confounder + "
        f"{number(facts.intercept)}, the intercept. Items are those that the user has not rated. Below a title stand "
        "the ratings of this user that carry the preference most, and what each adds."
    )
    blocks: list[Block] = [Text(how_to_read)]
    for sample in facts.samples:
        blocks += [Heading(f"User {sample.user}"), _list(sample)]
    return Section(name, title, blocks)


def _list(sample: SampleUser) -> Table:
    rows = [
        [
            Cell(str(row.rank)),
            *cells(str(row.title), number(row.score), number(row.preference), number(row.confounder)),
        ]
        for row in rows_of(sample.rows)
    ]
    head = ["", "item", "score", "preference", "confounder"]
    notes = ["" if row.reasons_text is None else str(row.reasons_text) for row in rows_of(sample.rows)]
    return Table("The best unseen items", head, rows, left=2, notes=notes)


def coverage(facts: ReportFacts) -> Section:
    """Share of the catalogue that anybody gets to see."""
    estimates = facts.metrics.estimates
    of_lists = estimates[[is_coverage(name) for name in estimates.measure]]
    measures = list(dict.fromkeys(of_lists.measure))
    shares = of_lists.pivot_table(index="model", columns="measure", values="value", sort=False)
    names = [model.name for model in facts.models if model.name in shares.index]
    rows = [cells(name, *(f"{100 * float(shares.loc[name, measure]):.1f} %" for measure in measures)) for name in names]
    head = ["", *(f"first {Measure.parse(name).k} places" for name in measures)]
    table = Table("Share of the catalogue that is in somebody's list", head, rows)
    return Section("coverage", "Catalogue coverage", [table, _listed(facts)])


def _listed(facts: ReportFacts) -> Block:
    """In how many lists the items are, as a picture, or in words where all are in equally many."""
    if figures.has_one_bar(facts.listed):
        return Text(one_bar(facts.listed, "items", f"lists (first {facts.k} places) that they are in"))
    shown = picture(
        figures.powers(facts.listed, f"lists (first {facts.k} places) that an item is in, from", "items"),
        "listed",
        "Lists that each item is in",
        f"The items of {facts.models[0].name}'s catalogue. At 0 are those that nobody gets to see, on the far right "
        "those that are shown to the most users.",
    )
    return Pictures([shown])


def timings(facts: ReportFacts) -> Section:
    """Seconds of each step."""
    blocks: list[Block] = [_seconds("This run, before the report was written", facts.timings)]
    if facts.fit_timings:
        blocks.append(_seconds("The run that fitted the model", facts.fit_timings))
    return Section("timings", "Timings", blocks)


def _seconds(caption: str, timings: Mapping[str, float]) -> Table:
    return Table(caption, ["step", "seconds"], [cells(step, f"{seconds:,.1f}") for step, seconds in timings.items()])


def limits(facts: ReportFacts) -> Section:
    """Limits of what the page can show."""
    points = [
        "The substitute confounder catches what drives many exposures at once. Whatever touches a single item alone it "
        "can't see, and where the exposure model does not fit, it is no substitute.",
        "Test ratings that users chose to give are confounded too: a model may do well on them by knowing who sees "
        "what. Only ratings of items drawn at random say what users think of what they would not have chosen.",
        "Lists from the whole catalogue are judged by the few items that have test ratings; an item without one counts "
        "as a miss, however good it is.",
        "Intervals are about other users, or other items. They say nothing about another fit or another split.",
    ]
    return Section("limits", "What this can't say", [Points(points)])


def making(facts: ReportFacts) -> Section:
    """Versions and settings, to repeat the run."""
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    settings = json.dumps(facts.configuration, indent=2, ensure_ascii=False)
    return Section("making", "How this was made", [Text(f"{versions}."), Folded("All settings", settings)])
