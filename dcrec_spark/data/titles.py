"""Titles of items, from MovieLens' own files or from a table of items and titles."""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from dcrec_spark.data.read import QUOTING, suffix
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import DataError

SETTING = "evaluation.titles_path"
_FILES = {"u.item": r"\|", "movies.dat": "::"}
_SEPARATORS = {suffix(name): separator for name, separator in _FILES.items()}
_ITEM_COLUMNS = ("item", "item_id", "movieId")


def read_titles(spark: SparkSession, ratings: Path) -> DataFrame | None:
    """Open the titles that MovieLens delivers with its ratings.

    ratings : file of the ratings. Titles are in u.item or movies.dat in the same folder.
    Returns item_id: long, title: string. None when there is neither file.
    """
    for name, separator in _FILES.items():
        path = ratings.parent / name
        if path.exists():
            item, title, lines = _movielens(spark, str(path.resolve()), separator)
            return lines.select(item.cast("long").alias("item_id"), title.alias("title"))
    return None


def read_titles_file(spark: SparkSession, path: str, id_type: DataType) -> DataFrame:
    """Open a file of titles.

    path : a MovieLens file (.item, .dat), or CSV or Parquet with a column title and one
    called item, item_id or movieId. id_type : The model's, which the ids are read as. What is no such id has no title.
    Returns item_id, title, one row for each item.
    Raises DataError: nothing is there, it cannot be opened, or a column is missing.
    """
    with opening(f"{SETTING} {path!r}", SETTING):
        item, title, source = _open(spark, path)
    ids = item.cast("string").try_cast(id_type.simpleString()).alias("item_id")
    named = source.select(ids, title.cast("string").alias("title"))
    # Where an item has several titles, every run takes the same one.
    return named.where("item_id is not null").groupBy("item_id").agg(F.min("title").alias("title"))


def _open(spark: SparkSession, path: str) -> tuple[Column, Column, DataFrame]:
    if suffix(path) in _SEPARATORS:
        return _movielens(spark, path, _SEPARATORS[suffix(path)])
    is_csv = suffix(path) == ".csv"
    source = spark.read.options(header="true", **QUOTING).csv(path) if is_csv else spark.read.parquet(path)
    named = [name for name in _ITEM_COLUMNS if name in source.columns]
    if not named or "title" not in source.columns:
        raise DataError(
            f"{SETTING} {path!r}: found columns {', '.join(map(repr, source.columns)) or 'none'}; expected 'title' and "
            f"one of {', '.join(map(repr, _ITEM_COLUMNS))}"
        )
    return F.col(named[0]), F.col("title"), source


def _movielens(spark: SparkSession, path: str, separator: str) -> tuple[Column, Column, DataFrame]:
    reader = spark.read.option("encoding", "iso-8859-1").option("sep", "\n")
    fields = F.split("line", separator)
    return fields[0], fields[1], reader.csv(path, schema="line string", quote="")
