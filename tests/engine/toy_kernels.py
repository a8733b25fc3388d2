"""Kernels whose results anyone can work out by hand. Workers import this file, so it imports little."""

import numpy as np

from dcrec_spark.arrays import Array
from dcrec_spark.engine.half_step import Arrays, Update


def key_rows(block: Arrays, memory: Arrays, inbox: Array, source: Arrays, shared: Arrays) -> Update:
    """Rows made of the hash of their id: two columns of small whole numbers, which add up exactly."""
    rows = np.column_stack([block["row_key"] % 1009, block["row_key"] % 31]).astype(np.float64)
    return Update(rows, {"total": rows.sum(axis=0), "rows": np.array(float(len(rows)))}, {})


def sum_neighbours(block: Arrays, memory: Arrays, inbox: Array, source: Arrays, shared: Arrays) -> Update:
    """row_u = shift + sum over its nonzeros of value_ui * row_i, modulo a prime so that it stays exact."""
    n_rows = len(block["row_ptr"]) - 1
    row = np.repeat(np.arange(n_rows), np.diff(block["row_ptr"]))
    rows = np.full((n_rows, inbox.shape[1]), float(shared["shift"]))
    np.add.at(rows, row, block["value"][:, None] * inbox[block["col"]])
    rows %= 10_007
    return Update(rows, {"total": rows.sum(axis=0), "source": source["total"] / len(block["route_ptr"])}, {})


def remember(block: Arrays, memory: Arrays, inbox: Array, source: Arrays, shared: Arrays) -> Update:
    """Counts its turns, and leaves a mark that only its own block would leave; rows tell both."""
    turn = memory["turn"] + 1 if memory else np.array(1.0)
    own = float(not memory or np.array_equal(memory["mark"], block["row_key"]))
    rows = np.full((len(block["row_key"]), 2), [float(turn), own])
    return Update(rows, {"strangers": np.array(1.0 - own)}, {"turn": turn, "mark": block["row_key"]})


def spoil_one(block: Arrays, memory: Arrays, inbox: Array, source: Arrays, shared: Arrays) -> Update:
    """All rows are ones, but for one entry of the row with the given key."""
    rows = np.ones((len(block["row_key"]), 2))
    rows[block["row_key"] == shared["key"], 1] = shared["entry"]
    return Update(rows, {}, {})
