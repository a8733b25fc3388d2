"""Conversion between memories of blocks and DataFrames of factors, and Arrow tables of frames made in this process.

    frame = cached_frame(spark, table)    a DataFrame of a table, and the table is cached: Spark need not collect it
    arrow_table(frame, names)             columns of that table; of any other frame, collected by Spark

A table is released with its DataFrame. :func:`derive_frame` caches how to make the table of a frame made from another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.blocks import rows_in_block
from dcrec_spark.engine.cells import Array, Arrays, cells_in, pack, unpack
from dcrec_spark.engine.cluster import ClusterSide, state_of_memories
from dcrec_spark.engine.sides import State
from dcrec_spark.models.families.base import TableColumn
from dcrec_spark.spark.compat import collect_arrow, frame_of_arrow, place

# Larger tables are not cached: a model would keep them in memory as long as it lives.
LARGEST_CACHED = 512 * 2**20

_COVARIATES = ["slopes", "covariates"]
_EXPOSURE = ["exposure_shape", "exposure_rate"]

MakeTable = Callable[[], pa.Table]
TableOf = Callable[[Arrays], Mapping[str, Array]]
_TABLES: WeakKeyDictionary[DataFrame, MakeTable] = WeakKeyDictionary()


class TablePart(NamedTuple):
    """Columns of a table, and the function of a block's memory that makes them. prefix : before their names."""

    prefix: str
    columns: Sequence[TableColumn]
    table_of: TableOf


def factor_schema(parts: Sequence[TablePart], id_type: str | None) -> str:
    """Return the schema of :func:`factor_rows` in Spark's SQL."""
    front = ["idx long", *([] if id_type is None else [f"id {id_type}"])]
    types = {f"{p.prefix}{c.name}": "double" if c.width is None else "array<double>" for p in parts for c in p.columns}
    return ", ".join([*front, *(f"{name} {kind}" for name, kind in types.items())])


def factor_rows(
    batches: Iterable[pa.RecordBatch], *, n_blocks: int, parts: Sequence[TablePart], ids: Callable[[], pa.Array] | None
) -> Iterator[pa.RecordBatch]:
    """Return ``idx``, ``id`` and the columns of all parts of the rows of blocks.

    batches : ``block, part, data``, the memories of whole blocks. ids : of all rows, in the order of ``idx``.
    """
    memories: dict[int, dict[int, Arrays]] = {}
    for batch in batches:
        blocks, numbers = batch["block"].to_pylist(), batch["part"].to_pylist()
        for block, part, cell in zip(blocks, numbers, cells_in(batch["data"]), strict=True):
            memories.setdefault(block, {})[part] = unpack(cell)
    for block, of_parts in memories.items():
        arrays: dict[str, pa.Array] = {}
        for number, (prefix, columns, table_of) in enumerate(parts):
            table = table_of(of_parts[number])
            for c in columns:
                values = table[c.name]
                arrays[f"{prefix}{c.name}"] = pa.array(values, pa.float64()) if c.width is None else list_array(values)
        idx = pa.array(np.arange(len(values)) * n_blocks + block)
        yield pa.RecordBatch.from_pydict({"idx": idx, **({} if ids is None else {"id": ids().take(idx)}), **arrays})


def list_array(matrix: Array) -> pa.ListArray:
    """Return the rows of an (n, F) matrix as Arrow lists of doubles."""
    n, width = matrix.shape
    offsets = pa.array(np.arange(n + 1) * width, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(matrix.astype(np.float64).reshape(-1)))


def matrix_of(column: pa.ChunkedArray | pa.Array) -> Array:
    """Return the (n, F) matrix in a column of Arrow lists of equal length."""
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    matrix: Array = combined.flatten().to_numpy(zero_copy_only=False).reshape(len(combined), -1)
    return matrix


def place_factors(
    side: ClusterSide, ids: DataFrame, factors: DataFrame, columns: Sequence[TableColumn], memory_of: TableOf
) -> State:
    """Return a fitted side's ``id`` and ``columns`` as the memories of its blocks, the inverse of :func:`factor_rows`.

    An id without factors gets NaN, or the value that all rows have in common.
    """
    names = [c.name for c in columns]
    common = [c.name for c in columns if c.same_for_all]
    first: Mapping[str, Any] = factors.orderBy("id").select(*common).take(1)[0].asDict() if common else {}
    filled = []
    for c in columns:
        nothing = F.lit(float("nan")) if c.width is None else F.array_repeat(F.lit(float("nan")), c.width)
        missing = F.array(*map(F.lit, first[c.name])) if c.name in common else nothing
        filled.append(F.coalesce(c.name, missing).alias(c.name))
    joined = ids.join(factors.select("id", *names), "id", "left").select("id", "idx", *filled).persist()
    n_blocks, n_rows = side.n_blocks, side.n_rows

    def to_memory(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches)).sort_by("idx")
        if not table.num_rows:
            return
        number = table["block"][0].as_py()
        if table.num_rows != (expected := rows_in_block(n_rows, n_blocks, number)):
            raise ValueError(f"block {number} got {table.num_rows} rows of {expected}")
        arrays = {c.name: table[c.name].to_numpy() if c.width is None else matrix_of(table[c.name]) for c in columns}
        cell = pa.array([pack(memory_of(arrays))], pa.binary())
        yield pa.RecordBatch.from_pydict({"block": table["block"][:1].combine_chunks(), "data": cell})

    block = F.pmod("idx", F.lit(n_blocks)).cast("int").alias("block")
    rows = place(joined.select(block, "idx", *names), n_blocks, "block")
    return state_of_memories(rows.mapInArrow(to_memory, "block int, data binary"), joined)


def dot(left: Column, right: Column) -> Column:
    """Return the inner product of two array columns. Null where either is null."""
    return F.aggregate(F.zip_with(left, right, lambda x, y: x * y), F.lit(0.0), lambda total, x: total + x)


def gamma_mean(shape: Column, rate: Column) -> Column:
    """Return the mean of Gamma factors, component by component."""
    return F.zip_with(shape, rate, lambda s, r: s / r)


def cached_frame(spark: SparkSession, table: pa.Table, largest: int = LARGEST_CACHED) -> DataFrame:
    """Return a DataFrame of a table, which is cached unless it has more than ``largest`` bytes."""
    frame = frame_of_arrow(spark, table)
    if table.nbytes <= largest:
        _TABLES[frame] = lambda: table
    return frame


def derive_frame(source: DataFrame, frame: DataFrame, rows: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Return a frame made of another one, and cache its table if that of the other one is cached."""
    if source in _TABLES:
        of_source = _TABLES[source]
        _TABLES[frame] = lambda: rows(of_source())
    return frame


def select_columns(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return columns of a frame under new names, and its cached table; names : in the frame -> in the result."""

    def rows(table: pa.Table) -> pa.Table:
        return table.select(list(names)).rename_columns(list(names.values()))

    return derive_frame(frame, frame.select(*names).withColumnsRenamed(dict(names)), rows)


def completed(factors: DataFrame) -> DataFrame:
    """Return the factors with the columns that every table has: a bias of null, empty arrays, where there are none."""
    front = [*(["idx"] if "idx" in factors.columns else []), "id", "features", "bias", *_COVARIATES]
    names = [*front, *[name for name in factors.columns if name not in (*front, *_EXPOSURE)], *_EXPOSURE]
    if names == factors.columns:
        return factors
    missing = {name: F.expr("cast(array() as array<double>)") for name in (*_COVARIATES, *_EXPOSURE)}
    missing["bias"] = F.lit(None).cast("double")
    columns = [F.col(name) if name in factors.columns else missing[name].alias(name) for name in names]

    def complete(rows: pa.Table) -> pa.Table:
        missing = dict.fromkeys([*_COVARIATES, *_EXPOSURE], list_array(np.empty((rows.num_rows, 0))))
        missing["bias"] = pa.nulls(rows.num_rows, pa.float64())
        return pa.table({name: rows[name] if name in rows.column_names else missing[name] for name in names})

    return derive_frame(factors, factors.select(*columns), complete)


def arrow_table(frame: DataFrame, names: Sequence[str] | None = None) -> pa.Table:
    """Return all columns of a frame, or some, rows in any order: from the cache, else collected."""
    if frame in _TABLES:
        table = _TABLES[frame]()
        return table if names is None else table.select(list(names))
    return collect_arrow(frame if names is None else frame.select(*names))
