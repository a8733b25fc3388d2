"""Messages between blocks, and from blocks to the driver.

A half-step of a block writes a few messages, rows of a table ``to_block, from_block, kind, data``. With two blocks of
users and two of items, user block 1 writes these, where the results stay on the cluster::

    to_block  from_block  kind
    null      1           sums       to the driver: the block's part of the sums over all users
    1         1           memory     to itself, for its next half-step
    0         1           rows       the rows that item block 0 needs, in the order of its inbox
    1         1           rows       the rows that item block 1 needs
    1         1           parts      its sums over the pairs of the heavy items in item block 1, if there are any

Where the driver collects the results, one message has all rows of the block, and ``to_block`` is null. Heavy rows
(:mod:`dcrec_spark.engine.heavy_items`) go to the driver in a message of their own. ``data`` is a cell of arrays
(:mod:`dcrec_spark.engine.cells`). Only the engine reads and writes messages.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcrec_spark.engine.cells import Array, Cell, cells_in, pack, unpack

SCHEMA = "to_block int, from_block int, kind string, data binary"
_ARROW_SCHEMA = pa.schema(
    [("to_block", pa.int32()), ("from_block", pa.int32()), ("kind", pa.string()), ("data", pa.binary())]
)
# Name of the only array of a message of rows, and of the memory of a block that remembers only its rows.
ROWS = "rows"


class Kind(StrEnum):
    """The content of a message."""

    MEMORY = "memory"
    ROWS = "rows"
    SUMS = "sums"
    PARTS = "parts"
    HEAVY = "heavy"


class Message(NamedTuple):
    """One message. ``to_block`` is None for the driver. Data that came from Spark is a view of Arrow's memory."""

    to_block: int | None
    from_block: int
    kind: Kind
    data: Cell

    @classmethod
    def of(cls, to_block: int | None, from_block: int, kind: Kind, /, **arrays: Array) -> "Message":
        """Make a message of arrays. Of heavy rows these are ``rows`` (h, width) and ``slot`` (h,), their positions."""
        return cls(to_block, from_block, kind, pack(arrays))


def to_table(messages: Sequence[Message]) -> pa.Table:
    """Write messages to a table of :data:`SCHEMA`, each a piece of its own: Spark reads one at a time."""
    pieces = [pa.record_batch([[value] for value in message], schema=_ARROW_SCHEMA) for message in messages]
    return pa.Table.from_batches(pieces, _ARROW_SCHEMA)


def from_table(table: pa.Table) -> list[Message]:
    """Read the messages of a table, in the order of the sending blocks, without a copy of their data."""
    if not table.num_rows:
        return []
    headers = table.drop_columns("data").to_pylist()
    order = pc.sort_indices(table["from_block"]).to_pylist()  # a stable sort: messages of one block keep their order
    cells = cells_in(table["data"])
    return [
        Message(headers[n]["to_block"], headers[n]["from_block"], Kind(headers[n]["kind"]), cells[n]) for n in order
    ]


def read_rows(messages: Iterable[Message]) -> Array | None:
    """Concatenate the rows of all messages, in the order of the messages. None if no message has rows."""
    parts = [unpack(message.data)[ROWS] for message in messages if message.kind is Kind.ROWS]
    return np.concatenate(parts) if parts else None


def read_memories(messages: Iterable[Message]) -> dict[int, Cell]:
    """Return the cell of each block's memory."""
    return {message.from_block: message.data for message in messages if message.kind is Kind.MEMORY}


def read_heavy_rows(messages: Iterable[Message]) -> Array | None:
    """Return the heavy rows of all blocks, in the order of their slots. None if there are none."""
    contents = [unpack(message.data) for message in messages if message.kind is Kind.HEAVY]
    if not contents:
        return None
    rows = np.concatenate([arrays[ROWS] for arrays in contents])
    return np.asarray(rows[np.argsort(np.concatenate([arrays["slot"] for arrays in contents]))])


def add_up(messages: Iterable[Message], kind: Kind = Kind.SUMS) -> dict[str, Array]:
    """Add up the sums of all blocks, in the order of the messages."""
    totals: dict[str, Array] = {}
    for message in messages:
        if message.kind is kind:
            for name, part in unpack(message.data).items():
                # The copy frees the memory that the first part is a view of.
                totals[name] = totals[name] + part if name in totals else part.copy()
    return totals
