"""The units behind the published page of the extended model's studies."""

from pathlib import Path

from studies.extended import RESULTS, STUDIES, units
from studies.units import read

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "studies" / "extended" / "README.md"


def test_the_units_of_the_page_are_those_of_today_s_settings() -> None:
    """A unit of other settings would silently be missing from the next page."""
    kept = {path.name.removesuffix(".json.xz") for path in RESULTS.iterdir()}
    assert kept
    assert kept == {unit.name for unit in units(Path()) if read(unit, RESULTS) is not None}


def test_the_page_shows_what_has_units_and_names_what_has_none() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kept = {path.name.partition("-seed-")[0] for path in RESULTS.iterdir()}
    shown = {name for name, study in STUDIES.items() if f"\n## {study.title}\n" in page}
    assert shown == kept
    missing = next((line for line in page.splitlines() if line.startswith("Not run:")), "")
    assert all((study.title in missing) == (name not in kept) for name, study in STUDIES.items())
