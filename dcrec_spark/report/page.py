"""The report: facts in, one HTML page out that needs nothing but itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jinja2 import Environment, PackageLoader, StrictUndefined

from dcrec_spark.report import (
    audit_section,
    certainty_section,
    fit_sections,
    list_sections,
    result_sections,
    strata_section,
)
from dcrec_spark.report.blocks import Block, Note, Points, Section
from dcrec_spark.report.facts import CheckFacts, ReportFacts
from dcrec_spark.report.paths import shortened, without_paths
from dcrec_spark.report.words import day, kind_of_model

_TEMPLATE = "report.html.j2"


def _portable(facts: ReportFacts) -> ReportFacts:
    """Return the facts without the folders of the machine that made them."""
    output = facts.configuration.get("output", {}).get("path")
    return replace(
        facts,
        configuration=without_paths(facts.configuration, output),
        warnings=[shortened(warning, output) for warning in facts.warnings],
    )


def title(facts: ReportFacts) -> str:
    """Say in words what was evaluated, and when."""
    return f"Evaluation: {kind_of_model(facts.outcome, facts.adjustment)}, {day(facts.run_date)}"


def ids(facts: ReportFacts) -> str:
    """Name the model and the run as tables and logs do."""
    version = facts.models[0].version
    return f"Run {facts.run_id}" if version is None else f"Model {version}, run {facts.run_id}"


def in_short(facts: ReportFacts) -> Section:
    """Say what a hurried reader should know."""
    test = facts.data.test
    points = [
        f"The model: {facts.models[0].what}.",
        f"It is judged by {test.ratings.n:,} held-out ratings of {test.users:,} users and {test.items:,} items.",
        *result_sections.in_short(facts),
    ]
    doubts = [fit_sections.settled(stage) for stage in facts.stages if not fit_sections.has_settled(stage)]
    points += [fit_sections.settled(stage) for stage in facts.stages if fit_sections.has_settled(stage)]
    if isinstance(facts.check, CheckFacts):
        of_check = points if facts.check.result.passed else doubts
        of_check.append(f"Exposure predictive check: {facts.check.result.verdict}.")
    doubts += audit_section.beyond(facts)
    blocks: list[Block] = [Points(points), *(Note(doubt) for doubt in [*doubts, *facts.warnings])]
    return Section("short", "In short", blocks)


# First what came out, then whether it is to be trusted, last how it was made.
SECTIONS: tuple[Callable[[ReportFacts], Section], ...] = (
    in_short,
    result_sections.metrics,
    result_sections.reliability,
    strata_section.strata,
    result_sections.change,
    list_sections.samples,
    list_sections.coverage,
    certainty_section.certainty,
    audit_section.audit,
    fit_sections.data,
    fit_sections.convergence,
    fit_sections.check,
    result_sections.gamma,
    list_sections.limits,
    list_sections.timings,
    list_sections.making,
)


def render(facts: ReportFacts, sections: Sequence[Callable[[ReportFacts], Section]] = SECTIONS) -> str:
    """Render the whole page, or the sections of it that are named.

    Every text is escaped, whatever it holds; only figures are markup. Absolute paths in settings and warnings are cut
    down to their last names. The page forbids itself, by its content security policy, to load anything or to run
    scripts.

    Parameters
    ----------
    facts : ReportFacts
        All that the page says.
    sections : sequence of callables
        What makes each section of the facts, in order.

    Returns
    -------
    str
        HTML, some 200 kB for all sections.
    """
    portable = _portable(facts)
    environment = Environment(
        loader=PackageLoader("dcrec_spark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made = [section(portable) for section in sections]
    return environment.get_template(_TEMPLATE).render(title=title(portable), ids=ids(portable), sections=made)
