"""File formats of the research data sets, read by Spark's expressions.

Each reader gives text columns ``user``, ``item``, ``rating`` (``timestamp``), the line as ``raw``, and
``malformed``.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import ColumnNames

MOVIELENS_CSV = ColumnNames(user="userId", item="movieId", rating="rating", timestamp="timestamp")
MOVIELENS_SEPARATORS = {".data": "\t", ".dat": "::"}
_MOVIELENS = ("user", "item", "rating", "timestamp")
_YAHOO_R3 = ("user", "item", "rating")


def read_movielens_lines(spark: SparkSession, path: str, separator: str) -> DataFrame:
    """Read MovieLens lines without a header, ``196<TAB>242<TAB>3<TAB>881250949`` or ``1::1193::5::978300760``."""
    return _split_lines(spark.read.text(path), separator, _MOVIELENS)


def read_yahoo_r3(spark: SparkSession, path: str) -> DataFrame:
    """Read Yahoo! R3 lines without a header, ``user<TAB>song<TAB>rating``."""
    return _split_lines(spark.read.text(path), "\t", _YAHOO_R3)


def _split_lines(lines: DataFrame, separator: str, names: tuple[str, ...]) -> DataFrame:
    cells = F.split("value", separator)
    columns = [F.get(cells, F.lit(position)).alias(name) for position, name in enumerate(names)]
    return lines.filter(F.trim("value") != "").select(
        *columns, F.col("value").alias("raw"), (F.size(cells) != len(names)).alias("malformed")
    )


def read_coat(spark: SparkSession, path: str) -> DataFrame:
    """Read a dense matrix of small whole numbers: a line per user, a column per item, 0 where there is no rating.

    Users and items are numbered from 1, by line and by column::

        0 5 0        user item rating
        3 0 0   ->   1    2    5
                     2    1    3

    A line that has more or fewer columns than the first makes each of its ratings malformed. The numbers of
    the lines need the file in one piece, so one task reads it. The data set has 290 lines.
    """
    files = spark.read.text(path, wholetext=True).select(F.split("value", r"\r?\n").alias("lines"))
    by_line = files.select(F.size(_cells(F.col("lines")[0])).alias("width"), F.posexplode("lines").alias("row", "line"))
    by_cell = by_line.select(
        "row", "width", F.size(_cells(F.col("line"))).alias("cells"), F.posexplode(_cells(F.col("line")))
    ).toDF("row", "width", "cells", "column", "rating")
    user, item = (F.col("row") + 1).cast("string"), (F.col("column") + 1).cast("string")
    return by_cell.filter(~F.col("rating").isin("0", "")).select(
        user.alias("user"),
        item.alias("item"),
        "rating",
        F.format_string("line %s, column %s: %s", user, item, F.col("rating")).alias("raw"),
        (F.col("cells") != F.col("width")).alias("malformed"),
    )


def _cells(line: Column) -> Column:
    return F.split(F.trim(line), r"\s+")
