"""The units behind the published page of the extended model's studies."""

from pathlib import Path

from studies.extended import RESULTS, published, units
from studies.extended_page import write_extended_page
from studies.units import read

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "studies" / "extended" / "README.md"


def test_the_units_of_the_page_are_those_of_today_s_settings() -> None:
    """A unit of other settings would silently be missing from the next page."""
    kept = {path.name.removesuffix(".json.xz") for path in RESULTS.iterdir()}
    assert kept
    assert kept == {unit.name for unit in units(Path()) if read(unit, RESULTS) is not None}


def test_the_page_is_what_the_units_make_of_it(tmp_path: Path) -> None:
    """Studies whose units are not there keep their sections."""
    page = tmp_path / "README.md"
    page.write_bytes(PAGE.read_bytes())
    write_extended_page(published(Path(), RESULTS), tmp_path)
    made = page.read_text(encoding="utf-8").splitlines()
    of_packages = 2  # the line that names the versions of this environment
    assert [line for number, line in enumerate(made) if number != of_packages] == [
        line for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines()) if number != of_packages
    ]
