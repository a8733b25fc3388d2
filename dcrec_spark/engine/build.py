"""How the blocks of a side are made: from the nonzeros of a cluster, or of arrays in this process."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine import heavy
from dcrec_spark.engine.blocks import FITTED, HELD_OUT, Block, LocalSide, Side, first_place, kept_arrays
from dcrec_spark.engine.cells import Array, pack
from dcrec_spark.engine.heavy import Heavy
from dcrec_spark.kernels.csr import by_row, index_type, taken

BLOCK_SCHEMA = "block int, nonzeros long, duplicate_row long, duplicate_col long, data binary"
# Routes are sorted by one number each: target block * _ROUTE_ROWS + row.
_ROUTE_ROWS = 2**40


class HeavyRows(NamedTuple):
    """Which rows are heavy: of the side whose blocks are built, and of the other one; None: none of them."""

    own: Heavy | None = None
    others: Heavy | None = None


NONE_HEAVY = HeavyRows()


def build_side(
    name: str,
    nonzeros: DataFrame,
    ids: DataFrame,
    n_rows: int,
    n_blocks: int,
    source: tuple[int, int],
    values: Sequence[str],
    dtype: str,
    heavies: HeavyRows = NONE_HEAVY,
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
    heavies : see :mod:`dcrec_spark.engine.heavy`; the pairs of heavy rows are left out of this side's blocks.
    """
    if heavies.own is not None:
        nonzeros = nonzeros.where(~F.col("row").isin(heavies.own.idx.tolist()))
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
            yield build_block(pa.Table.from_batches(contents), n_blocks, source, values, dtype, heavies)

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
    arrays, twice = _contents(pairs, row_key, (n_source_rows, 1), values, dtype, {}, None)
    return LocalSide(name, len(row_key), Block(kept_arrays(arrays)), int(twice[-1]) if len(twice) else None)


def place_blocks(built: DataFrame, n_blocks: int) -> DataFrame:
    """Put one block into each partition, in a way that Spark knows of, so that later only messages have to move."""
    return built.repartitionById(n_blocks, "block").persist(StorageLevel.MEMORY_AND_DISK)


def build_block(
    table: pa.Table,
    n_blocks: int,
    source: tuple[int, int],
    values: Sequence[str],
    dtype: str,
    heavies: HeavyRows = NONE_HEAVY,
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
    names = [name for name in ("col", *values, "held_out") if name in nonzeros.column_names]
    pairs = {"row": position[~is_row], **{name: nonzeros[name].to_numpy() for name in names}}
    own = {} if heavies.own is None else heavies.own.of_block(block, n_blocks)
    arrays, twice = _contents(pairs, row_key, source, values, dtype, own, heavies.others)
    first = (int(pairs["row"][twice[0]]) * n_blocks + block, int(pairs["col"][twice[0]])) if len(twice) else None
    duplicate = first or (None, None)
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
    pairs: Mapping[str, Array],
    row_key: Array,
    source: tuple[int, int],
    values: Sequence[str],
    dtype: str,
    own: Mapping[str, Array],
    others: Heavy | None,
) -> tuple[dict[str, Array], Array]:
    """Return the arrays of a block, and where in ``pairs`` those stand that come twice.

    Parameters
    ----------
    pairs : ``row``, as a position in the block, ``col``, the ``values`` and perhaps ``held_out``, (n,) each.
    own : what the block knows of its heavy rows. others : the heavy rows of the other side.
    """
    n_source_rows, n_source_blocks = source
    index = index_type(max(n_source_rows, len(row_key)))
    row, column = (pairs[name].astype(index, copy=False) for name in ("row", "col"))
    place = _place(column, n_source_rows, n_source_blocks)
    row_ptr, order = by_row(row, place, len(row_key), n_source_rows)
    place, row = taken(place, order), np.repeat(np.arange(len(row_key), dtype=index), np.diff(row_ptr))
    column = place if n_source_blocks == 1 else taken(column, order)
    twice = order[1:][(place[1:] == place[:-1]) & (row[1:] == row[:-1])]
    in_every_inbox = np.empty(0, np.int64) if others is None else _place(others.idx, *source)
    need_at, col = _needed(place, n_source_rows, in_every_inbox)
    target = column % n_source_blocks if n_source_blocks > 1 else np.zeros(1, np.int64)
    arrays: dict[str, Array] = {
        "row_key": row_key,
        "need_at": need_at.astype(np.int64),
        **_routes(*_routed(row, target, column, n_source_blocks, own, others), n_source_blocks, len(row_key)),
        **own,
    }
    if others is not None:
        arrays |= {heavy.AT: np.searchsorted(need_at, in_every_inbox), heavy.BLOCK: others.idx % n_source_blocks}
    numbers = {name: _in_precision(taken(pairs[name], order), dtype) for name in values}
    for prefix, of_part in _parts(pairs, order).items():
        arrays[f"{prefix}row_ptr"] = np.searchsorted(row[of_part], np.arange(len(row_key) + 1, dtype=index)).astype(
            np.int64
        )
        arrays[f"{prefix}col"] = col[of_part]
        arrays |= {f"{prefix}{name}": narrowed(number[of_part]) for name, number in numbers.items()}
    return arrays, twice


def _place(column: Array, n_source_rows: int, n_source_blocks: int) -> Array:
    """Return where rows of the other side stand if its blocks stand one after the other."""
    if n_source_blocks == 1:
        return column
    block = column % n_source_blocks
    return np.asarray(first_place(n_source_rows, n_source_blocks, block) + column // n_source_blocks)


def _needed(place: Array, n_source_rows: int, always: Array) -> tuple[Array, Array]:
    """Return the distinct places and those always needed, in their order; and where each place stands among them."""
    is_needed = np.zeros(n_source_rows, np.bool_)
    is_needed[place] = True
    is_needed[always] = True
    return np.flatnonzero(is_needed), taken(np.cumsum(is_needed, dtype=np.int32) - 1, place)


def _parts(pairs: Mapping[str, Array], order: Array) -> dict[str, Array | slice]:
    """Choose among the ordered nonzeros those of the fit and those held out, by the prefix of their arrays."""
    if "held_out" not in pairs:
        return {FITTED: slice(None)}
    held_out = taken(pairs["held_out"], order)
    return {FITTED: ~held_out, HELD_OUT: held_out}


def _in_precision(values: Array, dtype: str) -> Array:
    """Return numbers in single or double precision; those of a byte are the same in either."""
    return values if values.dtype == np.uint8 else values.astype(dtype, copy=False)


def narrowed(values: Array) -> Array:
    """Store numbers in the smallest type that holds them exactly: the blocks travel at every half-step."""
    if values.dtype == np.uint8:
        return values
    for narrow in (np.uint8, np.float32):
        with np.errstate(invalid="ignore", over="ignore"):  # what does not fit differs, and stays as it is
            small = values.astype(narrow)
        if np.array_equal(small, values):
            return small
    return values


def _routed(
    row: Array, target: Array, column: Array, n_targets: int, own: Mapping[str, Array], others: Heavy | None
) -> tuple[Array, Array]:
    """Return rows and the blocks that need them: one for each pair, but for heavy rows.

    Blocks of heavy rows leave their pairs out, so that these name no row; the heavy rows go to all blocks.
    """
    if others is not None:
        names = ~np.isin(column, others.idx)
        row, target = row[names], np.broadcast_to(target, row.shape)[names]
    if len(own.get(heavy.ROW, ())):
        rows = own[heavy.ROW]
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
