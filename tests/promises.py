"""How often each fault of docs/reference/promises.md was tried, and with what result: noted by the tests themselves.

    pytest --promises=FILE ...                  adds what it has tried to FILE
    python -m tests.promises named [warehouse]  lists the tests that the page names
    python -m tests.promises write FILE         fills the page's columns "tried" and "result" from FILE

A test is one try, unless it says otherwise by ``record_property("tried", number)``.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "promises.md"
NAME = re.compile(r"`(tests/[\w/.]+)::(\w+)`")
TRIED = "tried"
HELD, BROKEN, UNTRIED = "held", "**broken**", "-"
Notes = dict[str, dict[str, Any]]


class Noting:
    """A plugin of pytest's that notes each test's tries and outcome, by the name of its function."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.notes: Notes = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that has run, and one that failed before it could."""
        if report.skipped or (report.when != "call" and report.passed):
            return
        note = self.notes.setdefault(report.nodeid.partition("[")[0], {TRIED: 0, "held": True})
        note["held"] &= report.passed
        if report.when == "call":
            note[TRIED] += dict(report.user_properties).get(TRIED, 1)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Add the notes to those of earlier runs; the controller of several processes does, for all."""
        if hasattr(session.config, "workerinput"):
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({**read(self.file), **self.notes}, indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> Notes:
    """Notes of earlier runs."""
    notes: Notes = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return notes


def named(page: str) -> list[str]:
    """Tests that the page names, as pytest takes them."""
    return [f"{file}::{name}" for file, name in NAME.findall(page)]


def filled(page: str, notes: Notes) -> str:
    """The page, with the last two columns of each row that names a test as the notes have them."""
    return "\n".join(_filled_line(line, notes) for line in page.split("\n"))


def _filled_line(line: str, notes: Notes) -> str:
    found = NAME.search(line)
    if found is None or not line.startswith("|"):
        return line
    promise, fault, test = (cell.strip() for cell in line.strip("|").split("|")[:3])
    note = notes.get(f"{found[1]}::{found[2]}")
    result = (UNTRIED, UNTRIED) if note is None else (f"{note[TRIED]:,}", HELD if note["held"] else BROKEN)
    return f"| {' | '.join([promise, fault, test, *result])} |"


def main(command: str, *given: str) -> None:
    """See the module."""
    page = PAGE.read_text(encoding="utf-8")
    if command == "write":
        PAGE.write_text(filled(page, read(Path(given[0]))), encoding="utf-8")
    else:
        warehouse = "warehouse" in given
        tests = [test for test in named(page) if test.startswith("tests/warehouse/") == warehouse]
        sys.stdout.write(" ".join(tests))


if __name__ == "__main__":
    main(*sys.argv[1:])
