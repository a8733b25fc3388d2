"""Results of the tests that docs/reference/promises.md names, recorded by the tests themselves.

    pytest --promises=FILE ...                  adds its results to FILE
    python -m tests.promises named [warehouse]  lists the tests that the page names
    python -m tests.promises write FILE         fills the page's columns "tried" and "result" from FILE
    python -m tests.promises write-all FILE     does so, and writes date and counts of make test-all

A test is one try, unless it says otherwise by ``record_property("tried", number)``.
"""

import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "promises.md"
NAME = re.compile(r"`(tests/[\w/.]+)::(\w+)`")
LAST = re.compile(r"^Last `make test-all`: .*$", re.MULTILINE)
TRIED, COUNTS = "tried", "counts"
HELD, BROKEN, UNTRIED = "held", "**broken**", "-"
Results = dict[str, dict[str, Any]]


class Recorder:
    """A plugin of pytest's that records each test's tries and outcome, by the name of its function, and all counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.results: Results = {}
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1
        if report.skipped or (report.when != "call" and report.passed):
            return
        result = self.results.setdefault(report.nodeid.partition("[")[0], {TRIED: 0, "held": True})
        result["held"] &= report.passed
        if report.when == "call":
            result[TRIED] += dict(report.user_properties).get(TRIED, 1)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        before = read(self.file)
        counts = Counter(before.get(COUNTS, {})) + self.counts
        self.file.write_text(json.dumps({**before, **self.results, COUNTS: counts}, indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> Results:
    results: Results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return results


def fill_line(line: str, results: Results) -> str:
    found = NAME.search(line)
    if found is None or not line.startswith("|"):
        return line
    promise, fault, test = (cell.strip() for cell in line.strip("|").split("|")[:3])
    result = results.get(f"{found[1]}::{found[2]}")
    columns = (UNTRIED, UNTRIED) if result is None else (f"{result[TRIED]:,}", HELD if result["held"] else BROKEN)
    return f"| {' | '.join([promise, fault, test, *columns])} |"


def main(command: str, *given: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if command == "named":
        tests = [f"{file}::{name}" for file, name in NAME.findall(page)]
        warehouse = "warehouse" in given
        sys.stdout.write(" ".join(test for test in tests if test.startswith("tests/warehouse/") == warehouse))
        return
    results = read(Path(given[0]))
    page = "\n".join(fill_line(line, results) for line in page.split("\n"))
    if command == "write-all":
        counts, day = results.get(COUNTS, {}), datetime.now(UTC).date().isoformat()
        shown = ", ".join(f"{counts.get(outcome, 0):,} {outcome}" for outcome in ("passed", "failed", "skipped"))
        page = LAST.sub(f"Last `make test-all`: {day}, {shown}.", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
