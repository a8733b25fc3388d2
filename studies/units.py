"""The studies as units of work, each with its file: a unit that is done is not run a second time.

cells/coat-seed-0.json.xz             a comparison on one data set and seed
cells/dense-outcome-3.0-run-1.json.xz nine rows on one simulated world
cells/coat-sweeps.json.xz             the chosen settings, stopped early

Compressed, a unit with all its replications takes some 50 kB.
"""

import hashlib
import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dcrec_spark.errors import DataError
from studies.compare import CHOICES, Advance, Cell, Comparison, compare, stopped_early
from studies.datasets import DATASETS
from studies.paper import OUTCOMES, ROWS
from studies.profiles import OfData, OfSimulation, Profile
from studies.rows import Budget, plain_rows, rows
from studies.simulation import (
    SPREAD,
    Point,
    compare_point,
    compare_rank,
    compare_spread,
    n_steps,
    points,
    spread_rows,
)

# Raised when what a unit computes changes: files of before are then no longer taken.
VERSION = 2


@dataclass(frozen=True)
class Unit:
    """One piece: its name, the fits that it takes, what it depends on, and what computes it."""

    name: str
    steps: int
    settings: Any
    run: Callable[[SparkSession, Advance], Cell]

    @property
    def fingerprint(self) -> str:
        """Changes with the settings."""
        text = json.dumps([VERSION, self.name, self.settings], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def units(profile: Profile, data: Path, cells: Path) -> Iterator[Unit]:
    """All units of a profile, data sets first."""
    for name, of in profile.data.items():
        for seed in range(of.seeds):
            yield _on_data(name, of, data, seed)
    if "coat" in profile.data:
        yield _stopped(profile, data, cells)
    for name, world in profile.simulations.items():
        for point in points(world):
            yield _on_world(name, world, point)
        for run in range(world.runs):
            for rank in world.ranks:
                yield _of_rank(name, world, rank, run)
            for spread in world.spreads:
                yield _of_spread(name, world, Point(SPREAD, spread, run))


def _on_data(name: str, of: OfData, data: Path, seed: int) -> Unit:
    compared = plain_rows() if of.budget.plain else rows(of.placebos)

    def run(spark: SparkSession, advance: Advance) -> Cell:
        parts = DATASETS[name](spark, data, seed)
        return compare(spark, Comparison(parts, compared, of.budget, seed, with_als=of.with_als), advance)

    settings = [
        _given(of.budget),
        of.placebos,
        of.with_als,
        *([row.name for row in compared] if of.budget.plain else []),
    ]
    return Unit(f"{name}-seed-{seed}", len(compared) * (of.budget.draws + len(CHOICES)), settings, run)


def _stopped(profile: Profile, data: Path, cells: Path) -> Unit:
    """Make the unit that measures after few sweeps what the first seed of Coat chose."""
    compared, of = rows(placebos=False), profile.data["coat"]
    chosen = _on_data("coat", of, data, 0)

    def run(spark: SparkSession, advance: Advance) -> Cell:
        result = read(chosen, cells)
        if result is None:
            raise DataError(f"{chosen.name} is not there yet, and its choices are needed")
        comparison = Comparison(DATASETS["coat"](spark, data, 0), compared, of.budget, 0)
        return stopped_early(spark, comparison, result["choices"]["ndcg"], profile.sweeps, advance)

    steps = len(compared) * len(profile.sweeps)
    return Unit("coat-sweeps", steps, [chosen.fingerprint, profile.sweeps], run)


def _on_world(name: str, of: OfSimulation, point: Point) -> Unit:
    return Unit(
        f"{name}-{point.sweep}-{point.at}-run-{point.run}",
        n_steps(of, len(ROWS)),
        _world(of),
        lambda spark, advance: compare_point(spark, of, point, advance),
    )


def _of_rank(name: str, of: OfSimulation, rank: int, run: int) -> Unit:
    return Unit(
        f"{name}-rank-{rank}-run-{run}",
        n_steps(of, len(ROWS) - len(OUTCOMES)),
        [*_world(of), rank],
        lambda spark, advance: compare_rank(spark, of, rank, run, advance),
    )


def _of_spread(name: str, of: OfSimulation, point: Point) -> Unit:
    compared = spread_rows(of)
    return Unit(
        f"{name}-{SPREAD}-{point.at}-run-{point.run}",
        n_steps(of, len(compared)),
        [*_world(of), [row.name for row in compared]],
        lambda spark, advance: compare_spread(spark, of, point, advance),
    )


def _world(of: OfSimulation) -> list[Any]:
    return [_given(of.budget), of.reading, of.size, of.n_factors, of.test_pairs_per_user]


def _given(budget: Budget) -> dict[str, Any]:
    """List what is set of a budget: a setting that is added later changes no older fingerprint."""
    return {name: value for name, value in asdict(budget).items() if value is not None}


def read(unit: Unit, cells: Path) -> Cell | None:
    """Read a unit's result, if it is there and was computed by the same settings."""
    path = _file(unit, cells)
    if not path.exists():
        return None
    stored = json.loads(lzma.decompress(path.read_bytes()))
    return stored["result"] if stored["fingerprint"] == unit.fingerprint else None


def write(unit: Unit, cells: Path, result: Cell) -> None:
    """Write a unit's result, whole or not at all."""
    cells.mkdir(parents=True, exist_ok=True)
    path = _file(unit, cells)
    partial = path.with_suffix(".partial")
    partial.write_bytes(lzma.compress(json.dumps({"fingerprint": unit.fingerprint, "result": result}).encode()))
    partial.replace(path)


def _file(unit: Unit, cells: Path) -> Path:
    return cells / f"{unit.name}.json.xz"
