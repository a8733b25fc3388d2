"""Cells of several seeds -> one figure with its interval, and paired differences.

Rows of a cell share their bootstrap replications of users and items, and so do the seeds of a data set, whose test is
the same: the mean over seeds is taken replication by replication. Seeds are a sample too: each replication draws as
many of them anew. So an interval says what other users, other items and other seeds would have changed. The spread over
seeds stands beside it.
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
    cells: Sequence[Cell], choice: str, row: str, against: str, metric: str, group: str | None = None
) -> Figure:
    """row minus against, user by user and seed by seed."""
    pairs = [[_replications(cell, choice, name, metric, group) for name in (row, against)] for cell in cells]
    return _summed([one - other for one, other in pairs])


def row_names(cells: Sequence[Cell], choice: str) -> list[str]:
    """List the rows that all cells have, in their order."""
    return list(cells[0][choice]["metrics"])


def _replications(cell: Cell, choice: str, row: str, metric: str, group: str | None) -> NDArray[np.float64]:
    part: Any = cell[choice]
    if group is not None:
        part = part["groups"][group]
    return np.array(part["metrics"][row][metric], np.float64)


def _summed(seeds: Sequence[NDArray[np.float64]]) -> Figure:
    table, n = np.array(seeds), len(seeds)
    # The same draws for every figure, so that those of a row and of its difference from another go together.
    draws = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), table.shape[1] - 1)
    resampled = (table[:, 1:] * draws.T).sum(axis=0) / n
    low, high = percentile_interval(resampled, CONFIDENCE) or (np.nan, np.nan)
    sd = float(np.std(table[:, 0], ddof=1)) if n > 1 else float("nan")
    return Figure(float(table[:, 0].mean()), low, high, sd, n)
