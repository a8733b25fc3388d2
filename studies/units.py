"""Studies as units of work in one archive: a unit that is done is not run a second time.

A unit is one data set and seed, such as ``coat-seed-0`` or ``dense-outcome-3.0-run-1``, a JSON file in a zip archive.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile

import click
import structlog
from pyspark.sql import SparkSession

# Raised when what a unit computes changes, so that units of before are run again.
VERSION = 3
Cell = dict[str, Any]
_log = structlog.get_logger()


@dataclass(frozen=True)
class Unit:
    """A piece of work. study : the section that it belongs to. settings : what its result depends on."""

    name: str
    study: str
    settings: Any
    run: Callable[[SparkSession], Cell]

    @property
    def file(self) -> str:
        """Name in the archive; changes with the settings."""
        text = json.dumps([VERSION, self.name, self.settings], sort_keys=True, default=str)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"


class Archive:
    """Results of units, in one zip archive."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> set[str]:
        """Names of the files in it."""
        if not self.path.exists():
            return set()
        with ZipFile(self.path) as archive:
            return set(archive.namelist())

    def read(self, units: Iterable[Unit]) -> dict[str, Cell]:
        """Read the results that are there, by the units' names."""
        there = self.files()
        wanted = [unit for unit in units if unit.file in there]
        if not wanted:
            return {}
        with ZipFile(self.path) as archive:
            return {unit.name: json.loads(archive.read(unit.file)) for unit in wanted}

    def write(self, unit: Unit, result: Cell) -> None:
        """Add a result, atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        if self.path.exists():
            shutil.copyfile(self.path, partial)
        else:
            partial.unlink(missing_ok=True)
        with ZipFile(partial, "a", ZIP_LZMA) as archive:
            archive.writestr(unit.file, json.dumps(result))
        partial.replace(self.path)


def run_units(spark: SparkSession, units: Sequence[Unit], archive: Archive) -> None:
    """Run the units that are not done yet; each result is written as its unit ends."""
    there = archive.files()
    waiting = [unit for unit in units if unit.file not in there]
    for number, unit in enumerate(waiting, 1):
        _log.info("unit begins", unit=unit.name, number=number, of=len(waiting))
        archive.write(unit, unit.run(spark))


def select(units: Sequence[Unit], only: Sequence[str]) -> list[Unit]:
    """Return the units whose names begin like one of ``only``; all without it."""
    for start in only:
        if not any(unit.name.startswith(start) for unit in units):
            studies = ", ".join(sorted({unit.study for unit in units}))
            raise click.BadParameter(f"found {start!r}, expected beginnings of {studies}", param_hint="--only")
    return [unit for unit in units if not only or unit.name.startswith(tuple(only))]


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a command that runs studies."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    for option in (
        click.option("--data", required=True, type=folder, help="Folder of the data sets."),
        click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of the page."),
        click.option("--work", type=click.Path(path_type=Path), help="Archive of the units."),
        click.option("--only", multiple=True, help="Beginning of the names of the studies to run; all without it."),
    ):
        command = option(command)
    return command


def by_study(units: Sequence[Unit], cells: dict[str, Cell]) -> dict[str, list[Cell]]:
    """Collect the results by study, in the order of the units."""
    studies: dict[str, list[Cell]] = {}
    for unit in units:
        if unit.name in cells:
            studies.setdefault(unit.study, []).append(cells[unit.name])
    return studies
