"""Figures of several seeds with their intervals, paired differences, and the tables that show them.

Rows of a cell share their bootstrap replications of users and items: the mean over seeds is taken replication by
replication. Seeds are a sample too, so each replication draws them again. An interval then covers other users, other
items and other seeds.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.bootstrap import percentile_interval
from studies.units import Cell

CONFIDENCE = 0.95
# Fewer seeds are too few to claim a difference.
FEWEST_SEEDS = 4
NAMES = {"ndcg": "NDCG", "recall@5": "Recall@5", "mse": "MSE", "item_mse": "MSE by item", "item_mae": "MAE by item"}
UNPREDICTING = ("popularity", "random")
_PACKAGES = ("pyspark", "numpy", "scipy", "pyarrow")


class Figure(NamedTuple):
    """Mean over seeds. low, high : its interval over users, items, seeds; NaN without resampling. sd : over seeds."""

    value: float
    low: float
    high: float
    sd: float
    seeds: int

    @property
    def excludes_zero(self) -> bool:
        """Whether a difference is one, by enough seeds to claim so."""
        return self.seeds >= FEWEST_SEEDS and (self.low > 0 or self.high < 0)

    def as_text(self, sign: str = "") -> str:
        """1.234 [1.200, 1.250]; bold where a difference excludes zero."""
        text = f"{self.value:{sign}.3f} [{self.low:{sign}.3f}, {self.high:{sign}.3f}]"
        return f"**{text}**" if sign and self.excludes_zero else text


def figure(cells: Sequence[Cell], choice: str, row: str, metric: str, group: str | None = None) -> Figure:
    """One row's metric over the seeds."""
    return _summary([_replications(cell, choice, row, metric, group) for cell in cells])


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
    return _summary([one - other for one, other in pairs])


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


def row_names(cells: Sequence[Cell], choice: str) -> list[str]:
    """List the rows that all cells have, in their order."""
    return list(cells[0][choice]["metrics"])


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    heads = list(heads)
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def made_by(command: str) -> str:
    """How a page was made, and with which versions."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"Made by `{command}`, with Python {platform.python_version()}, {packages}; not edited by hand."


def _largest(
    cells: Sequence[Cell], choice: str, row: str, metric: str, groups: Sequence[str | None]
) -> NDArray[np.float64]:
    """Return the largest of the means over seeds, then that of each replication."""
    by_test = [[_replications(cell, choice, row, metric, group) for cell in cells] for group in groups]
    return np.asarray(np.max([_resample(seeds) for seeds in by_test], axis=0))


def _replications(cell: Cell, choice: str, row: str, metric: str, group: str | None) -> NDArray[np.float64]:
    part = cell[choice] if group is None else cell[choice]["groups"][group]
    return np.array(part["metrics"][row][metric], np.float64)


def _summary(seeds: Sequence[NDArray[np.float64]]) -> Figure:
    sd = float(np.std([seed[0] for seed in seeds], ddof=1)) if len(seeds) > 1 else float("nan")
    return _as_figure(_resample(seeds), len(seeds))._replace(sd=sd)


def _resample(seeds: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean over seeds, then that of each replication, which draws as many seeds again."""
    values, n = np.array(seeds), len(seeds)
    # The same draws for every figure, so that those of a row and of its difference from another go together.
    draws = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), values.shape[1] - 1)
    return np.append(values[:, 0].mean(), (values[:, 1:] * draws.T).sum(axis=0) / n)


def _as_figure(resampled: NDArray[np.float64], seeds: int) -> Figure:
    low, high = percentile_interval(resampled[1:], CONFIDENCE) or (np.nan, np.nan)
    return Figure(float(resampled[0]), low, high, float("nan"), seeds)
