"""Differences between the versions of Spark: the one place that knows them.

A session that has a method is given it, whatever its version says: managed services take features from later versions.

    method                             came with  before
    DataFrame.repartitionById          4.1        a key for each number, that Spark's hash sends to its partition
    DataFrame.toArrow                  4.0        the batches that toPandas collects
    createDataFrame of an Arrow table  4.0        the stream of batches that createDataFrame of pandas writes
    groupBy, cogroup: applyInArrow     4.0        applyInPandas, which copies each cell once more in each direction
    inheritable_thread_target(session) 4.0        takes the function
    Column.try_cast                    4.0        the expression of SQL's try_cast
    is_valid_utf8                      4.0        decoded and encoded again
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyspark
from pyspark import inheritable_thread_target
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dcrec_spark.errors import ConfigError

SUPPORTED = ("3.5", "4.0", "4.1", "4.2", "4.3")
# What Spark says of a file that it cannot read to its end: from 4.0 on the first, in front of all others.
BROKEN_FILE = (
    "FAILED_READ_FILE",
    "TextParsingException",
    "CSV header does not conform",
    "Encountered error while reading file",
    "is not a Parquet file",
    "Parquet column cannot be converted",
    "java.io.EOFException: Unexpected end of input stream",
)
_PLACE = "__place"
# Spark's hash of a whole number, Murmur 3 of 32 bits, backwards: xors of shifts and factors, modulo 2**32.
_SEED, _WORD = 42, 2**32
_ROUNDS = (0xCC9E2D51, 0x1B873593)
_MIXERS = (0x85EBCA6B, 0xC2B2AE35)


def series_of(version: str) -> str:
    """Return the two numbers of a version that say what it has: ``4.1`` of ``4.1.4``."""
    return ".".join(version.split(".")[:2])


def require_supported(spark: SparkSession | None = None) -> None:
    """Refuse a version of Spark that this package does not run on. None: the installed one. Raises ConfigError."""
    version = pyspark.__version__ if spark is None else spark.version
    if series_of(version) not in SUPPORTED:
        raise ConfigError(
            f"Spark {version} is not supported: dcrec-spark runs on {', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}; "
            "install one of them (pip install 'pyspark==4.1.*'), or submit the job to a cluster that has one"
        )
    if spark is not None and not is_classic(spark) and series_of(version) == "3.5":
        raise ConfigError(f"Spark Connect is supported from 4.0 on, and this is Spark {version}: use a classic session")


def is_classic(spark: SparkSession) -> bool:
    """Whether the session has the driver's JVM in its own process. One of Spark Connect has not."""
    return hasattr(spark, "_jsparkSession")


def same_frame(frame: DataFrame) -> DataFrame:
    """Return another object for the same rows, which does not keep the frame alive."""
    inside: Any = frame
    if is_classic(frame.sparkSession):
        return DataFrame(inside._jdf, frame.sparkSession)
    return cast(DataFrame, type(inside)(inside._plan, frame.sparkSession))


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Collect the rows as an Arrow table."""
    if hasattr(DataFrame, "toArrow"):
        return frame.toArrow()
    collected: Any = frame
    schema = to_arrow_schema(frame.schema)
    return pa.Table.from_batches([batch.cast(schema) for batch in collected._collect_as_arrow()], schema)


def frame_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of an Arrow table."""
    if hasattr(DataFrame, "toArrow"):
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    session: Any = spark
    schema = from_arrow_schema(table.schema)
    table = table.cast(to_arrow_schema(schema))
    helper = session._jvm.PythonSQLUtils
    rows = max(1, -(-table.num_rows // max(1, session.sparkContext.defaultParallelism)))
    batches = session._sc._serialize_to_jvm(
        table.to_batches(rows),
        ArrowStreamSerializer(),
        helper.readArrowStreamFromFile,
        session._jvm.ArrowIteratorServer,
    )
    return DataFrame(helper.toDataFrame(batches, schema.json(), session._jsparkSession), session)


def of_thread(spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for other threads, whose jobs are of the same group as those of this thread."""
    if hasattr(DataFrame, "toArrow"):
        return cast(Callable[..., Any], inheritable_thread_target(spark)(function))
    return inheritable_thread_target(function)


def place(frame: DataFrame, n: int, number: str) -> DataFrame:
    """Move each row into the partition of its number, from 0 to n - 1, in a way that Spark knows of. One shuffle."""
    if hasattr(DataFrame, "repartitionById"):
        return frame.repartitionById(n, number)
    keys = F.expr(f"array({', '.join(map(str, keys_of_partitions(n)))})")
    return frame.withColumn(_PLACE, keys[F.col(number)]).repartition(n, _PLACE)


def keys_of_partitions(n: int) -> list[int]:
    """Return a whole number for each of n partitions, which ``repartition(n, column)`` sends there."""
    hashed = np.arange(n, dtype=np.uint32)
    for shift, factor in ((16, _MIXERS[1]), (13, _MIXERS[0]), (16, 1)):
        hashed ^= hashed >> shift ^ (hashed >> 2 * shift)
        hashed *= np.uint32(pow(factor, -1, _WORD))
    hashed ^= np.uint32(4)  # bytes of an int
    hashed = _rotated((hashed - np.uint32(0xE6546B64)) * np.uint32(pow(5, -1, _WORD)), 19) ^ np.uint32(_SEED)
    hashed = _rotated(hashed * np.uint32(pow(_ROUNDS[1], -1, _WORD)), 17) * np.uint32(pow(_ROUNDS[0], -1, _WORD))
    return [int(key) for key in hashed.view(np.int32)]


def _rotated(words: Any, bits: int) -> Any:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def group_by_place(placed: DataFrame, number: str) -> GroupedData:
    """Group the rows of :func:`place` by their number. No shuffle."""
    return placed.groupBy(_PLACE if _PLACE in placed.columns else number)


def apply_in_arrow(grouped: Any, change: Callable[..., pa.Table], schema: str) -> DataFrame:
    """Apply a function of Arrow tables to each group of rows, or of two tables to each cogroup."""
    if hasattr(grouped, "applyInArrow"):
        return cast(DataFrame, grouped.applyInArrow(change, schema))

    def in_pandas(*sides: Any) -> Any:
        return change(*(pa.Table.from_pandas(side, preserve_index=False) for side in sides)).to_pandas()

    # Spark counts the arguments.
    one, two = (lambda rows: in_pandas(rows)), (lambda left, right: in_pandas(left, right))
    return cast(DataFrame, grouped.applyInPandas(one if isinstance(grouped, GroupedData) else two, schema))


def try_cast(column: Column, kind: str) -> Column:
    """Cast, null where a value has no counterpart. kind : Spark's name of the type."""
    if hasattr(Column, "try_cast"):  # of an object: it takes every name for a field
        return column.try_cast(kind)
    jvm: Any = SparkSession.active()._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    mode = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.EvalMode$").__getattr__("MODULE$").TRY()
    made_of: Any = column
    child, of_type = made_of._jc.expr(), jvm.org.apache.spark.sql.types.DataType.fromDDL(kind)
    attempt = catalyst.expressions.Cast(child, of_type, jvm.scala.Option.empty(), mode)
    return Column(jvm.org.apache.spark.sql.Column(attempt))


def is_utf8(column: Column) -> Column:
    """Whether the bytes of a text are text."""
    if hasattr(F, "is_valid_utf8"):
        return F.is_valid_utf8(column)
    stored = column.cast("binary")
    return F.encode(F.decode(stored, "UTF-8"), "UTF-8") == stored
