"""The extended least-squares model and every cheap alternative: Coat, MovieLens, and simulated data.

python -m studies.extended --data folder --output docs/studies/extended [--only coat] [--work archive]

Each unit, a data set and a seed, is recorded in ``--work`` as it ends: the command continues where it was stopped.
Those of the published page are in studies/results/extended.zip.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import click
import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.local.data import Parts
from dcrec_spark.spark.session import build_session
from studies.compare import Comparison, compare
from studies.datasets import DATASETS, simulated
from studies.extended_page import write_extended_page
from studies.extended_rows import (
    BIASED,
    CLASSICAL,
    DECONFOUNDED,
    FURTHER_ROWS,
    PAPERS,
    POISSON_ROWS,
    RANKS,
    REGULARISERS,
    ROWS,
    WITHOUT_BIASES_ROWS,
)
from studies.fair_simulation import Confounding, FairSimulation
from studies.paper_simulation import Simulation
from studies.rows import Budget, Row
from studies.units import Archive, Cell, Unit, by_study, options, run_units, select

ALS_SETTINGS = [(rank, reg) for rank in RANKS for reg in REGULARISERS]
BUDGET = Budget(draws=len(ALS_SETTINGS), max_iter=50)
_SOME, _FEW = Budget(draws=12, max_iter=40), Budget(draws=6, max_iter=20)
CHOICES = ("mse", "weighted_mse")
RESULTS = Path(__file__).parent / "results" / "extended.zip"


def _rows(*names: str) -> tuple[Row, ...]:
    return tuple(row for row in ROWS if row.name in names)


# With a known truth, and under interventions, the question is not the link.
_NO_LINKS = tuple(row for row in ROWS if "any link" not in row.name and row.name != "deconfounded")
_FURTHER = (*_rows(BIASED, DECONFOUNDED), *FURTHER_ROWS)


@dataclass(frozen=True)
class Study:
    """A table: so many seeds of what ``parts`` gives, each row tuned with ``budget``."""

    title: str
    seeds: int
    budget: Budget
    parts: Callable[[SparkSession, Path, int], Parts]
    rows: tuple[Row, ...] = ROWS
    choices: tuple[str, ...] = CHOICES
    by_strata: bool = False

    def unit(self, name: str, data: Path, seed: int) -> Unit:
        """Make the unit of a seed."""

        def run(spark: SparkSession) -> Cell:
            parts = self.parts(spark, data, seed)
            als = als_settings(self.budget)
            more = {"als_settings": als, "by_strata": self.by_strata, "choices": self.choices}
            return compare(spark, Comparison(parts, self.rows, self.budget, seed, **more))  # type: ignore[arg-type]

        rows = [[row.name, row.follows] for row in self.rows]
        return Unit(f"{name}-seed-{seed}", name, [self.budget.draws, self.budget.max_iter, *self.choices, rows], run)


def fair_parts(kind: Confounding, size: int, spark: SparkSession, data: Path, seed: int) -> Parts:
    """Draw the fair simulation, and split its ratings 80/20 into training and validation."""
    drawn = FairSimulation(kind, n_users=size, n_items=size, seed=seed)
    fits = np.random.default_rng(seed).random(len(drawn.ratings["user"])) < 0.8
    pairs = {
        "train": {name: values[fits] for name, values in drawn.ratings.items()},
        "validation": {name: values[~fits] for name, values in drawn.ratings.items()},
        "test": drawn.test,
    }
    parts = Parts.of_indices(size, size, pairs).select_known("validation", ("train",))
    return parts.select_known("test", ("train", "validation"))


def paper_parts(size: int, spark: SparkSession, data: Path, seed: int) -> Parts:
    """Draw the paper's simulation, read so that few pairs are rated, where both of its sweeps meet."""
    settings = Simulation(n_users=size, n_items=size, gamma_reading="scale", test_pairs="withheld", seed=seed)
    return simulated(spark, settings, seed)


_COAT, _NEW_USERS, _INTERVENTIONS = (DATASETS[name] for name in ("coat", "coat-new-users", "coat-interventions"))
_INTERVENED = tuple(row for row in _NO_LINKS if row.name != CLASSICAL)
_BARE = (*_rows(PAPERS, BIASED), *WITHOUT_BIASES_ROWS)
_FAIR = {kind: partial(fair_parts, kind, 600) for kind in get_args(Confounding)}
_PAPERS = {size: partial(paper_parts, size) for size in (1000, 5000)}
_SIMULATION = "The paper's simulation, sparse, {0:,} x {0:,}"
STUDIES: dict[str, Study] = {
    "coat": Study("Coat, existing users, random test", 5, BUDGET, _COAT),
    "coat-new-users": Study("Coat, new users, random test", 5, _SOME, _NEW_USERS, choices=("mse",)),
    "coat-interventions": Study("Coat, one fit and three tests", 5, BUDGET, _INTERVENTIONS, _INTERVENED),
    "coat-further": Study("Coat, inverse propensities", 5, BUDGET, _COAT, _FURTHER, by_strata=True),
    "coat-without-biases": Study("Coat, without biases and intercept", 5, BUDGET, _COAT, _BARE),
    "coat-poisson": Study("Coat, Poisson factorization", 5, _SOME, _COAT, (*_rows(BIASED), *POISSON_ROWS)),
    "movielens-100k": Study("MovieLens 100K, regular test", 5, _FEW, DATASETS["movielens-100k"]),
    "movielens-1m": Study("MovieLens 1M, regular test", 5, _FEW, DATASETS["movielens-1m"]),
    "simulation": Study(_SIMULATION.format(1000), 10, _FEW, _PAPERS[1000], _NO_LINKS),
    "simulation-5000": Study(_SIMULATION.format(5000), 1, _FEW, _PAPERS[5000], _NO_LINKS),
    **{
        f"fair-{kind}": Study(f"Fair simulation: {kind}, 600 x 600", 5, _SOME, parts, _NO_LINKS)
        for kind, parts in _FAIR.items()
    },
    **{
        f"further-{kind}": Study(
            f"Fair simulation: {kind}, 600 x 600, inverse propensities", 5, _SOME, _FAIR[kind], _FURTHER
        )
        for kind in ("raises", "lowers")
    },
}


def als_settings(budget: Budget) -> list[tuple[int, float]]:
    """Return those that MLlib's ALS chooses among: as many as a row draws, or some more, spread over the grid."""
    return ALS_SETTINGS[:: len(ALS_SETTINGS) // budget.draws]


def units(data: Path) -> list[Unit]:
    """All units, study after study."""
    return [study.unit(name, data, seed) for name, study in STUDIES.items() for seed in range(study.seeds)]


def published(data: Path, archive: Archive) -> dict[str, tuple[str, list[Cell]]]:
    """Study -> its title and the cells of its units that are done, as the page takes them."""
    every = units(data)
    cells = by_study(every, archive.read(every))
    return {name: (study.title, cells.get(name, [])) for name, study in STUDIES.items()}


@click.command()
@options
def main(data: Path, output: Path, work: Path | None, only: Sequence[str]) -> None:
    """Run what is not done yet, and write the page of all that is there."""
    chosen, archive = select(units(data), only), Archive(work or RESULTS)
    configure_logging(for_people=True)
    run_units(build_session("studies"), chosen, archive)
    write_extended_page(published(data, archive), output)


if __name__ == "__main__":
    main()
