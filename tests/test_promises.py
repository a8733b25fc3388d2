"""The page of promises names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.findall(r"`(tests/[\w/.]+)::(\w+)`", (ROOT / "docs/reference/promises.md").read_text(encoding="utf-8"))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_promise_is_held_by_a_test_that_is_there(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
