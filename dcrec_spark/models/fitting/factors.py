"""Between the engine's blocks and the DataFrames of factors that a user sees."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.blocks import Side, rows_in_block
from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.engine.half_step import Placed, State, memories, placed_memories
from dcrec_spark.errors import DataError


def factor_frame(side: Side, state: State, ids: DataFrame, columns: Sequence[str]) -> DataFrame:
    """``idx, id`` and one array<double> column for each of ``columns``, an array of the blocks' memories.

    An array with one entry per component, the same for all rows of the side, is repeated for each row.
    """
    n_blocks = side.n_blocks

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block, data in zip(batch["block"].to_pylist(), batch["data"], strict=True):
                yield _block_rows(block, unpack(data.as_buffer()), n_blocks, columns)

    schema = "idx long, " + ", ".join(f"{name} array<double>" for name in columns)
    return ids.join(memories(side, state).mapInArrow(rows, schema), "idx").select("idx", "id", *columns)


def _block_rows(block: int, arrays: dict[str, Array], n_blocks: int, columns: Sequence[str]) -> pa.RecordBatch:
    n = max(len(arrays[name]) for name in columns if arrays[name].ndim == 2)
    filled = {name: arrays[name] if arrays[name].ndim == 2 else np.tile(arrays[name], (n, 1)) for name in columns}
    return pa.RecordBatch.from_pydict(
        {"idx": pa.array(np.arange(n) * n_blocks + block), **{k: list_array(v) for k, v in filled.items()}}
    )


def list_array(matrix: Array) -> pa.ListArray:
    """The rows of an (n, F) matrix as Arrow lists of doubles."""
    n, width = matrix.shape
    offsets = pa.array(np.arange(n + 1) * width, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(matrix.astype(np.float64).reshape(-1)))


def matrix_of(column: pa.ChunkedArray | pa.Array) -> Array:
    """The (n, F) matrix in a column of Arrow lists of equal length."""
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    matrix: Array = combined.flatten().to_numpy(zero_copy_only=False).reshape(len(combined), -1)
    return matrix


def place_factors(side: Side, ids: DataFrame, factors: DataFrame, widths: Mapping[str, int]) -> Placed:
    """A fitted side's ``id`` and columns of arrays as the memories of its blocks: the reverse of :func:`factor_frame`.

    widths : how long the arrays of each column are. An id without factors gets NaN, and the rate of the first, for in
    a fit a side has one.
    """
    missing = {name: F.array_repeat(F.lit(float("nan")), n) for name, n in widths.items()}
    if "rate" in widths:
        missing["rate"] = F.array(*map(F.lit, factors.orderBy("id").select("rate").take(1)[0]["rate"]))
    columns = [F.coalesce(name, nothing).alias(name) for name, nothing in missing.items()]
    joined = ids.join(factors, "id", "left").select("id", "idx", *columns).persist()
    n_blocks, n_rows = side.n_blocks, side.n_rows

    def to_memory(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches)).sort_by("idx")
        if table.num_rows:
            yield _memory_cell(table, n_blocks, n_rows, list(widths))

    block = F.pmod("idx", F.lit(n_blocks)).cast("int").alias("block")
    rows = joined.select(block, "idx", *widths).repartitionById(n_blocks, "block")
    return placed_memories(rows.mapInArrow(to_memory, "block int, data binary"), joined)


def require_all_known(ids: DataFrame, factors: DataFrame, name: str) -> None:
    """Refuse ids without factors.

    Raises
    ------
    DataError : names how many and one of them.
    """
    missing = ids.join(factors, "id", "left_anti")
    count = missing.count()
    if count:
        example = missing.orderBy("idx").first()
        raise DataError(
            f"{count} {name} ids, such as {example['id'] if example else None!r}, are not in the fitted "
            "exposure model: fit it on the same ratings, or fold them in first"
        )


def _memory_cell(table: pa.Table, n_blocks: int, n_rows: int, columns: Sequence[str]) -> pa.RecordBatch:
    block = table["block"][0].as_py()
    if table.num_rows != rows_in_block(n_rows, n_blocks, block):
        raise ValueError(f"block {block} got {table.num_rows} rows of {rows_in_block(n_rows, n_blocks, block)}")
    cell = pack({name: matrix_of(table[name]) for name in columns})
    return pa.RecordBatch.from_arrays([pa.array([block], pa.int32()), pa.array([cell], pa.binary())], ["block", "data"])


def dot(left: Column, right: Column) -> Column:
    """The inner product of two array columns; null where either is null."""
    return F.aggregate(F.zip_with(left, right, lambda x, y: x * y), F.lit(0.0), lambda total, x: total + x)


def gamma_mean(shape: Column, rate: Column) -> Column:
    """The mean of Gamma factors, component by component."""
    return F.zip_with(shape, rate, lambda s, r: s / r)
