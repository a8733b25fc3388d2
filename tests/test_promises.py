"""The page of promises names tests that exist, and shows their recorded results."""

import re

import pytest

from tests.promises import LAST, NAME, PAGE, ROOT

TEXT = PAGE.read_text(encoding="utf-8")
NAMED = NAME.findall(TEXT)


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
