"""Half-steps of intervals and overlap: each block returns numbers of its rows, or of its wanted pairs.

The blocks of both sides hold the wanted pairs as held-out ones. A block's memory is read as a table with the
``idx`` of its rows, and of pairs the ``idx`` of the other side, by :func:`memory_frame`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.engine.blocks import index_at
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.kernels.certainty import effective_size
from dcrec_spark.kernels.exposure import SMALLEST
from dcrec_spark.kernels.sensitivity import sensitivity_bounds
from dcrec_spark.models.families.base import Assessor
from dcrec_spark.models.fitting.confounder import propensities
from dcrec_spark.models.fitting.layout import Layout

# Name of the array of places in the block: of each row, or of the row of each wanted pair.
ROW = "row"
OVERLAP = ("effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high")


class Other(NamedTuple):
    """The other side: its rows and its blocks."""

    n_rows: int
    n_blocks: int

    def idx(self, inputs: KernelInput) -> Array:
        """Return the ``idx`` of the other side's row of each wanted pair, (P,)."""
        return np.asarray(index_at(self.n_rows, self.n_blocks, inputs.block.need_at)[inputs.block.held_out.col])


def assess(inputs: KernelInput, *, assessor: Assessor, other: Other, tolerance: float) -> Update:
    """Assess the wanted pairs of one block by the family's assessor, and count the rows that disagree with the model.

    tolerance : how far a row that the ratings make may be from the model's, relative to its size.
    """
    certainty = assessor(inputs)
    distance, size = (np.linalg.norm(rows, axis=1) for rows in (certainty.solved - certainty.fitted, certainty.fitted))
    disagreeing = ~(distance <= tolerance * size)
    memory = {ROW: _row_of_pairs(inputs), "other_idx": other.idx(inputs), "spread": certainty.spread}
    if certainty.prediction is not None:
        memory["prediction"] = certainty.prediction
    sums = {**certainty.sums, "disagreeing": np.array(float(disagreeing.sum()))}
    return Update(np.empty((len(distance), 0)), sums, memory)


def beyond(inputs: KernelInput, *, other: Other) -> Update:
    """Say of each wanted pair of a block of users whether its p lies below that of all that the user has rated."""
    block = inputs.block
    smallest = _smallest(block.fitted.row_ptr, propensities(inputs, block.fitted, is_fitted=True))
    row = _row_of_pairs(inputs)
    beyond = propensities(inputs, block.held_out, is_fitted=False) < smallest[row]
    memory = {ROW: row, "other_idx": other.idx(inputs), "extrapolates": beyond}
    return Update(np.empty((len(smallest), 0)), {}, memory)


def overlap(inputs: KernelInput, *, odds: float) -> Update:
    """Compute what the ratings show of the rows of a block: of each how many ratings, and OVERLAP."""
    rated = inputs.block.fitted
    p, rating = propensities(inputs, rated, is_fitted=True), rated.value("rating").astype(np.float64)
    row_ptr, floored = rated.row_ptr, np.maximum(p, SMALLEST)
    table = np.full((len(row_ptr) - 1, len(OVERLAP)), np.nan)
    table[:, 1] = _smallest(row_ptr, p)
    for row in np.flatnonzero(np.diff(row_ptr)):
        of_row = slice(row_ptr[row], row_ptr[row + 1])
        bounds = sensitivity_bounds(rating[of_row], floored[of_row], odds)
        table[row, [0, 2, 3, 4]] = effective_size(1.0 / floored[of_row]), *bounds
    columns = dict(zip(OVERLAP, np.ascontiguousarray(table.T), strict=True))
    memory = {ROW: np.arange(len(table)), "ratings": np.diff(row_ptr), **columns}
    return Update(np.empty((len(table), 0)), {}, memory)


def _smallest(row_ptr: Array, p: Array) -> Array:
    """Return each row's smallest p, (n,). Infinite for a row without any."""
    smallest = np.full(len(row_ptr) - 1, np.inf)
    np.minimum.at(smallest, np.repeat(np.arange(len(smallest)), np.diff(row_ptr)), p)
    return smallest


def _row_of_pairs(inputs: KernelInput) -> Array:
    row_ptr = inputs.block.held_out.row_ptr
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))


def memory_frame(
    layout: Layout, is_user: bool, state: State, row_idx: str, columns: Mapping[str, tuple[str, str]]
) -> DataFrame:
    """Return the memories of a side's blocks as a table: the rows' ``idx`` as ``row_idx``, and ``columns``.

    columns : name in the memory -> name and SQL type in the table.
    """
    n_blocks = (layout.users if is_user else layout.items).n_blocks

    def rows(block: int, memory: Arrays) -> pa.RecordBatch:
        idx = np.asarray(memory[ROW], np.int64) * n_blocks + block
        return pa.RecordBatch.from_pydict(
            {row_idx: pa.array(idx), **{name: pa.array(memory[key]) for key, (name, _) in columns.items()}}
        )

    schema = ", ".join([f"{row_idx} long", *(f"{name} {kind}" for name, kind in columns.values())])
    return layout.memory_table(is_user, state, rows, schema)
