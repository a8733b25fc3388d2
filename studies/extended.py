"""The extended least-squares model beside every cheap alternative: Coat, MovieLens, and fair worlds of known truth.

python -m studies.extended --data folder --output docs/studies/extended [--only coat] [--work folder]

Each unit, a data set and a seed, is recorded under ``--work`` as it ends: the command goes on where it was stopped.
Those of the published page are in studies/results/extended; with another folder all is run anew.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import click
import numpy as np
import structlog
from pyspark.sql import SparkSession

from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.local.data import Parts
from dcrec_spark.spark.session import build_session
from studies.compare import Advance, Cell, Comparison, compare
from studies.datasets import DATASETS, simulated
from studies.extended_page import write_extended_page
from studies.extended_rows import (
    BIASED,
    DECONFOUNDED,
    FURTHER_ROWS,
    PAPERS,
    POISSON_ROWS,
    RANKS,
    REGULARISERS,
    ROWS,
    WITHOUT_BIASES_ROWS,
    ExtendedRow,
)
from studies.fair_simulation import Confounding, FairSimulation
from studies.paper_simulation import Simulation
from studies.rows import Budget
from studies.run import run_units
from studies.simulation import OUTCOME, PREFERENCE
from studies.units import Unit, read

ALS_SETTINGS = [(rank, reg) for rank in RANKS for reg in REGULARISERS]
BUDGET = Budget(draws=len(ALS_SETTINGS), max_iter=50)
_SOME = Budget(draws=12, max_iter=40)
_FEW = Budget(draws=6, max_iter=20)
CHOICES = ("mse", "weighted_mse")
_SIGNS: tuple[Confounding, ...] = ("raises", "lowers")
RESULTS = Path(__file__).parent / "results" / "extended"
# Of worlds whose truth is known the question is the confounder's sign, not its link.
_WORLD_ROWS = tuple(row for row in ROWS if "any link" not in row.name and row.name != "deconfounded")
# Other ways to the same preference, beside the model with a confounder.
_FURTHER = (*(row for row in ROWS if row.name in (BIASED, DECONFOUNDED)), *FURTHER_ROWS)
_WITHOUT_BIASES = (*(row for row in ROWS if row.name in (PAPERS, BIASED)), *WITHOUT_BIASES_ROWS)
_BESIDE_POISSON = (*(row for row in ROWS if row.name == BIASED), *POISSON_ROWS)
# Of interventions the question is which model's error stays where it was.
_STABLE = tuple(row for row in ROWS if "any link" not in row.name and row.name not in ("classical", "deconfounded"))


@dataclass(frozen=True)
class Study:
    """A table: so many seeds of what ``parts`` gives, each row tuned with ``budget``.

    by_strata : whether it is told for users, and for items, with few and many ratings too.
    """

    title: str
    seeds: int
    budget: Budget
    parts: Callable[[SparkSession, Path, int], Parts]
    rows: tuple[ExtendedRow, ...] = ROWS
    choices: tuple[str, ...] = CHOICES
    by_strata: bool = False


def fair_world(kind: Confounding, size: int, spark: SparkSession, data: Path, seed: int) -> Parts:
    """Draw a world, and split its ratings 80/20 into training and validation."""
    world = FairSimulation(kind, n_users=size, n_items=size, seed=seed)
    ratings = world.ratings
    fits = np.random.default_rng(seed).random(len(ratings["user"])) < 0.8
    pairs = {
        "train": {name: values[fits] for name, values in ratings.items()},
        "validation": {name: values[~fits] for name, values in ratings.items()},
        "test": world.test,
    }
    parts = Parts.of_indices(world.n_users, world.n_items, pairs).select_known("validation", ("train",))
    return parts.select_known("test", ("train", "validation"))


def paper_world(size: int, spark: SparkSession, data: Path, seed: int) -> Parts:
    """Draw a world of the paper's simulation, read so that few pairs are rated, where both of its sweeps meet."""
    settings = Simulation(
        n_users=size,
        n_items=size,
        confounding_preference=PREFERENCE,
        confounding_outcome=OUTCOME,
        gamma_reading="scale",
        test_pairs="withheld",
        seed=seed,
    )
    return simulated(spark, settings, seed)


STUDIES: dict[str, Study] = {
    "coat": Study("Coat, existing users, random test", 5, BUDGET, DATASETS["coat"]),
    "coat-new-users": Study("Coat, new users, random test", 5, _SOME, DATASETS["coat-new-users"], choices=("mse",)),
    "coat-interventions": Study("Coat, one fit and three tests", 5, BUDGET, DATASETS["coat-interventions"], _STABLE),
    "coat-further": Study("Coat, inverse propensities", 5, BUDGET, DATASETS["coat"], _FURTHER, by_strata=True),
    "coat-without-biases": Study("Coat, without biases and intercept", 5, BUDGET, DATASETS["coat"], _WITHOUT_BIASES),
    "coat-poisson": Study("Coat, Poisson factorization", 5, _SOME, DATASETS["coat"], _BESIDE_POISSON),
    "movielens-100k": Study("MovieLens 100K, regular test", 5, _FEW, DATASETS["movielens-100k"]),
    "movielens-1m": Study("MovieLens 1M, regular test", 5, _FEW, DATASETS["movielens-1m"]),
    "simulation": Study(
        "The paper's simulation, sparse, 1,000 x 1,000", 10, _FEW, partial(paper_world, 1000), _WORLD_ROWS
    ),
    "simulation-5000": Study(
        "The paper's simulation, sparse, 5,000 x 5,000", 1, _FEW, partial(paper_world, 5000), _WORLD_ROWS
    ),
    **{
        f"world-{kind}": Study(f"Fair world: {kind}, 600 x 600", 5, _SOME, partial(fair_world, kind, 600), _WORLD_ROWS)
        for kind in get_args(Confounding)
    },
    **{
        f"further-{kind}": Study(
            f"Fair world: {kind}, 600 x 600, inverse propensities",
            5,
            _SOME,
            partial(fair_world, kind, 600),
            _FURTHER,
        )
        for kind in _SIGNS
    },
}


def als_settings(budget: Budget) -> list[tuple[int, float]]:
    """Return those that MLlib's ALS chooses among: as many as a row draws, or some more, spread over the grid."""
    return ALS_SETTINGS[:: len(ALS_SETTINGS) // budget.draws]


def units(data: Path) -> Iterator[Unit]:
    """All units, a study after the other."""
    for name, study in STUDIES.items():
        for seed in range(study.seeds):
            yield _unit(name, study, data, seed)


def _unit(name: str, study: Study, data: Path, seed: int) -> Unit:
    def run(spark: SparkSession, advance: Advance) -> Cell:
        of = Comparison(
            study.parts(spark, data, seed),
            study.rows,
            study.budget,
            seed,
            by_strata=study.by_strata,
            choices=study.choices,
            als_settings=als_settings(study.budget),
        )
        return compare(spark, of, advance)

    budget = [study.budget.draws, study.budget.max_iter, *study.choices]
    rows = [[row.name, dict(row.fixed), row.follows, row.links] for row in study.rows]
    settings = [*budget, rows]
    return Unit(f"{name}-seed-{seed}", len(study.rows) * (study.budget.draws + len(study.choices)), settings, run)


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of the page.")
@click.option("--work", default=RESULTS, type=click.Path(path_type=Path), help="Folder of the units.")
@click.option("--only", multiple=True, help="Beginning of the names of the studies to run; all without it.")
def main(data: Path, output: Path, work: Path, only: tuple[str, ...]) -> None:
    """Run what is not done yet, and write the page of all that is there."""
    configure_logging(for_people=True)
    structlog.get_logger().info("studies", work=str(work))
    run_units(build_session("studies"), [u for u in units(data) if not only or u.name.startswith(only)], work)
    write_extended_page(published(data, work), output)


def published(data: Path, work: Path) -> dict[str, tuple[str, list[Cell]]]:
    """Study -> its title and the cells of its units that are done, as the page takes them."""
    cells = {name: [read(u, work) for u in units(data) if u.name.startswith(f"{name}-seed")] for name in STUDIES}
    return {name: (STUDIES[name].title, [cell for cell in of if cell is not None]) for name, of in cells.items()}


if __name__ == "__main__":
    main()
