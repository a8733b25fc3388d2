"""Construction of blocks, from a DataFrame of ratings or from arrays in this process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.blocks import FITTED, HELD_OUT, Block, first_place, read_only_arrays
from dcrec_spark.engine.cells import Array, Arrays, cells_in, pack, unpack
from dcrec_spark.engine.cluster import ClusterSide, cache_blocks
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.process import ProcessSide
from dcrec_spark.kernels.csr import by_row, group_values, index_type, take
from dcrec_spark.spark import compat

PART_SCHEMA = "block int, data binary"
CELL_SCHEMA = f"side string, {PART_SCHEMA}"
BLOCK_SCHEMA = "block int, nonzeros long, duplicate_row long, duplicate_col long, data binary"
# Routes are sorted by one number each: target block * _ROUTE_ROWS + row.
_ROUTE_ROWS = 2**40
# Pairs that a worker splits at once: some 150 MB.
_PORTION_ROWS = 2**22
OTHER = {"user": "item", "item": "user"}


class BlockPlan(NamedTuple):
    """How the blocks of a side are built.

    n_blocks : of the side. source : rows and blocks of the other side. values : columns that become arrays of the
    blocks. dtype : "float64" or "float32", the precision of the values. Stored in less where nothing is lost.
    own, others : the heavy rows of the side and of the other one (:mod:`dcrec_spark.engine.heavy_items`). None: none.
    held_out : whether pairs say that they are held out. on_disk : of :class:`dcrec_spark.engine.cluster.ClusterSide`.
    """

    n_blocks: int
    source: tuple[int, int]
    values: Sequence[str]
    dtype: str
    own: Heavy | None = None
    others: Heavy | None = None
    held_out: bool = False
    on_disk: bool = False

    @property
    def columns(self) -> list[str]:
        """Return what a pair has."""
        return ["row", "col", *self.values, *(["held_out"] if self.held_out else [])]


def columns_of(table: pa.Table) -> dict[str, Array]:
    """Return the columns of a table as arrays."""
    return {name: table[name].to_numpy() for name in table.column_names}


def split_pairs(
    pairs: DataFrame, plans: Mapping[str, BlockPlan], read: Callable[[pa.Table], Arrays] = columns_of
) -> DataFrame:
    """Split pairs into cells of the blocks of both sides, in one pass: :data:`CELL_SCHEMA`.

    pairs : tables of them that ``read`` turns into ``user_idx, item_idx``, dense from 0, and the values. With a column
        ``held_out`` (boolean), the pairs where it is true are stored apart.
    plans : "user", "item" -> of the side. Its blocks have no pairs of its heavy rows.
    """

    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _portions(batches):
            columns = read(table)
            for side, plan in plans.items():
                own = {"row": columns[f"{side}_idx"], "col": columns[f"{OTHER[side]}_idx"]}
                own |= {name: columns[name] for name in plan.columns if name not in own}
                if plan.own is not None:
                    stays = ~np.isin(own["row"], plan.own.idx)
                    own = {name: column[stays] for name, column in own.items()}
                for cell in split_by_block(own, plan.n_blocks):
                    yield cell.add_column(0, "side", pa.array([side]))

    return pairs.mapInArrow(split, CELL_SCHEMA)


def build_cluster_side(name: str, cells: DataFrame, ids: DataFrame, n_rows: int, plan: BlockPlan) -> ClusterSide:
    """Build the blocks of one side on the cluster.

    name : "user" or "item". n_rows : of the side. cells : of :func:`split_pairs`.
    ids : ``id, idx`` of this side, rows without nonzeros included.
    """
    rows = ids.select(F.col("idx").alias("row"), F.xxhash64(F.col("id").cast("string")).alias("key"))

    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _portions(batches):
            yield from split_by_block(columns_of(table), plan.n_blocks)

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents = list(batches)
        if contents:
            parts = [unpack(cell) for batch in contents for cell in cells_in(batch["data"])]
            yield build_block(contents[0]["block"][0].as_py(), parts, plan)

    parts = cells.where(F.col("side") == name).drop("side").unionByName(rows.mapInArrow(split, PART_SCHEMA))
    built = compat.place(parts, plan.n_blocks, "block").mapInArrow(build, BLOCK_SCHEMA)
    cached = cache_blocks(built, plan.n_blocks, plan.on_disk)
    return ClusterSide(name, n_rows, plan.n_blocks, cached, on_disk=plan.on_disk)


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather small batches into tables of up to some millions of rows."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(each.num_rows for each in gathered) >= _PORTION_ROWS:
            yield pa.Table.from_batches(gathered)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered)


def split_by_block(columns: Arrays, n_blocks: int) -> Iterator[pa.RecordBatch]:
    """Split pairs, or rows with their keys, by the block of their row, into cells: a shuffle of rows costs far more.

    columns : ``row``, and whatever else. In the cells a row is a position in its block.
    """
    row = columns["row"]
    begins, order = group_values(row % n_blocks, n_blocks, np.arange(len(row), dtype=index_type(len(row))))
    columns = {**columns, "row": row // n_blocks}
    columns = {name: take(_compact(name, column), order) for name, column in columns.items()}
    for number, (start, end) in enumerate(pairwise(begins)):
        cell = pack({name: column[start:end] for name, column in columns.items()})
        yield pa.RecordBatch.from_pydict({"block": pa.array([number], pa.int32()), "data": pa.array([cell])})


def _compact(name: str, column: Array) -> Array:
    if name in ("row", "col"):
        return column.astype(index_type(int(column.max(initial=0)) + 1))
    return column if name == "key" else narrow(column)


def build_process_side(
    name: str,
    pairs: Mapping[str, Array],
    row_key: Array,
    n_source_rows: int,
    values: Sequence[str],
    dtype: str,
) -> ProcessSide:
    """Build the block of a side in this process.

    pairs : ``row``, ``col``, the ``values`` and perhaps ``held_out``, (n,) each.
    row_key : (rows,) hashes of the ids.
    name : as for :func:`build_cluster_side`. n_source_rows : rows of the other side.
    values, dtype : see :class:`BlockPlan`.
    """
    arrays, repeated = _contents(pairs, row_key, BlockPlan(1, (n_source_rows, 1), values, dtype), {})
    return ProcessSide(
        name, len(row_key), Block(read_only_arrays(arrays)), int(repeated[-1]) if len(repeated) else None
    )


def build_block(block: int, parts: Sequence[Arrays], plan: BlockPlan) -> pa.RecordBatch:
    """Build one block from its parts, which come in any order. The result has a total order.

    parts : of :func:`split_by_block`: pairs, or rows with their keys.
    Returns one row of :data:`BLOCK_SCHEMA`, with the first pair, if any, that occurs twice.
    """
    n_blocks, rows = plan.n_blocks, [part for part in parts if "key" in part]
    of_pairs = [part for part in parts if "key" not in part]
    place = _concatenate(rows, "row", np.int64)
    row_key = np.zeros(len(place), np.int64)
    row_key[place] = _concatenate(rows, "key", np.int64)
    pairs = {name: _concatenate(of_pairs, name) for name in plan.columns}
    if plan.held_out:
        pairs["held_out"] = pairs["held_out"].astype(np.bool_)
    own = {} if plan.own is None else plan.own.of_block(block, n_blocks)
    arrays, repeated = _contents(pairs, row_key, plan, own)
    duplicate: tuple[int | None, int | None] = None, None
    if len(repeated):
        duplicate = int(pairs["row"][repeated[0]]) * n_blocks + block, int(pairs["col"][repeated[0]])
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int32()),
            "nonzeros": pa.array([len(pairs["row"])], pa.int64()),
            "duplicate_row": pa.array([duplicate[0]], pa.int64()),
            "duplicate_col": pa.array([duplicate[1]], pa.int64()),
            "data": pa.array([pack(arrays)], pa.binary()),
        }
    )


def _concatenate(parts: Sequence[Arrays], name: str, dtype: type[np.generic] = np.uint8) -> Array:
    """Concatenate arrays, in the type that holds all of them. ``dtype`` without any."""
    return np.concatenate([np.empty(0, dtype), *(part[name] for part in parts)])


def _contents(
    pairs: Mapping[str, Array], row_key: Array, plan: BlockPlan, own: Mapping[str, Array]
) -> tuple[dict[str, Array], Array]:
    """Return the arrays of a block, and the positions in ``pairs`` of pairs that occur twice.

    pairs : ``row``, as a position in the block, ``col``, the ``values`` and perhaps ``held_out``, (n,) each.
    own : arrays about the heavy rows of the block.
    """
    (n_source_rows, n_source_blocks), others = plan.source, plan.others
    index = index_type(max(n_source_rows, len(row_key)))
    row, column = (pairs[name].astype(index, copy=False) for name in ("row", "col"))
    place = _place(column, n_source_rows, n_source_blocks)
    row_ptr, order = by_row(row, place, len(row_key), n_source_rows)
    place, row = take(place, order), np.repeat(np.arange(len(row_key), dtype=index), np.diff(row_ptr))
    column = place if n_source_blocks == 1 else take(column, order)
    repeated = order[1:][(place[1:] == place[:-1]) & (row[1:] == row[:-1])]
    in_every_inbox = np.empty(0, np.int64) if others is None else _place(others.idx, *plan.source)
    need_at, col = _needed(place, n_source_rows, in_every_inbox)
    target = column % n_source_blocks if n_source_blocks > 1 else np.zeros(1, np.int64)
    arrays: dict[str, Array] = {
        "row_key": row_key,
        "need_at": need_at.astype(np.int64),
        **_routes(*_targets(row, target, column, n_source_blocks, own, others), n_source_blocks, len(row_key)),
        **own,
    }
    if others is not None:
        arrays |= {
            heavy_items.AT: np.searchsorted(need_at, in_every_inbox),
            heavy_items.BLOCK: others.idx % n_source_blocks,
        }
    numbers = {name: _in_precision(take(pairs[name], order), plan.dtype) for name in plan.values}
    for prefix, of_part in _parts(pairs, order).items():
        arrays[f"{prefix}row_ptr"] = np.searchsorted(row[of_part], np.arange(len(row_key) + 1, dtype=index)).astype(
            np.int64
        )
        arrays[f"{prefix}col"] = col[of_part]
        arrays |= {f"{prefix}{name}": narrow(number[of_part]) for name, number in numbers.items()}
    return arrays, repeated


def _place(column: Array, n_source_rows: int, n_source_blocks: int) -> Array:
    if n_source_blocks == 1:
        return column
    block = column % n_source_blocks
    return np.asarray(first_place(n_source_rows, n_source_blocks, block) + column // n_source_blocks)


def _needed(place: Array, n_source_rows: int, always: Array) -> tuple[Array, Array]:
    is_needed = np.zeros(n_source_rows, np.bool_)
    is_needed[place] = True
    is_needed[always] = True
    return np.flatnonzero(is_needed), take(np.cumsum(is_needed, dtype=np.int32) - 1, place)


def _parts(pairs: Mapping[str, Array], order: Array) -> dict[str, Array | slice]:
    if "held_out" not in pairs:
        return {FITTED: slice(None)}
    held_out = take(pairs["held_out"], order)
    return {FITTED: ~held_out, HELD_OUT: held_out}


def _in_precision(values: Array, dtype: str) -> Array:
    """Return numbers in single or double precision. Those of a byte are the same in either."""
    return values if values.dtype == np.uint8 else values.astype(dtype, copy=False)


def narrow(values: Array) -> Array:
    """Store numbers in the smallest type that holds them exactly: the blocks travel at every half-step."""
    if values.dtype == np.uint8:
        return values
    for dtype in (np.uint8, np.float32):
        with np.errstate(invalid="ignore", over="ignore"):  # numbers that do not fit differ, and are not narrowed
            small = values.astype(dtype)
        if np.array_equal(small, values):
            return small
    return values


def _targets(
    row: Array, target: Array, column: Array, n_targets: int, own: Mapping[str, Array], others: Heavy | None
) -> tuple[Array, Array]:
    """Return rows and the blocks that need them: one for each pair that is not of a heavy row.

    Blocks of heavy rows leave their pairs out, so that they need no row for these. Heavy rows go to all blocks.
    """
    if others is not None:
        names = ~np.isin(column, others.idx)
        row, target = row[names], np.broadcast_to(target, row.shape)[names]
    if len(own.get(heavy_items.ROW, ())):
        rows = own[heavy_items.ROW]
        target = np.concatenate([np.broadcast_to(target, row.shape), np.repeat(np.arange(n_targets), len(rows))])
        row = np.concatenate([row, np.tile(rows, n_targets)])
    return row, target


def _routes(row: Array, target: Array, n_targets: int, n_rows: int) -> dict[str, Array]:
    """List the block's rows, of ``n_rows``, that each target block needs: those with a nonzero in it."""
    if n_targets == 1:
        needed = np.flatnonzero(np.bincount(row, minlength=n_rows))
    else:
        needed = np.unique(target.astype(np.int64) * _ROUTE_ROWS + row)
    return {
        "route_ptr": np.searchsorted(needed // _ROUTE_ROWS, np.arange(n_targets + 1)).astype(np.int64),
        "route_pos": (needed % _ROUTE_ROWS).astype(np.int64),
    }
