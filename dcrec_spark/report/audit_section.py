"""The audit of the run that fitted the model: what was found beside each limit, and models compared."""

from dcrec_spark.report.blocks import Block, Cell, Note, Section, Table, Text
from dcrec_spark.report.facts import AuditFacts, LimitFacts, ReportFacts
from dcrec_spark.report.words import full_label, interval, number

_NAME, _TITLE = "audit", "Audit of the fit"


def audit(facts: ReportFacts) -> Section:
    """Show the verdicts of the run that fitted the model, and what it was compared with."""
    if not isinstance(facts.audit, AuditFacts):
        return Section(_NAME, _TITLE, [Note(facts.audit)])
    blocks: list[Block] = [Text(_meaning(facts.audit))]
    if facts.audit.limits:
        head = ["audit.", "found", "limit", "verdict"]
        rows = [_row(limit) for limit in facts.audit.limits]
        notes = [limit.about for limit in facts.audit.limits]
        blocks.append(Table("What was found beside each limit", head, rows, notes=notes))
    if facts.audit.metric is not None:
        blocks.append(_compared(facts.audit, facts.audit.metric))
    return Section(_NAME, _TITLE, blocks)


def beyond(facts: ReportFacts) -> list[str]:
    """Sentences on limits that were not kept, where the run was published all the same."""
    if not isinstance(facts.audit, AuditFacts):
        return []
    forced = [limit for limit in facts.audit.limits if limit.forced]
    return [f"Published beyond a limit (audit.{limit.check}, --force): {limit.about}." for limit in forced]


def _meaning(audit: AuditFacts) -> str:
    if not audit.limits:
        return "The settings of that run drew no limits (audit.*), beyond those that no lists may pass."
    return "Before it was published, that run was compared with the limits of its settings."


def _row(limit: LimitFacts) -> list[Cell]:
    verdict = Cell("kept", tone="good") if limit.passed else Cell("not kept", "--force" if limit.forced else "", "bad")
    found = Cell(number(limit.found), interval(limit.low, limit.high))
    return [Cell(limit.check), found, Cell(number(limit.limit)), verdict]


def _compared(audit: AuditFacts, metric: str) -> Table:
    rows = [
        [Cell(name), Cell(number(value), interval(low, high))] for name, (value, low, high) in audit.compared.items()
    ]
    return Table("On ratings held out of that fit", ["", full_label(metric)], rows)
