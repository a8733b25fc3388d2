"""The report: facts in, one HTML page out that needs nothing but itself."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from dcrec_spark.report import fit_sections, list_sections, result_sections
from dcrec_spark.report.blocks import Block, Note, Points, Section
from dcrec_spark.report.facts import CheckFacts, ReportFacts

_TEMPLATE = "report.html.j2"


def render(facts: ReportFacts) -> str:
    """The whole page.

    Every text is escaped, whatever it holds; only figures are markup. The page forbids itself, by its content security
    policy, to load anything or to run scripts.
    """
    environment = Environment(
        loader=PackageLoader("dcrec_spark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [
        in_short(facts),
        fit_sections.data(facts),
        fit_sections.convergence(facts),
        fit_sections.check(facts),
        result_sections.metrics(facts),
        result_sections.reliability(facts),
        result_sections.gamma(facts),
        result_sections.change(facts),
        list_sections.samples(facts),
        list_sections.coverage(facts),
        list_sections.timings(facts),
        list_sections.limits(facts),
        list_sections.making(facts),
    ]
    return environment.get_template(_TEMPLATE).render(facts=facts, sections=sections)


def in_short(facts: ReportFacts) -> Section:
    """What a hurried reader should know."""
    model = facts.models[0]
    test = facts.data.test
    points = [
        f"Judged is a {model.what}.",
        f"It is judged by {test.ratings.n:,} held-out ratings of {test.users:,} users and {test.items:,} items.",
        *result_sections.in_short(facts),
        *(fit_sections.settled(stage) for stage in facts.stages),
    ]
    if isinstance(facts.check, CheckFacts):
        points.append(f"Exposure predictive check: {facts.check.result.verdict}.")
    blocks: list[Block] = [Points(points), *(Note(warning) for warning in facts.warnings)]
    return Section("short", "In short", blocks)
