"""Small DataFrames from rows of Python."""

import gc
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType, _parse_datatype_string

from dcrec_spark.spark.compat import frame_of_arrow
from dcrec_spark.spark.lineage import unpersist_abandoned


def frame_of(spark: SparkSession, rows: Iterable[Iterable[Any]], schema: str | StructType) -> DataFrame:
    """Rows of values in the order of the schema, by way of Arrow, which the JVM reads by itself.

    With ``spark.createDataFrame(rows, schema)`` they would go through Python workers whenever the DataFrame is used.
    """
    fields = (_parse_datatype_string(schema) if isinstance(schema, str) else schema).fields
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in fields]
    arrays = [pa.array(column, to_arrow_type(field.dataType)) for column, field in zip(columns, fields, strict=True)]
    return frame_of_arrow(spark, pa.table(arrays, [field.name for field in fields]))


def persisted(spark: SparkSession) -> set[int]:
    """Return the numbers of the persisted RDDs."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def persisted_before(spark: SparkSession) -> set[int]:
    """Do so after what other tests left behind is let go of, lest it goes in the middle of a test."""
    gc.collect()
    unpersist_abandoned()
    return persisted(spark)
