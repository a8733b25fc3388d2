"""Construction of blocks, from a DataFrame of ratings or from arrays in this process."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.blocks import FITTED, HELD_OUT, Block, first_place, read_only_arrays
from dcrec_spark.engine.cells import Array, pack
from dcrec_spark.engine.cluster import ClusterSide, cache_blocks
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.process import ProcessSide
from dcrec_spark.kernels.csr import by_row, index_type, take
from dcrec_spark.spark import compat

BLOCK_SCHEMA = "block int, nonzeros long, duplicate_row long, duplicate_col long, data binary"
# Routes are sorted by one number each: target block * _ROUTE_ROWS + row.
_ROUTE_ROWS = 2**40


class BlockPlan(NamedTuple):
    """How the blocks of a side are built.

    n_blocks : of the side. source : rows and blocks of the other side. values : columns that become arrays of the
    blocks. dtype : "float64" or "float32", the precision of the values. Stored in less where nothing is lost.
    own, others : the heavy rows of the side and of the other one (:mod:`dcrec_spark.engine.heavy_items`). None: none.
    """

    n_blocks: int
    source: tuple[int, int]
    values: Sequence[str]
    dtype: str
    own: Heavy | None = None
    others: Heavy | None = None


def build_cluster_side(name: str, nonzeros: DataFrame, ids: DataFrame, n_rows: int, plan: BlockPlan) -> ClusterSide:
    """Build the blocks of one side on the cluster. The pairs of its heavy rows are left out.

    name : "user" or "item", for messages. n_rows : of the side.
    nonzeros : ``row long, col long`` and the columns of the values. Row and col dense from 0. With a column
        ``held_out`` (boolean), the pairs where it is true are stored apart.
    ids : ``id, idx`` of this side, rows without nonzeros included.
    """
    n_blocks, values = plan.n_blocks, plan.values
    if plan.own is not None:
        nonzeros = nonzeros.where(~F.col("row").isin(plan.own.idx.tolist()))
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
    located = entries.unionByName(rows).withColumn("block", F.pmod("row", F.lit(n_blocks)).cast("int"))

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents = list(batches)
        if contents:
            yield build_block(pa.Table.from_batches(contents), plan)

    built = compat.place(located, n_blocks, "block").mapInArrow(build, BLOCK_SCHEMA)
    return ClusterSide(name, n_rows, n_blocks, cache_blocks(built, n_blocks))


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


def build_block(table: pa.Table, plan: BlockPlan) -> pa.RecordBatch:
    """Build one block from its nonzeros and its rows' keys, which come in any order. The result has a total order.

    Returns one row of :data:`BLOCK_SCHEMA`, with the first pair, if any, that occurs twice.
    """
    block, n_blocks = table["block"][0].as_py(), plan.n_blocks
    is_row = np.asarray(table["col"].is_null())
    position = table["row"].to_numpy() // n_blocks
    row_key = np.zeros(int(is_row.sum()), np.int64)
    row_key[position[is_row]] = table["key"].to_numpy()[is_row]

    nonzeros = table.filter(pa.array(~is_row))
    names = [name for name in ("col", *plan.values, "held_out") if name in nonzeros.column_names]
    pairs = {"row": position[~is_row], **{name: nonzeros[name].to_numpy() for name in names}}
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
