"""Cells of several seeds -> one figure with its interval, and paired differences.

Rows of a cell share their bootstrap replications of users and items, whatever the choice of their settings: the mean
over seeds is taken replication by replication. Seeds are a sample too: each replication draws as many of them anew. So
an interval says what other users, other items and other seeds would have changed. The spread over seeds stands beside
it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.bootstrap import percentile_interval
from studies.compare import Cell

CONFIDENCE = 0.95
# Of fewer seeds too little is known to claim a difference.
FEWEST_SEEDS = 4


class Figure(NamedTuple):
    """Mean over seeds. low, high : its interval over users, items, seeds; NaN without resampling. sd : over seeds."""

    value: float
    low: float
    high: float
    sd: float
    seeds: int

    @property
    def leaves_out_zero(self) -> bool:
        """Whether a difference is one, of seeds enough to say so."""
        return self.seeds >= FEWEST_SEEDS and (self.low > 0 or self.high < 0)


def figure(cells: Sequence[Cell], choice: str, row: str, metric: str, group: str | None = None) -> Figure:
    """One row's metric over the seeds."""
    return _summed([_replications(cell, choice, row, metric, group) for cell in cells])


def difference(
    cells: Sequence[Cell],
    choice: str,
    row: str,
    against: str,
    metric: str,
    group: str | None = None,
    chosen_by: str | None = None,
) -> Figure:
    """row minus against, user by user and seed by seed. chosen_by : how ``against`` was chosen, if not as ``row``."""
    sides = [(choice, row), (chosen_by or choice, against)]
    pairs = [[_replications(cell, by, name, metric, group) for by, name in sides] for cell in cells]
    return _summed([one - other for one, other in pairs])


def worst(cells: Sequence[Cell], choice: str, row: str, metric: str, groups: Sequence[str | None]) -> Figure:
    """Return the largest error of a row on several tests."""
    return _as_figure(_largest(cells, choice, row, metric, groups), len(cells))


def worst_difference(
    cells: Sequence[Cell],
    choice: str,
    row: str,
    against: str,
    metric: str,
    groups: Sequence[str | None],
    chosen_by: str | None = None,
) -> Figure:
    """Return the largest error of a row minus the largest of another, each on the test where it is."""
    sides = [(choice, row), (chosen_by or choice, against)]
    one, other = (_largest(cells, by, name, metric, groups) for by, name in sides)
    return _as_figure(one - other, len(cells))


def _largest(
    cells: Sequence[Cell], choice: str, row: str, metric: str, groups: Sequence[str | None]
) -> NDArray[np.float64]:
    """Return the largest of the means over seeds, then that of each replication."""
    by_test = [[_replications(cell, choice, row, metric, group) for cell in cells] for group in groups]
    return np.asarray(np.max([_resampled(seeds) for seeds in by_test], axis=0))


def row_names(cells: Sequence[Cell], choice: str) -> list[str]:
    """List the rows that all cells have, in their order."""
    return list(cells[0][choice]["metrics"])


def _replications(cell: Cell, choice: str, row: str, metric: str, group: str | None) -> NDArray[np.float64]:
    part: Any = cell[choice]
    if group is not None:
        part = part["groups"][group]
    return np.array(part["metrics"][row][metric], np.float64)


def _summed(seeds: Sequence[NDArray[np.float64]]) -> Figure:
    sd = float(np.std([seed[0] for seed in seeds], ddof=1)) if len(seeds) > 1 else float("nan")
    return _as_figure(_resampled(seeds), len(seeds))._replace(sd=sd)


def _resampled(seeds: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean over seeds, then that of each replication, which draws as many seeds anew."""
    table, n = np.array(seeds), len(seeds)
    # The same draws for every figure, so that those of a row and of its difference from another go together.
    draws = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), table.shape[1] - 1)
    return np.append(table[:, 0].mean(), (table[:, 1:] * draws.T).sum(axis=0) / n)


def _as_figure(resampled: NDArray[np.float64], seeds: int) -> Figure:
    low, high = percentile_interval(resampled[1:], CONFIDENCE) or (np.nan, np.nan)
    return Figure(float(resampled[0]), low, high, float("nan"), seeds)
