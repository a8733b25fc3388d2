"""A run of one marker imports the files that name it, and these are all that have it."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.markers import may_hold

ROOT = Path(__file__).resolve().parent.parent
MARKERS = [
    line.partition(":")[0]
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
]


@pytest.mark.parametrize("expression", ["process", "process and not long", " process and not long and not cluster "])
def test_of_one_marker_only_files_that_name_it_are_imported(expression: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("pytestmark = pytest.mark.job")
    assert not may_hold(file, expression)
    file.write_text("@pytest.mark.process")
    assert may_hold(file, expression)


@pytest.mark.parametrize("expression", ["", "not process", "process or job", "(process)", "not job and not process"])
def test_of_all_else_every_file_is(expression: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("")
    assert may_hold(tmp_path / "test_it.py", expression)


def test_no_file_gives_its_marker_to_the_tests_of_another() -> None:
    """Else a run of that marker would leave them out without a word."""
    given = re.compile(rf"mark\.({'|'.join(MARKERS)})\b|add_marker")
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    assert [path.name for path in helpers if given.search(path.read_text(encoding="utf-8"))] == []
    borrowed = re.compile(r"import .*\bpytestmark\b")
    tests = (ROOT / "tests").rglob("test_*.py")
    assert [path.name for path in tests if borrowed.search(path.read_text(encoding="utf-8"))] == []
