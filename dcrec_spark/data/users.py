"""List of users that recommendations are made for: one column of ids, in Parquet or CSV."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType

from dcrec_spark.config import InputConfig
from dcrec_spark.data.columns import WHOLE_NUMBERS
from dcrec_spark.data.quoting import quoted
from dcrec_spark.data.read import csv_options, suffix
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import DataError

SETTING = "recommend.users"


def read_users(spark: SparkSession, path: str, config: InputConfig, id_type: DataType) -> DataFrame:
    """Open the list of users.

    Parameters
    ----------
    spark : SparkSession
        Session that reads.
    path : str
        A Parquet or CSV file, or a directory of such files.
    config : InputConfig
        Names the column (columns.user), and how CSV is written (header, delimiter, encoding).
    id_type : DataType
        The model's, which the text of a CSV file is read as; Parquet keeps its own.

    Returns
    -------
    DataFrame
        user_id, an id as often as it is given, null where a text is no id.

    Raises
    ------
    DataError
        Nothing is there, it cannot be opened, the column is missing or cannot hold ids.
    """
    with opening(f"{SETTING} {path!r}", SETTING):
        is_text = _is_csv(spark, path)
        options = {**csv_options(config), "escape": '"'}
        source = spark.read.options(**options).csv(path) if is_text else spark.read.parquet(path)
    column = _column(source, path, config.columns.user)
    if not is_text or isinstance(id_type, StringType):
        return column
    return column.select(F.expr(f"try_cast(user_id as {id_type.simpleString()})").alias("user_id"))


def _is_csv(spark: SparkSession, path: str) -> bool:
    """Whether the file, or a directory's first one, is named so. Spark is asked: the path may be on any storage."""
    if suffix(path) in (".csv", ".parquet"):
        return suffix(path) == ".csv"
    first = spark.read.format("binaryFile").load(path).select("path").first()
    return first is not None and suffix(first["path"]) == ".csv"


def _column(source: DataFrame, path: str, name: str) -> DataFrame:
    if name not in source.columns:
        raise DataError(
            f"{SETTING} {path!r} has no column {name!r}: found {', '.join(map(repr, source.columns)) or 'none'}; set "
            "input.columns.user to the column that holds the users' ids"
        )
    stored = source.schema[name].dataType
    if not isinstance(stored, (StringType, *WHOLE_NUMBERS)):
        raise DataError(
            f"{SETTING} {path!r}: column {name!r} is {stored.simpleString()}; expected strings or whole numbers"
        )
    kind = StringType() if isinstance(stored, StringType) else LongType()
    return source.select(quoted(name).cast(kind).alias("user_id"))
