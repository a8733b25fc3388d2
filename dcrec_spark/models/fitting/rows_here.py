"""Rows of DataFrames that this process has as well, for they were made here: Spark need not hand them back.

    frame = frame_of(spark, table)    a DataFrame of a table, which is remembered with it
    rows_of(frame, names)             columns of that table; of a frame from elsewhere, what Spark collects

What is remembered goes when its DataFrame does. Of a frame that is made from such a one, :func:`derived` remembers how
to make its rows.
"""

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

# Larger tables are left to Spark alone: a model would hold them for as long as it is referred to.
LARGEST_REMEMBERED = 512 * 2**20

Rows = Callable[[], pa.Table]
_ROWS: WeakKeyDictionary[DataFrame, Rows] = WeakKeyDictionary()


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of a table; its rows are remembered, unless they are many."""
    frame = spark.createDataFrame(table)
    if table.nbytes <= LARGEST_REMEMBERED:
        _ROWS[frame] = lambda: table
    return frame


def derived(source: DataFrame, frame: DataFrame, rows: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Return a frame that was made of another one, with its rows, where those of the other one are remembered.

    rows : from the rows of ``source`` to those of ``frame``, when they are asked for.
    """
    if source in _ROWS:
        of_source = _ROWS[source]
        _ROWS[frame] = lambda: rows(of_source())
    return frame


def picked(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return columns of a frame by other names, with its rows; names : in the frame -> in the result."""

    def rows(table: pa.Table) -> pa.Table:
        return table.select(list(names)).rename_columns(list(names.values()))

    return derived(frame, frame.select(*names).withColumnsRenamed(dict(names)), rows)


def rows_of(frame: DataFrame, names: Sequence[str] | None = None) -> pa.Table:
    """Return all columns of a frame, or some, rows in any order: as they are remembered, else collected."""
    if frame in _ROWS:
        table = _ROWS[frame]()
        return table if names is None else table.select(list(names))
    return (frame if names is None else frame.select(*names)).toArrow()
