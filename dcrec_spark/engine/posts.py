"""Posts: how the results of a half-step travel, from block to block and to the driver.

Every block leaves a few rows in an outbox, a table ``to_block, from_block, kind, data``. With two blocks of users and
two of items, a half-step of the users whose results stay on the cluster leaves of user block 1::

    to_block  from_block  kind
    null      1           sums       for the driver: the block's part of the sums over all users
    1         1           memory     for the block itself, at its next turn
    0         1           message    the rows that item block 0 needs, in the order of its inbox
    1         1           message    the rows that item block 1 needs
    1         1           parts      its sums over the pairs of the heavy items of item block 1, where there are any

Where the driver holds the results, one message has all of the block's rows, and ``to_block`` null. Of heavy rows
(:mod:`dcrec_spark.engine.heavy`) the driver gets a post of their own, wherever the results are. ``data`` is a cell of
arrays (:mod:`dcrec_spark.engine.cells`). Nothing outside of the engine reads or writes posts.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, Arrays, Cell, cells_in, pack, unpack

SCHEMA = "to_block int, from_block int, kind string, data binary"
_ARROW_SCHEMA = pa.schema(
    [("to_block", pa.int32()), ("from_block", pa.int32()), ("kind", pa.string()), ("data", pa.binary())]
)
# Name of the only array of a message, and of the memory of a block that remembers nothing but its rows.
ROWS = "rows"
_SLOT = "slot"


class Kind(StrEnum):
    """What a post is for."""

    MEMORY = "memory"
    MESSAGE = "message"
    SUMS = "sums"
    PARTS = "parts"
    HEAVY = "heavy"


class Post(NamedTuple):
    """One row of an outbox; ``to_block`` is None for the driver. What came from Spark is a view of Arrow's memory."""

    to_block: int | None
    from_block: int
    kind: Kind
    data: Cell


def message(to_block: int | None, from_block: int, rows: Array) -> Post:
    """Make the post that brings rows (n, width) to a block of the other side, or to the driver."""
    return Post(to_block, from_block, Kind.MESSAGE, pack({ROWS: rows}))


def memory(block: int, arrays: Arrays) -> Post:
    """Make the post that a block leaves for itself."""
    return Post(block, block, Kind.MEMORY, pack(arrays))


def sums(from_block: int, arrays: Arrays) -> Post:
    """Make the post with a block's part of its side's sums."""
    return Post(None, from_block, Kind.SUMS, pack(arrays))


def parts(to_block: int, from_block: int, arrays: Arrays) -> Post:
    """Make the post with a block's part of the sums over the pairs of another block's heavy rows."""
    return Post(to_block, from_block, Kind.PARTS, pack(arrays))


def heavy(from_block: int, slot: Array, rows: Array) -> Post:
    """Make the post that tells the driver the heavy rows of a block, (h, width), and their places among all, (h,)."""
    return Post(None, from_block, Kind.HEAVY, pack({_SLOT: slot, ROWS: rows}))


def table_of(posts: Sequence[Post]) -> pa.Table:
    """Lay posts out as a table of :data:`SCHEMA`."""
    columns = zip(*posts, strict=True) if posts else [[]] * len(_ARROW_SCHEMA)
    return pa.table([list(column) for column in columns], schema=_ARROW_SCHEMA)


def posts_in(table: pa.Table) -> list[Post]:
    """Read the posts of a table, in the order of the blocks that sent them, without a copy of their data."""
    if not table.num_rows:
        return []
    said = table.drop_columns("data").to_pylist()
    order = pc.sort_indices(table["from_block"]).to_pylist()  # a stable sort: the posts of a block keep their order
    cells = cells_in(table["data"])
    return [Post(said[n]["to_block"], said[n]["from_block"], Kind(said[n]["kind"]), cells[n]) for n in order]


def of_kind(outbox: DataFrame, *kinds: Kind) -> DataFrame:
    """Choose the posts of one kind, or of several."""
    return outbox.where(F.col("kind").isin([kind.value for kind in kinds]))


def memory_cells(outbox: DataFrame) -> DataFrame:
    """Read the memories of a side: ``block int, data binary``."""
    return of_kind(outbox, Kind.MEMORY).select(F.col("to_block").alias("block"), "data")


def memory_outbox(cells: DataFrame) -> DataFrame:
    """Lay the memories of a side, ``block int, data binary``, out as an outbox with nothing else in it."""
    block = F.col("block")
    kind = F.lit(Kind.MEMORY.value).alias("kind")
    return cells.select(block.alias("to_block"), block.alias("from_block"), kind, "data")


def rows_in(posts: Iterable[Post]) -> Array | None:
    """Join the rows of all messages, in the order of the posts; None where there is no message."""
    parts = [unpack(post.data)[ROWS] for post in posts if post.kind is Kind.MESSAGE]
    return np.concatenate(parts) if parts else None


def memories_in(posts: Iterable[Post]) -> dict[int, Cell]:
    """Take the cell of each block's memory."""
    return {post.from_block: post.data for post in posts if post.kind is Kind.MEMORY}


def heavy_in(posts: Iterable[Post]) -> Array | None:
    """Take the heavy rows of all blocks, in the order of their places among all; None where there are none."""
    told = [unpack(post.data) for post in posts if post.kind is Kind.HEAVY]
    if not told:
        return None
    rows = np.concatenate([arrays[ROWS] for arrays in told])
    return np.asarray(rows[np.argsort(np.concatenate([arrays[_SLOT] for arrays in told]))])


def total_of(posts: Iterable[Post], kind: Kind = Kind.SUMS) -> dict[str, Array]:
    """Add up the sums of all blocks, in the order of the posts."""
    totals: dict[str, Array] = {}
    for post in posts:
        if post.kind is kind:
            for name, part in unpack(post.data).items():
                totals[name] = totals[name] + part if name in totals else part.copy()  # what it views can go
    return totals
