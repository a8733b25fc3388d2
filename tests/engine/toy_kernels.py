"""Small kernels with exact results. Workers import this file, so it imports little."""

import numpy as np

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.steps import PartsOf, ScoresOf


def key_rows(inputs: KernelInput) -> Update:
    """Rows made of the hash of their id: two columns of small whole numbers, which add up exactly."""
    rows = np.column_stack([inputs.block["row_key"] % 1009, inputs.block["row_key"] % 31]).astype(np.float64)
    return Update(rows, {"total": rows.sum(axis=0), "rows": np.array(float(len(rows)))}, {})


def sum_neighbours(inputs: KernelInput, *, shift: float) -> Update:
    """row_u = shift + sum over its nonzeros of value_ui * row_i, modulo a prime so that it stays exact."""
    n_rows = len(inputs.block["row_ptr"]) - 1
    row = np.repeat(np.arange(n_rows), np.diff(inputs.block["row_ptr"]))
    rows = np.full((n_rows, inputs.inbox.shape[1]), shift)
    np.add.at(rows, row, inputs.block["value"][:, None] * inputs.inbox[inputs.block["col"]])
    if inputs.parts:
        rows[inputs.block[heavy_items.ROW]] += inputs.parts["neighbours"]
    rows %= 10_007
    source = inputs.source_sums["total"] / len(inputs.block["route_ptr"])
    return Update(rows, {"total": rows.sum(axis=0), "source": source}, {})


class Splits:
    """Steps whose items may be heavy: those of :func:`sum_neighbours`."""

    def heavy_parts(self, shared: None) -> PartsOf:
        return weigh_neighbours

    def heavy_scores(self, shared: None) -> ScoresOf:
        return weigh_products


def weigh_neighbours(inputs: KernelInput, update: Update) -> dict[str, Array]:
    pairs = heavy_items.transpose(inputs.block).fitted
    neighbours = np.zeros((len(pairs.row_ptr) - 1, update.rows.shape[1]))
    row = np.repeat(np.arange(len(neighbours)), np.diff(pairs.row_ptr))
    np.add.at(neighbours, row, pairs.value("value")[:, None] * update.rows[pairs.col])
    return {"neighbours": neighbours}


def weigh_products(inputs: KernelInput, items: Array) -> dict[str, Array]:
    pairs = heavy_items.heavy_pairs(inputs.block).fitted
    users = np.repeat(inputs.memory["rows"], np.diff(pairs.row_ptr), axis=0)
    return {"scores": np.array(pairs.value("value") @ np.einsum("nf,nf->n", users, items[pairs.col]))}


def remember(inputs: KernelInput) -> Update:
    """Counts its half-steps, and leaves a mark that only its own block would leave; rows have both."""
    count = inputs.memory["step"] + 1 if inputs.memory else np.array(1.0)
    own = float(not inputs.memory or np.array_equal(inputs.memory["mark"], inputs.block["row_key"]))
    rows = np.full((len(inputs.block["row_key"]), 2), [float(count), own])
    return Update(rows, {"strangers": np.array(1.0 - own)}, {"step": count, "mark": inputs.block["row_key"]})


def spoil_one(inputs: KernelInput, *, key: int, entry: float) -> Update:
    rows = np.ones((len(inputs.block["row_key"]), 2))
    rows[inputs.block["row_key"] == key, 1] = entry
    return Update(rows, {}, {})
