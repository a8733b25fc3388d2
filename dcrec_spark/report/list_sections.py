"""What users get to see, and what it cost: sample users, coverage, timings, how the run was made."""

import json
from collections.abc import Mapping

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
from dcrec_spark.report.words import CATALOGUE, number


def samples(facts: ReportFacts) -> Section:
    """A few users' recommendations, with the parts of each score."""
    name, title = "samples", "Sample users"
    if not facts.samples:
        return Section(name, title, [Note("No users were asked for: evaluation.sample_users = 0.")])
    told = (
        "Chosen by a hash of the seed, so always the same. Score = preference + confounder + "
        f"{number(facts.intercept)}. Items are unseen ones. Below a title: the user's own ratings that carry the "
        "preference most, and what each adds."
    )
    blocks: list[Block] = [Text(told)]
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
    """How much of the catalogue anybody gets to see."""
    found = facts.metrics.estimates
    of_lists = found[found.measure.str.startswith(f"{CATALOGUE}coverage")]
    measures = list(dict.fromkeys(of_lists.measure))
    shares = of_lists.pivot_table(index="model", columns="measure", values="value", sort=False)
    names = [model.name for model in facts.models if model.name in shares.index]
    rows = [cells(name, *(f"{100 * float(shares.loc[name, measure]):.1f} %" for measure in measures)) for name in names]
    head = ["", *(f"first {measure.partition('@')[2]} places" for measure in measures)]
    table = Table("Share of the catalogue that is in somebody's list", head, rows)
    shown = picture(
        figures.powers(facts.listed, f"lists (first {facts.k} places) that an item is in, from", "items"),
        "listed",
        "Lists that each item is in",
        f"The items of {facts.models[0].name}'s catalogue. At 0 are those that nobody gets to see, on the far right "
        "those that are shown to the most users.",
    )
    return Section("coverage", "Catalogue coverage", [table, Pictures([shown])])


def timings(facts: ReportFacts) -> Section:
    """Seconds of each step."""
    blocks: list[Block] = [_seconds("This run, before the report was written", facts.timings)]
    if facts.fit_timings:
        blocks.append(_seconds("The run that fitted the model", facts.fit_timings))
    return Section("timings", "Timings", blocks)


def _seconds(caption: str, timings: Mapping[str, float]) -> Table:
    return Table(caption, ["step", "seconds"], [cells(step, f"{seconds:,.1f}") for step, seconds in timings.items()])


def limits(facts: ReportFacts) -> Section:
    """What none of this can show."""
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
    """Versions and settings, for whoever wants to do it again."""
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    settings = json.dumps(facts.configuration, indent=2, ensure_ascii=False)
    return Section(
        "making", "How this was made", [Text(f"Run {facts.run_id}. {versions}."), Folded("All settings", settings)]
    )
