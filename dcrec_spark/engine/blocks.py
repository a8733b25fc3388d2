"""The nonzeros of one side as CSR blocks, built once and kept on the cluster.

Row ``idx`` of a side with ``n`` blocks lives in block ``idx % n`` at position ``idx // n``, so that blocks are
even whatever the order of the ids. With two user blocks, three item blocks and the ratings

    user 0: item 1 -> 5, item 4 -> 3;   user 2: item 3 -> 4

user block 0 holds the rows of users 0 and 2 and looks like this::

    row_key   [h(u0), h(u2)]     a hash of each row's id, the seed of its noise
    row_ptr   [0, 2, 3]          where each row's nonzeros begin
    need_at   [1, 2, 3]          the source rows it needs, as places in all source blocks, in a row:
                                 item 3 (block 0), items 1 and 4 (block 1); the order of its inbox
    col       [1, 2, 0]          each nonzero's source row, as a place in that inbox
    rating    [5, 3, 4]          and one array for each further value column
    route_ptr [0, 1, 2, 2]       item blocks 0 and 1 need one of these rows each, block 2 none
    route_pos [1, 0]             ... which: the mirror image of the item blocks' needs

Held-out pairs, where there are any, are no nonzeros of the fit, but need the same source rows: they come in arrays of
their own, ``held_row_ptr``, ``held_col`` and ``held_`` before the name of each value, with the same inbox. Kernels
read a block as :class:`Block`, and never spell those names out::

    block.row_key, block.fitted.row_ptr, block.fitted.value("rating"), block.held_out.value("rating")
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, Arrays, pack, unpack

BLOCK_SCHEMA = "block int, nonzeros long, duplicate_row long, duplicate_col long, data binary"
# Before the names of the arrays of held-out pairs; those of the fit have no prefix.
_FITTED, _HELD_OUT = "", "held_"
# A route is sorted as one number, the target block times this plus the row.
_ROUTE_ROWS = 2**40


class Pairs(NamedTuple):
    """Pairs of a block, those of the fit or those held out.

    row_ptr : (n + 1,) where each row's pairs begin. col : (nnz,) each pair's place in the inbox.
    """

    row_ptr: Array
    col: Array
    arrays: Arrays
    prefix: str

    def named(self, value: str) -> str:
        """Return the name of the block's array that has this value of the pairs."""
        return f"{self.prefix}{value}"

    def value(self, name: str) -> Array:
        """Return a value of each pair, (nnz,): "rating", "a_hat"; KeyError where the block has none."""
        return self.arrays[self.named(name)]

    def has(self, name: str) -> bool:
        """Whether the pairs have this value."""
        return self.named(name) in self.arrays


class Block(Mapping[str, Array]):
    """One block of a side: its arrays by name, and what every block has by attribute."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def row_key(self) -> Array:
        """(n,) the hash of each row's id."""
        return self["row_key"]

    @property
    def need_at(self) -> Array:
        """(m,) the source rows of the inbox, as places in all source blocks."""
        return self["need_at"]

    @property
    def fitted(self) -> Pairs:
        """The nonzeros of the fit."""
        return self._pairs(_FITTED)

    @property
    def held_out(self) -> Pairs:
        """The held-out pairs; KeyError where the side has none."""
        return self._pairs(_HELD_OUT)

    @property
    def parts(self) -> list[Pairs]:
        """All pairs: those of the fit, and those held out where there are any."""
        return [self.fitted, self.held_out] if f"{_HELD_OUT}col" in self else [self.fitted]

    @property
    def routes(self) -> list[Array]:
        """For each target block the positions of the rows that it needs."""
        pointer = self["route_ptr"].tolist()
        return [self["route_pos"][start:end] for start, end in pairwise(pointer)]

    def _pairs(self, prefix: str) -> Pairs:
        return Pairs(self[f"{prefix}row_ptr"], self[f"{prefix}col"], self, prefix)


def read_block(cell: pa.BinaryScalar) -> Block:
    """Read a block from its cell, without a copy."""
    return Block(unpack(cell.as_buffer()))


@dataclass(frozen=True)
class Side:
    """Users or items: how many rows, in how many blocks, and the blocks themselves.

    frame : one row for each block, in the partition of its number: ``block int, ..., data binary``.
    held : whether the driver holds the results of this side's half-steps; else they stay on the cluster.
    """

    name: str
    n_rows: int
    n_blocks: int
    frame: DataFrame
    held: bool = False

    def rows_in(self, block: int) -> int:
        """Count the rows of a block."""
        return rows_in_block(self.n_rows, self.n_blocks, block)

    def places_of(self, block: int) -> slice:
        """Locate a block's rows where all blocks of the side stand one after the other."""
        start = int(first_place(self.n_rows, self.n_blocks, np.asarray(block)))
        return slice(start, start + self.rows_in(block))

    def release(self) -> None:
        """Free the cached blocks."""
        self.frame.unpersist()


@dataclass(frozen=True)
class LocalSide:
    """A side whose only block is in this process: for data that one task can work on, without Spark."""

    name: str
    n_rows: int
    data: pa.BinaryScalar
    n_blocks: ClassVar[int] = 1

    def release(self) -> None:
        """Do nothing: no part of it is kept on the cluster."""


AnySide = Side | LocalSide


def rows_in_block(n_rows: int, n_blocks: int, block: int) -> int:
    """Count the rows, of ``n_rows``, that fall into a block.

    >>> [rows_in_block(7, 3, block) for block in range(3)]
    [3, 2, 2]
    """
    return (n_rows - block + n_blocks - 1) // n_blocks


def first_place(n_rows: int, n_blocks: int, block: Array) -> Array:
    """Locate the first row of a block where all blocks of a side stand one after the other.

    >>> first_place(7, 3, np.arange(3))
    array([0, 3, 5])
    """
    return block * (n_rows // n_blocks) + np.minimum(block, n_rows % n_blocks)


def index_at(n_rows: int, n_blocks: int, place: Array) -> Array:
    """Turn places, such as those of ``need_at``, into the idx of the rows that stand there.

    >>> index_at(7, 3, np.arange(7))
    array([0, 3, 6, 1, 4, 2, 5])
    """
    starts = first_place(n_rows, n_blocks, np.arange(n_blocks))
    block = np.searchsorted(starts, place, side="right") - 1
    return (place - starts[block]) * n_blocks + block


def block_count(n_rows: int, nonzeros: int, cores: int, wanted: int | None, target_nonzeros: int) -> int:
    """Choose the number of blocks: what was asked for, else as many for each core as keep blocks small enough.

    Few blocks make few, long tasks: below some ten million nonzeros the fixed cost of a task decides.

    Parameters
    ----------
    n_rows, nonzeros : of the side. cores : tasks that run side by side. wanted : what was asked for, or None.
    target_nonzeros : how many nonzeros a block may have.
    """
    rounds = -(-nonzeros // (cores * target_nonzeros))
    return max(1, min(cores * rounds if wanted is None else wanted, n_rows))


def build_side(
    name: str,
    nonzeros: DataFrame,
    ids: DataFrame,
    n_rows: int,
    n_blocks: int,
    source: tuple[int, int],
    values: Sequence[str],
    dtype: str,
) -> Side:
    """Build the blocks of one side.

    Parameters
    ----------
    name : "user" or "item", for messages.
    nonzeros : ``row long, col long`` and the ``values`` columns; row and col dense from 0. With a column ``held_out``
        (boolean), the pairs where it is true are laid apart.
    ids : ``id, idx`` of this side. A row without nonzeros gets its place too.
    n_rows, n_blocks, source : this side's rows and blocks; the other side's (rows, blocks).
    values : the columns of ``nonzeros`` that become arrays of the blocks.
    dtype : "float64" or "float32", the precision of the values; stored in less where nothing is lost.
    """
    no_values = [F.lit(None).cast("double").alias(v) for v in values]
    flags = ["held_out"] if "held_out" in nonzeros.columns else []
    entries = nonzeros.select("row", "col", F.lit(0).cast("long").alias("key"), *values, *flags)
    rows = ids.select(
        F.col("idx").alias("row"),
        F.lit(None).cast("long").alias("col"),
        F.xxhash64(F.col("id").cast("string")).alias("key"),
        *no_values,
        *[F.lit(False).alias(flag) for flag in flags],
    )
    placed = entries.unionByName(rows).withColumn("block", F.pmod("row", F.lit(n_blocks)).cast("int"))

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents = list(batches)
        if contents:
            yield build_block(pa.Table.from_batches(contents), n_blocks, source, values, dtype)

    built = placed.repartitionById(n_blocks, "block").mapInArrow(build, BLOCK_SCHEMA)
    return Side(name, n_rows, n_blocks, place_blocks(built, n_blocks))


def local_side(
    name: str,
    pairs: Mapping[str, Array],
    row_key: Array,
    n_source_rows: int,
    values: Sequence[str],
    dtype: str,
) -> LocalSide:
    """Build the one block of a side that stays in this process.

    Parameters
    ----------
    pairs : ``row``, ``col``, the ``values`` and perhaps ``held_out``, (n,) each.
    row_key : (rows,) hashes of the ids.
    name, values, dtype : as for :func:`build_side`. n_source_rows : rows of the other side.
    """
    n, rows = len(pairs["row"]), len(row_key)
    columns = {
        "row": np.concatenate([pairs["row"], np.arange(rows)]).astype(np.int64),
        "col": pa.array(np.concatenate([pairs["col"], np.zeros(rows)]).astype(np.int64), mask=np.arange(n + rows) >= n),
        "key": np.concatenate([np.zeros(n, np.int64), row_key]),
        "block": np.zeros(n + rows, np.int32),
        **{v: np.concatenate([pairs[v], np.zeros(rows)]) for v in values},
    }
    if "held_out" in pairs:
        columns["held_out"] = np.concatenate([pairs["held_out"], np.zeros(rows, np.bool_)])
    built = build_block(pa.table(columns), 1, (n_source_rows, 1), values, dtype)
    return LocalSide(name, rows, built.column("data")[0])


def place_blocks(built: DataFrame, n_blocks: int) -> DataFrame:
    """Put one block into each partition, in a way that Spark knows of, so that later only messages have to move."""
    return built.repartitionById(n_blocks, "block").persist(StorageLevel.MEMORY_AND_DISK)


def build_block(
    table: pa.Table, n_blocks: int, source: tuple[int, int], values: Sequence[str], dtype: str
) -> pa.RecordBatch:
    """Build one block from its nonzeros and its rows' keys, which come in any order; the result has a total order.

    Returns one row of :data:`BLOCK_SCHEMA`, with the first pair, if any, that comes twice.
    """
    block = table["block"][0].as_py()
    is_row = np.asarray(table["col"].is_null())
    position = table["row"].to_numpy() // n_blocks
    row_key = np.zeros(int(is_row.sum()), np.int64)
    row_key[position[is_row]] = table["key"].to_numpy()[is_row]

    nonzeros = table.filter(pa.array(~is_row))
    row, column = position[~is_row], nonzeros["col"].to_numpy()
    n_source_rows, n_source_blocks = source
    target = column % n_source_blocks
    place = first_place(n_source_rows, n_source_blocks, target) + column // n_source_blocks
    order = np.lexsort((place, row))
    row, place, target = row[order], place[order], target[order]
    need_at, col = np.unique(place, return_inverse=True)
    arrays: dict[str, Array] = {
        "row_key": row_key,
        "need_at": need_at.astype(np.int64),
        **_routes(row, target, n_source_blocks),
    }
    numbers = {name: nonzeros[name].to_numpy()[order].astype(dtype) for name in values}
    for prefix, of_part in _parts(nonzeros, order).items():
        arrays[f"{prefix}row_ptr"] = np.searchsorted(row[of_part], np.arange(len(row_key) + 1)).astype(np.int64)
        arrays[f"{prefix}col"] = col[of_part].astype(np.int32)
        arrays |= {f"{prefix}{name}": _narrowed(number[of_part]) for name, number in numbers.items()}
    same = np.flatnonzero((np.diff(row) == 0) & (np.diff(place) == 0))
    duplicate = (int(row[same[0]]) * n_blocks + block, int(column[order[same[0]]])) if len(same) else (None, None)
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int32()),
            "nonzeros": pa.array([len(row)], pa.int64()),
            "duplicate_row": pa.array([duplicate[0]], pa.int64()),
            "duplicate_col": pa.array([duplicate[1]], pa.int64()),
            "data": pa.array([pack(arrays)], pa.binary()),
        }
    )


def _parts(nonzeros: pa.Table, order: Array) -> dict[str, Array | slice]:
    """Choose among the ordered nonzeros those of the fit and those held out, by the prefix of their arrays."""
    if "held_out" not in nonzeros.column_names:
        return {_FITTED: slice(None)}
    held_out = nonzeros["held_out"].to_numpy()[order]
    return {_FITTED: ~held_out, _HELD_OUT: held_out}


def _narrowed(values: Array) -> Array:
    """Store numbers in the smallest type that holds them exactly: the blocks travel at every half-step."""
    for narrow in (np.uint8, np.float32):
        small = values.astype(narrow)
        if np.array_equal(small, values):
            return small
    return values


def _routes(row: Array, target: Array, n_targets: int) -> dict[str, Array]:
    """List the block's rows that each target block needs: those with a nonzero in it."""
    needed = np.unique(target * _ROUTE_ROWS + row)
    return {
        "route_ptr": np.searchsorted(needed // _ROUTE_ROWS, np.arange(n_targets + 1)).astype(np.int64),
        "route_pos": (needed % _ROUTE_ROWS).astype(np.int64),
    }
