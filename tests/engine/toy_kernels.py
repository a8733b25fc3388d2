"""Kernels whose results anyone can work out by hand. Workers import this file, so it imports little."""

import numpy as np

from dcrec_spark.engine import heavy
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.spread import PartsOf, ScoresOf
from dcrec_spark.engine.turn import Turn, Update


def key_rows(turn: Turn) -> Update:
    """Rows made of the hash of their id: two columns of small whole numbers, which add up exactly."""
    rows = np.column_stack([turn.block["row_key"] % 1009, turn.block["row_key"] % 31]).astype(np.float64)
    return Update(rows, {"total": rows.sum(axis=0), "rows": np.array(float(len(rows)))}, {})


def sum_neighbours(turn: Turn, *, shift: float) -> Update:
    """row_u = shift + sum over its nonzeros of value_ui * row_i, modulo a prime so that it stays exact."""
    n_rows = len(turn.block["row_ptr"]) - 1
    row = np.repeat(np.arange(n_rows), np.diff(turn.block["row_ptr"]))
    rows = np.full((n_rows, turn.inbox.shape[1]), shift)
    np.add.at(rows, row, turn.block["value"][:, None] * turn.inbox[turn.block["col"]])
    if turn.parts:
        rows[turn.block[heavy.ROW]] += turn.parts["neighbours"]
    rows %= 10_007
    return Update(
        rows, {"total": rows.sum(axis=0), "source": turn.source_sums["total"] / len(turn.block["route_ptr"])}, {}
    )


class Spread:
    """Steps whose items may be heavy: those of :func:`sum_neighbours`."""

    def heavy_parts(self, shared: None) -> PartsOf:
        return weigh_neighbours

    def heavy_scores(self, shared: None) -> ScoresOf:
        return weigh_products


def weigh_neighbours(turn: Turn, update: Update) -> dict[str, Array]:
    """Of each heavy item the sum over its users of value_ui * row_u."""
    pairs = heavy.turned(turn.block).fitted
    neighbours = np.zeros((len(pairs.row_ptr) - 1, update.rows.shape[1]))
    row = np.repeat(np.arange(len(neighbours)), np.diff(pairs.row_ptr))
    np.add.at(neighbours, row, pairs.value("value")[:, None] * update.rows[pairs.col])
    return {"neighbours": neighbours}


def weigh_products(turn: Turn, items: Array) -> dict[str, Array]:
    """The sum over the pairs with heavy items of value_ui * row_u . row_i."""
    pairs = heavy.met(turn.block).fitted
    users = np.repeat(turn.memory["rows"], np.diff(pairs.row_ptr), axis=0)
    return {"scores": np.array(pairs.value("value") @ np.einsum("nf,nf->n", users, items[pairs.col]))}


def remember(turn: Turn) -> Update:
    """Counts its turns, and leaves a mark that only its own block would leave; rows tell both."""
    count = turn.memory["turn"] + 1 if turn.memory else np.array(1.0)
    own = float(not turn.memory or np.array_equal(turn.memory["mark"], turn.block["row_key"]))
    rows = np.full((len(turn.block["row_key"]), 2), [float(count), own])
    return Update(rows, {"strangers": np.array(1.0 - own)}, {"turn": count, "mark": turn.block["row_key"]})


def spoil_one(turn: Turn, *, key: int, entry: float) -> Update:
    """All rows are ones, but for one entry of the row with the given key."""
    rows = np.ones((len(turn.block["row_key"]), 2))
    rows[turn.block["row_key"] == key, 1] = entry
    return Update(rows, {}, {})
