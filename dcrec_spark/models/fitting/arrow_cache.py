"""Arrow tables of DataFrames that were made in this process, so that Spark need not collect them.

    frame = cached_frame(spark, table)    a DataFrame of a table, and the table is cached
    arrow_table(frame, names)             columns of that table; of any other frame, collected by Spark

A table is released with its DataFrame. :func:`derive_frame` caches how to make the table of a frame made from another.
"""

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

# Larger tables are not cached: a model would keep them in memory as long as it lives.
LARGEST_CACHED = 512 * 2**20

MakeTable = Callable[[], pa.Table]
_TABLES: WeakKeyDictionary[DataFrame, MakeTable] = WeakKeyDictionary()


def cached_frame(spark: SparkSession, table: pa.Table, largest: int = LARGEST_CACHED) -> DataFrame:
    """Return a DataFrame of a table, which is cached unless it has more than ``largest`` bytes."""
    frame = spark.createDataFrame(table)
    if table.nbytes <= largest:
        _TABLES[frame] = lambda: table
    return frame


def derive_frame(source: DataFrame, frame: DataFrame, rows: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Return a frame made of another one, and cache its table if that of the other one is cached.

    rows : from the rows of ``source`` to those of ``frame``, when they are read.
    """
    if source in _TABLES:
        of_source = _TABLES[source]
        _TABLES[frame] = lambda: rows(of_source())
    return frame


def select_columns(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return columns of a frame under new names, and its cached table; names : in the frame -> in the result."""

    def rows(table: pa.Table) -> pa.Table:
        return table.select(list(names)).rename_columns(list(names.values()))

    return derive_frame(frame, frame.select(*names).withColumnsRenamed(dict(names)), rows)


def arrow_table(frame: DataFrame, names: Sequence[str] | None = None) -> pa.Table:
    """Return all columns of a frame, or some, rows in any order: from the cache, else collected."""
    if frame in _TABLES:
        table = _TABLES[frame]()
        return table if names is None else table.select(list(names))
    return (frame if names is None else frame.select(*names)).toArrow()
