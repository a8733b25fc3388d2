"""All units of a profile, one after the other, with progress and the time left; then the page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dcrec_spark.errors import ConfigError
from studies.compare import Cell
from studies.page import write_page
from studies.profiles import Profile
from studies.units import Unit, read, units, write

_log = structlog.get_logger()


def run_units(spark: SparkSession, chosen: Sequence[Unit], work: Path) -> None:
    """Run the units that are not done yet; each result is written under ``work`` as its unit ends."""
    with _progress() as progress:
        total = progress.add_task("all fits", total=sum(unit.steps for unit in chosen))
        for unit in chosen:
            _run_unit(spark, unit, work, progress, total)


def write_results(profile: Profile, data: Path, work: Path, output: Path, command: str) -> Path:
    """Write the page of all units that are done, and name those that are not; returns the page."""
    cells = {unit.name: read(unit, work) for unit in units(profile, data, work)}
    missing = [name for name, cell in cells.items() if cell is None]
    return write_page(profile, _by_study(cells), output, command, missing)


def chosen_units(profile: Profile, data: Path, work: Path, only: Sequence[str] = ()) -> list[Unit]:
    """List the units of a profile whose names begin with one of ``only``; all, where there is none.

    Raises
    ------
    ConfigError : no unit's name begins so.
    """
    every = list(units(profile, data, work))
    for start in only:
        if not any(unit.name.startswith(start) for unit in every):
            studies = sorted({study_of(unit.name) for unit in every})
            raise ConfigError(f"setting studies.only: found {start!r}, expected beginnings of {', '.join(studies)}")
    return [unit for unit in every if not only or unit.name.startswith(tuple(only))]


def study_of(unit: str) -> str:
    """ "coat-seed-1" -> "coat", "dense-outcome-3.0-run-1" -> "dense-outcome-3.0"."""
    return unit.split("-seed-")[0].split("-run-")[0]


def collected(profile: Profile, data: Path, work: Path) -> dict[str, list[Cell]]:
    """Study -> what there is of its units: "coat" -> seeds, "dense-outcome-3.0" -> runs."""
    return _by_study({unit.name: read(unit, work) for unit in units(profile, data, work)})


def _by_study(cells: Mapping[str, Cell | None]) -> dict[str, list[Cell]]:
    studies: dict[str, list[Cell]] = defaultdict(list)
    for name, cell in cells.items():
        if cell is not None:
            studies[study_of(name)].append(cell)
    return dict(studies)


def _run_unit(spark: SparkSession, unit: Unit, work: Path, progress: Progress, total: TaskID) -> None:
    if read(unit, work) is not None:
        progress.advance(total, unit.steps)
        return
    task = progress.add_task(unit.name, total=unit.steps)

    def advance(steps: int) -> None:
        progress.advance(task, steps)
        progress.advance(total, steps)

    write(unit, work, unit.run(spark, advance))
    progress.remove_task(task)
    _log.info("done", unit=unit.name)


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
    return Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True))
