"""The page of promises names tests that exist, and shows their recorded results."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.promises import COUNTS, LAST, NAME, PAGE, ROOT, Recorder, fill, fill_counts, named, read

TEXT = PAGE.read_text(encoding="utf-8")
NAMED = NAME.findall(TEXT)
ROW = "| Nobody sees half | death | `tests/a/test_b.py::test_c` | {} |"


def test_the_page_names_tests_and_has_a_line_for_the_run_of_all() -> None:
    assert len(NAMED) > 40
    assert len(LAST.findall(TEXT)) == 1


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_promise_is_held_by_a_test_that_exists(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_no_promise_is_broken() -> None:
    """A hyphen stands for one that the suite has not tried since its row was written: make promises."""
    rows = [line for line in TEXT.splitlines() if NAME.search(line)]
    assert [row for row in rows if re.search(r"\| ([1-9][\d,]* \| held|- \| -) \|$", row) is None] == []


def report(test: str, outcome: str, when: str = "call", **properties: int) -> Any:
    return SimpleNamespace(
        nodeid=test,
        passed=outcome == "passed",
        skipped=outcome == "skipped",
        when=when,
        outcome=outcome,
        user_properties=list(properties.items()),
    )


def test_tries_are_counted_by_function_and_kept_from_run_to_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "build" / "results.json")
    for made in (
        report("t.py::test_a[1]", "passed"),
        report("t.py::test_a[2]", "passed", tried=40),
        report("t.py::test_a[2]", "passed", when="teardown"),
        report("t.py::test_b", "failed", when="setup"),
        report("t.py::test_c", "skipped"),
    ):
        recorder.pytest_runtest_logreport(made)
    session: Any = SimpleNamespace(config=SimpleNamespace())
    recorder.pytest_sessionfinish(session)
    assert read(recorder.file) == {
        "t.py::test_a": {"tried": 41, "held": True},
        "t.py::test_b": {"tried": 0, "held": False},
        COUNTS: {"passed": 2, "failed": 1, "skipped": 1},
    }

    again = Recorder(recorder.file)
    again.pytest_runtest_logreport(report("t.py::test_b", "passed"))
    again.pytest_sessionfinish(session)
    assert read(recorder.file) == {
        "t.py::test_a": {"tried": 41, "held": True},
        "t.py::test_b": {"tried": 1, "held": True},
        COUNTS: {"passed": 3, "failed": 1, "skipped": 1},
    }


def test_the_page_is_filled_from_the_results_and_else_stays_as_it_is() -> None:
    page = f"# Promises\n\n| promise | fault | test | tried | result |\n{ROW.format('3 | held')}\n"
    test = "tests/a/test_b.py::test_c"
    assert named(page) == [test]
    assert fill(page, {test: {"tried": 1200, "held": True}}) == page.replace("| 3 |", "| 1,200 |")
    assert fill(page, {test: {"tried": 2, "held": False}}) == page.replace("| 3 | held", "| 2 | **broken**")
    assert fill(page, {}).splitlines()[-1] == ROW.format("- | -")
    counted = {COUNTS: {"passed": 4123, "skipped": 2}}
    last = fill_counts("a\nLast `make test-all`: not recorded yet.\nb", counted, "2026-11-28")
    assert last == "a\nLast `make test-all`: 2026-11-28, 4,123 passed, 0 failed, 2 skipped.\nb"
