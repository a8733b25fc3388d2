"""Profiles of the paper's studies: sizes that end on a machine of two cores, and the sweeps over simulated data."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from studies.compare import Comparison, compare
from studies.datasets import simulated
from studies.paper_simulation import HIGHEST_RATING, Reading, Simulation, draw_block, draw_items, expected_rating
from studies.rows import Budget, Row, plain_rows, rows
from studies.units import Cell

# Value of each confounding while the other one varies.
PREFERENCE, OUTCOME = 0.6, 3.0
SWEEPS = ("preference", "outcome")
SPREAD = "spread"
_USERS = 500


@dataclass(frozen=True)
class OfData:
    """A comparison on one data set: so many seeds (of splits, starts and draws), each tuned with ``budget``."""

    seeds: int
    budget: Budget
    placebos: bool = False
    with_als: bool = True

    @property
    def rows(self) -> list[Row]:
        """Rows to compare."""
        return plain_rows() if self.budget.plain else rows(self.placebos)


@dataclass(frozen=True)
class OfSimulation:
    """A sweep over simulated data of ``size`` users and items, with ``runs`` data sets for each point.

    spreads : rates in place of the paper's 0.3; the larger the rate, the fewer pairs are rated.
    """

    reading: Reading
    size: int
    n_factors: int
    runs: int
    budget: Budget
    preference: tuple[float, ...] = ()
    outcome: tuple[float, ...] = ()
    test_pairs_per_user: int = 40
    spreads: tuple[float, ...] = ()

    @property
    def points(self) -> Iterator["Point"]:
        """All points, every point's first run before the second ones."""
        for run in range(self.runs):
            for sweep, values in zip((*SWEEPS, SPREAD), (self.preference, self.outcome, self.spreads), strict=True):
                for at in values:
                    yield Point(sweep, at, run)

    def rows_of(self, sweep: str) -> list[Row]:
        """Rows to compare at the points of a sweep."""
        return rows(placebos=False) if sweep != SPREAD else plain_rows() if self.budget.plain else rows()


@dataclass(frozen=True)
class Point:
    """One data set of a sweep. sweep : which confounding varies, or SPREAD. at : its value."""

    sweep: str
    at: float
    run: int

    def settings(self, of: OfSimulation) -> Simulation:
        """Describe the data set: runs share no random number, points of a run all they can."""
        return Simulation(
            n_users=of.size,
            n_items=of.size,
            n_factors=of.n_factors,
            confounding_preference=self.at if self.sweep == "preference" else PREFERENCE,
            confounding_outcome=self.at if self.sweep == "outcome" else OUTCOME,
            gamma_reading=of.reading,
            gamma_spread=self.at if self.sweep == SPREAD else 0.3,
            # The paper's tests may be of pairs that are in the ratings too; where density is the question, none is.
            test_pairs="withheld" if self.sweep == SPREAD else "all",
            test_pairs_per_user=of.test_pairs_per_user,
            seed=self.run,
        )


@dataclass(frozen=True)
class Profile:
    """What is run. cut : what the paper has and this does not, as the page says it."""

    data: dict[str, OfData]
    simulations: dict[str, OfSimulation]
    cut: tuple[str, ...]


class Truth(NamedTuple):
    """Of all pairs: the MSE of their expectations, the variance of the ratings, the share at the top of the scale."""

    noise: float
    variance: float
    at_the_top: float


def truth(of: OfSimulation, point: Point) -> Truth:
    """Compute the limits of a data set from some of its users.

    The least error on unseen pairs, that of the mean rating, and how many ratings cannot be ranked apart.
    """
    settings = point.settings(of)
    block = draw_block(settings, np.arange(min(of.size, _USERS)), draw_items(settings))
    noise = (block.rating - expected_rating(block.outcome_rate)) ** 2
    return Truth(float(noise.mean()), float(block.rating.var()), float((block.rating == HIGHEST_RATING).mean()))


def density(settings: Simulation) -> float:
    """Compute the share of all pairs that are rated, those too that a test withholds."""
    items, exposed = draw_items(settings), 0
    for start in range(0, settings.n_users, _USERS):
        users = np.arange(start, min(start + _USERS, settings.n_users))
        exposed += int(draw_block(settings, users, items).exposed.sum())
    return exposed / (settings.n_users * settings.n_items)


def compare_point(of: OfSimulation, point: Point, spark: SparkSession) -> Cell:
    """Compare the rows on one simulated data set; with intervals where its test pairs are in no fit."""
    settings, replications = point.settings(of), 200 if point.sweep == SPREAD else 0
    parts, compared = simulated(spark, settings, point.run), of.rows_of(point.sweep)
    comparison = Comparison(parts, compared, of.budget, point.run, replications, with_als=False, by_strata=False)
    return {"density": round(density(settings), 4), **compare(spark, comparison)}


_POINTS = (0.0, 0.3, 0.6, 1.0), (0.0, 1.0, 3.0, 5.0)
# From the dense reading to the sparse one, which is a rate of 3.3.
_SPREADS = (0.3, 0.6, 1.0, 1.7, 3.3)
_PLAIN = Budget(4, plain=True)
_QUICK = Budget(2, 5, 20)
_quick = partial(OfSimulation, size=120, n_factors=10, runs=1, budget=_QUICK)
_quick_sweeps = partial(_quick, preference=(0.0, 0.6, 1.0), outcome=(0.0, 3.0))

PROFILES = {
    "quick": Profile(
        data={"coat": OfData(1, Budget(draws=4, most_rank=20), placebos=True)},
        simulations={
            "dense": _quick_sweeps("rate"),
            "sparse": _quick_sweeps("scale"),
            "between": _quick("rate", spreads=(0.6, 1.7)),
            "plain-5": _quick("rate", n_factors=5, budget=Budget(4, max_iter=20, plain=True), spreads=(1.0,)),
        },
        cut=(
            "One seed, 4 draws of settings for each row, ranks up to 20; simulations of 120 x 120 instead of "
            "5,000 x 5,000, one run instead of 10, a few points of each sweep; no MovieLens, no new users.",
        ),
    ),
    "full": Profile(
        data={
            "coat": OfData(4, Budget(draws=12), placebos=True),
            "coat-plain": OfData(4, _PLAIN, with_als=False),
            "coat-new-users": OfData(4, Budget(draws=8, most_rank=50)),
            "movielens-100k": OfData(2, Budget(draws=6, most_rank=50)),
            "movielens-1m": OfData(1, Budget(draws=2, most_rank=10, max_iter=20), with_als=False),
        },
        simulations={
            "dense": OfSimulation("rate", 250, 10, 2, Budget(3, 10, 30), *_POINTS),
            "sparse": OfSimulation("scale", 250, 10, 2, Budget(3, 10, 30), *_POINTS),
            "between": OfSimulation("rate", 250, 10, 2, Budget(6, 20), spreads=_SPREADS),
            "plain-10": OfSimulation("rate", 250, 10, 3, _PLAIN, spreads=_SPREADS),
            "plain-5": OfSimulation("rate", 250, 5, 3, _PLAIN, spreads=_SPREADS),
        },
        cut=(
            "Simulations are of 250 x 250 users and items instead of 5,000 x 5,000, 2 runs instead of 10; every row of "
            "them chooses among 3 draws of settings, of ranks up to 10 (between the readings 6, ranks up to 20).",
            "4 seeds of Coat, 2 of MovieLens 100K (6 draws, ranks up to 50), one of MovieLens 1M (2 draws, ranks up to "
            "10, at most 20 sweeps; without MLlib's ALS). Coat's new users: 8 draws, ranks up to 50.",
            "Settings are drawn from the grid, as many for each row (12 on Coat), not searched whole. Placebos are "
            "compared on Coat and on the data sets between the readings alone.",
        ),
    ),
}
# For those who have it.
YAHOO = dict.fromkeys(("yahoo-r3", "yahoo-r3-new-users"), OfData(3, Budget(draws=4, most_rank=20)))
