"""Poisson bootstrap: the variation of a metric over users and over items, in one pass over any partitions.

A replication draws each user and each item Poisson(1) times instead of drawing n of n (Hanley and MacGibbon 2006,
Chamandy et al. 2012), and a test rating takes part as often as its user times its item (Owen and Eckles 2012): both
are samples, and an interval over users alone is too narrow. A draw depends on (seed, replication, key of the id) alone,
so partitions may be added up in any way, and models that are compared meet the same resamples.

A row's metric moves by sum_c (V_c - 1) move_c with the columns' draws V, move_c being by how much it falls without that
cell (the jackknife's linear part): a metric of the drawn cells themselves would be biased where a row has few of them,
and lost where it has none. The mean over rows is weighted by the rows' own draws.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import pdtr

from dcrec_spark.kernels.gamma import noise
from dcrec_spark.kernels.metrics import PerRow

Floats = NDArray[np.float64]

# 16 random bits choose a weight. The probabilities are off by less than 2^-16, mean and variance by less than 1e-4.
_BITS = 16
_UP_TO = pdtr(np.arange(_BITS), 1.0)  # the probability of a weight of at most 0, 1, ...
_WEIGHT_OF: NDArray[np.uint8] = np.searchsorted(_UP_TO, (np.arange(1 << _BITS) + 0.5) / (1 << _BITS)).astype(np.uint8)
# A uniform number has 53 random bits: three draws of 16, the fourth word stays empty.
_DRAWS = 3
# Weights of rows and columns that are held as numbers at a time: 32 MB.
_HELD = 1 << 22


class Cells(NamedTuple):
    """Cells of a table, row by row: row_ptr (n + 1,), col (nnz,). row_key (n,), col_key (m,) hashes of the ids.

    weight : (nnz,) how much each counts in means over cells. None: all alike.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int64]
    row_key: NDArray[np.int64]
    col_key: NDArray[np.int64]
    weight: Floats | None = None


class Pooled(NamedTuple):
    """A mean over all cells by their weights, not over rows. value : (nnz,). counted : (nnz,) 1 or 0. None: all."""

    value: Floats
    counted: Floats | None = None


def poisson_weights(seed: int, key: NDArray[np.int64], replications: int) -> NDArray[np.uint8]:
    """Draw how often each row takes part in each replication, (n, replications).

    key : (n,) hashes of the rows' ids. More replications keep the first ones.
    """
    words = -(-replications // _DRAWS)
    bits = (noise(seed, key, words) * 2.0 ** (_BITS * _DRAWS)).astype("<u8")
    draws = bits.view("<u2").reshape(len(key), words, 4)[:, :, :_DRAWS].reshape(len(key), words * _DRAWS)
    weights: NDArray[np.uint8] = _WEIGHT_OF[draws[:, :replications]]
    return weights


def resampled_sums(
    cells: Cells, metrics: Sequence[PerRow | Pooled], seeds: tuple[int, int], replications: int
) -> Floats:
    """Add up metrics over the rows: as they are, then in each replication.

    seeds : of the draws of rows and of columns, which differ: a user and an item of one name share no draws.

    Returns (1 + replications, metrics, 2): total and weight (of rows, or cells, or their weights), whose ratio is the
    metric. Sums of disjoint sets of rows may be added.
    """
    row_weights = _with_plain(seeds[0], cells.row_key, replications)
    col_weights = _with_plain(seeds[1], cells.col_key, replications)
    weight_of_cell = np.ones(len(cells.col)) if cells.weight is None else cells.weight
    sums = np.zeros((1 + replications, len(metrics), 2))
    width = max(1, _HELD // (len(row_weights) + len(col_weights) + 1))
    for start in range(0, 1 + replications, width):
        part = slice(start, start + width)
        of_rows, of_cols = (weights[:, part].astype(np.float64) for weights in (row_weights, col_weights))
        drawn = _row_sums(cells, weight_of_cell, of_cols)
        for number, metric in enumerate(metrics):
            if isinstance(metric, Pooled):
                counted = weight_of_cell if metric.counted is None else weight_of_cell * metric.counted
                total = _row_sums(cells, counted * metric.value, of_cols)
                weight = drawn if metric.counted is None else _row_sums(cells, counted, of_cols)
            else:
                weight = metric.counted[:, None]
                total = weight * (metric.value[:, None] + _row_sums(cells, metric.move, of_cols - 1.0))
            sums[part, number] = np.stack([(of_rows * total).sum(axis=0), (of_rows * weight).sum(axis=0)], axis=1)
    return sums


def _with_plain(seed: int, key: NDArray[np.int64], replications: int) -> NDArray[np.uint8]:
    """Draw the weights of the replications, after a column of ones: the rows as they are."""
    return np.hstack([np.ones((len(key), 1), np.uint8), poisson_weights(seed, key, replications)])


def _row_sums(cells: Cells, values: Floats, of_cols: Floats) -> Floats:
    shape = len(cells.row_key), len(cells.col_key)
    return np.asarray(csr_array((values, cells.col, cells.row_ptr), shape=shape) @ of_cols)


def percentile_interval(replicates: Floats, confidence: float) -> tuple[float, float] | None:
    """Bound the middle ``confidence`` of the replicates. None when none of them is defined.

    A replication that drew no user at all is NaN, and is left out.
    """
    defined = replicates[~np.isnan(replicates)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
