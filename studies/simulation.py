"""The paper's sweeps: how strong the confounder is, in what users like and in how they rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from studies.compare import CHOICES, Advance, Cell, Comparison, compare
from studies.datasets import simulated
from studies.paper_simulation import HIGHEST_RATING, Simulation, draw_block, draw_items, expected_rating
from studies.profiles import OfSimulation
from studies.rows import Row, plain_rows, rows

# What stays where it is while the other one moves.
PREFERENCE, OUTCOME = 0.6, 3.0
SWEEPS = ("preference", "outcome")
SPREAD = "spread"
_USERS = 500


@dataclass(frozen=True)
class Point:
    """One world of a sweep. sweep : which of the two moves, or SPREAD. at : where it is."""

    sweep: str
    at: float
    run: int

    def settings(self, of: OfSimulation) -> Simulation:
        """Describe the world: runs of a sweep share no random number, points of a run all they can."""
        data = Simulation(
            n_users=of.size,
            n_items=of.size,
            n_factors=of.n_factors,
            confounding_preference=self.at if self.sweep == "preference" else PREFERENCE,
            confounding_outcome=self.at if self.sweep == "outcome" else OUTCOME,
            gamma_reading=of.reading,
            test_pairs_per_user=of.test_pairs_per_user,
            seed=self.run,
        )
        # The paper's tests may be of pairs that are in the ratings too; where density is the question, none is.
        sparser = {"gamma_spread": self.at, "test_pairs": "withheld"}
        return data.model_copy(update=sparser) if self.sweep == SPREAD else data


def points(of: OfSimulation) -> Iterator[Point]:
    """All worlds of both sweeps, every point's first run before the second ones."""
    for run in range(of.runs):
        for sweep, values in zip(SWEEPS, (of.preference, of.outcome), strict=True):
            for at in values:
                yield Point(sweep, at, run)


class Truth(NamedTuple):
    """Of all pairs: the MSE of their expectations, the variance of the ratings, the share at the top of the scale."""

    noise: float
    variance: float
    at_the_top: float


def truth(of: OfSimulation, point: Point) -> Truth:
    """Compute the limits of a world from some of its users.

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


def n_steps(of: OfSimulation, n_rows: int) -> int:
    """Fits of one world."""
    return n_rows * (of.budget.draws + len(CHOICES))


def compare_rank(spark: SparkSession, of: OfSimulation, rank: int, run: int, advance: Advance) -> Cell:
    """Classical and deconfounded rows whose outcome models all have one rank, where the sweeps meet."""
    chosen = replace(of, budget=replace(of.budget, rank=rank))
    compared = [row for row in rows(placebos=False) if row.adjustment != "ipw"]
    return _compare(spark, chosen, Point("outcome", OUTCOME, run), compared, advance)


def compare_point(spark: SparkSession, of: OfSimulation, point: Point, advance: Advance) -> Cell:
    """Compare the nine rows on one world."""
    return _compare(spark, of, point, rows(placebos=False), advance)


def compare_spread(spark: SparkSession, of: OfSimulation, point: Point, advance: Advance) -> Cell:
    """Compare the rows of :func:`spread_rows`, with intervals, tested on pairs that no fit has seen."""
    return _compare(spark, of, point, spread_rows(of), advance, replications=200)


def spread_rows(of: OfSimulation) -> list[Row]:
    """List the nine rows and the placebos; or those of plain settings."""
    return plain_rows() if of.budget.plain else rows()


def _compare(
    spark: SparkSession,
    of: OfSimulation,
    point: Point,
    compared: Sequence[Row],
    advance: Advance,
    replications: int = 0,
) -> Cell:
    parts = simulated(spark, point.settings(of), point.run)
    comparison = Comparison(parts, compared, of.budget, point.run, replications, with_als=False, by_strata=False)
    return {"density": round(density(point.settings(of)), 4), **compare(spark, comparison, advance)}
