"""Cells of several seeds -> one figure with its interval, and paired differences.

Rows of a cell share their bootstrap replications, and so do the seeds of a data set, whose test users are the same: so
the mean over seeds is taken replication by replication, and its interval says what other users would have changed. The
spread over seeds stands beside it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.bootstrap import percentile_interval
from studies.compare import Cell

CONFIDENCE = 0.95


class Figure(NamedTuple):
    """value : mean over seeds. low, high : its interval over users, NaN without resampling. sd : over seeds."""

    value: float
    low: float
    high: float
    sd: float

    @property
    def leaves_out_zero(self) -> bool:
        """Whether a difference is one."""
        return self.low > 0 or self.high < 0


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
    mean = np.mean(seeds, axis=0)
    low, high = (percentile_interval(mean[1:], CONFIDENCE) if len(mean) > 1 else None) or (np.nan, np.nan)
    values = [seed[0] for seed in seeds]
    return Figure(float(mean[0]), low, high, float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"))
