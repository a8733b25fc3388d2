"""Dense indices from 0 for ids of any type, in the order of the ids.

    "b", "a", "b", "c"   ->   id  idx
                              a   0
                              b   1
                              c   2

The index of an id depends on the set of ids alone: not on partitions, not on the order of rows, not on retries.
"""

from contextlib import ExitStack
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType, StringType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import DataError
from dcrec_spark.spark.compat import try_cast
from dcrec_spark.spark.lineage import keep
from dcrec_spark.spark.planning import few_partitions

# monotonically_increasing_id is the partition's number above this many bits, and the row's number in it below.
_ROW_BITS = 33
IdType = Literal["auto", "string", "long"]
IDS = "strings or whole numbers"
FRACTIONS = (FloatType, DoubleType)
# Up to here whole numbers of a floating-point type are told from their neighbours.
_LARGEST_WHOLE = {FloatType: 2**24, DoubleType: 2**53}


def read_id(cell: Column, stored: DataType, id_type: IdType = "auto") -> Column:
    """Read an id as text or as long: null where it is none, or where another id would be read as the same."""
    if isinstance(stored, FRACTIONS):
        is_whole = (F.abs(cell) <= _LARGEST_WHOLE[type(stored)]) & (cell % 1 == 0)
        whole = F.when(is_whole, cell.cast("long"))
        return whole.cast("string") if id_type == "string" else whole
    if id_type == "string" or (id_type == "auto" and isinstance(stored, StringType)):
        # The cast drops collations, under which different ids could be equal.
        return cell.cast("string")
    number = try_cast(cell, "long")
    if not isinstance(stored, StringType):
        return number
    return F.when(number.cast("string") == F.trim(cell), number)  # not 007, which 7 would become


def plain_id(frame: DataFrame, name: str) -> Column:
    """Return a column of ids: numbers of other types as long, text and whole numbers as they are."""
    cell, stored = quoted(name), frame.schema[name].dataType
    return cell if isinstance(stored, StringType | IntegralType) else read_id(cell, stored)


def can_be_id(stored: DataType) -> bool:
    """Tell whether a column of this type can hold ids."""
    is_whole = isinstance(stored, DecimalType) and stored.scale == 0
    return is_whole or isinstance(stored, (StringType, IntegralType, *FRACTIONS))


def index_ids(df: DataFrame, column: str) -> DataFrame:
    """Distinct ids of a column with their rank, by UTF-8 bytes, or as numbers.

    Returns id, idx: long, from 0 without gaps. Cached and computed. The caller unpersists it.
    Raises DataError: the column is missing, has a type that is no id, or has nulls.
    Only the sizes of the sorted partitions come to the driver: each starts where the ones before it end.
    """
    if column not in df.columns:
        raise DataError(f"no column {column!r}: found {', '.join(df.columns)}; expected one with ids")
    stored = df.schema[column].dataType
    if not isinstance(stored, StringType | IntegralType):
        raise DataError(f"column {column!r} is {stored.simpleString()}; ids are {IDS}")
    ids = df.select(quoted(column).alias("id")).distinct().orderBy("id")
    # By position in a sorted partition, so the numbers hold only for this one sort: another draws other samples and
    # cuts its partitions elsewhere. Persisted, its plan is fixed, whatever is lost or released later.
    with ExitStack() as scratch:
        scratch.enter_context(few_partitions(df.sparkSession))
        numbered = keep(ids.withColumn("place", F.monotonically_increasing_id()))
        scratch.callback(numbered.release)
        partition = F.shiftright("place", _ROW_BITS).cast("int")
        counts = F.count(F.lit(1)), F.count("id")
        sizes = numbered.frame.groupBy(partition.alias("partition")).agg(*counts).collect()
        if any(rows != ids for _, rows, ids in sizes):
            raise DataError(f"column {column!r} has null ids; expected an id in every row. Validate the rows first")
        rows_of, offsets = {number: rows for number, rows, _ in sizes}, [0]
        for number in range(max(rows_of, default=0)):
            offsets.append(offsets[-1] + rows_of.get(number, 0))
        row = F.col("place").bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
        place = F.get(F.array(*map(F.lit, offsets)), partition) + row
        indexed = numbered.frame.select("id", place.alias("idx")).persist()
        indexed.count()
    return indexed


def encode(df: DataFrame, user_ids: DataFrame, item_ids: DataFrame) -> DataFrame:
    """Replace user_id and item_id by their indices, as :func:`index_ids` gives them. Unknown ids are left out.

    Returns user_idx, item_idx, then the other columns of ``df``.
    """
    others = [quoted(name) for name in df.columns if name not in ("user_id", "item_id")]
    users = user_ids.select(F.col("id").alias("user_id"), F.col("idx").alias("user_idx"))
    items = item_ids.select(F.col("id").alias("item_id"), F.col("idx").alias("item_idx"))
    return df.join(users, "user_id").join(items, "item_id").select("user_idx", "item_idx", *others)
