"""Ids that a setting lists (users to serve, the catalogue, pairs to exclude), their features, and titles of items."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, NumericType, StringType

from dcrec_spark.config.sections import InputConfig
from dcrec_spark.data.columns import NUMBER_TEXT, WHOLE_NUMBERS
from dcrec_spark.data.quoting import quoted
from dcrec_spark.data.read import QUOTING, csv_options, read_table, suffix
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import DataError
from dcrec_spark.spark.compat import try_cast

TITLES = "evaluation.titles_path"
_FILES = {"u.item": r"\|", "movies.dat": "::"}
_SEPARATORS = {suffix(name): separator for name, separator in _FILES.items()}
_NUMBERS = "expected finite numbers; make numbers of categories first (one-hot)"
_ITEM_COLUMNS = ("item", "item_id", "movieId")


def read_listed(
    spark: SparkSession,
    setting: str,
    place: str,
    config: InputConfig,
    id_types: Mapping[str, DataType],
    more: tuple[str, ...] | None = (),
) -> DataFrame:
    """Open what ``setting`` lists at ``place``.

    setting : its name, for errors. place : a Parquet or CSV file, a directory of such files, or a table.
    config : names the columns (columns.user, columns.item), and the options of
    CSV. id_types : user, item or both -> the type of its ids, which the text of a CSV file is read as. Parquet keeps
    its own. more : Further columns, which are taken as they are. None: all others.
    Returns user_id, item_id, and the further columns. An id occurs as often as it
    is given, and is null where a text is no id.
    Raises DataError: nothing is there, it cannot be opened, a column is missing or cannot hold ids.
    """
    with opening(f"{setting} {place!r}", setting):
        is_table = config.format in ("table", "jdbc")
        is_text = not is_table and _is_csv(spark, place)
        if is_table:
            source = read_table(spark, config, place)
        elif is_text:
            source = spark.read.options(**{**QUOTING, **csv_options(config)}).csv(place)
        else:
            source = spark.read.parquet(place)
    columns = [
        _id(source, setting, place, side, getattr(config.columns, side), kind if is_text else None)
        for side, kind in id_types.items()
    ]
    if more is None:
        ids = {getattr(config.columns, side) for side in id_types}
        more = tuple(name for name in source.columns if name not in ids)
    for name in more:
        _require_column(source, setting, place, name, "")
    return source.select(*columns, *map(quoted, more))


def read_features(
    spark: SparkSession, setting: str, place: str, config: InputConfig, side: str, id_type: DataType
) -> DataFrame:
    """Open a table of numbers at ``place``, a row for each user or item. Parameters are those of :func:`read_listed`.

    Returns {side}_id, and each other column as double. Rows without an id are left out, an empty cell is null.
    Raises DataError: as by :func:`read_listed`, or a column is no number, or an id is there twice.
    """
    listed = read_listed(spark, setting, place, config, {side: id_type}, None)
    where, identity = f"{setting} {place!r}", f"{side}_id"
    fields = {field.name: field.dataType for field in listed.schema.fields[1:]}
    lower = [name.lower() for name in listed.columns]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    if twice or not fields:
        found = f"several columns {twice[0]!r}" if twice else "the ids alone"
        raise DataError(f"{where}: found {found}; expected columns of numbers, each with a name of its own")
    cells, broken = {}, []
    for name, stored in fields.items():
        if not isinstance(stored, NumericType | StringType):
            raise DataError(f"{where}: column {name!r} is {stored.simpleString()}; {_NUMBERS}")
        cell = quoted(name)
        is_empty = F.trim(cell) == "" if isinstance(stored, StringType) else F.lit(False)
        is_text = ~cell.rlike(NUMBER_TEXT) if isinstance(stored, StringType) else F.lit(False)
        value = try_cast(cell, "double")
        cells[name] = F.when(~is_text, value).alias(name)
        is_broken = ~is_empty & (is_text | F.abs(value).isin(float("inf")))
        broken.append(F.first(F.when(is_broken, cell.cast("string")), ignorenulls=True))
    with opening(where, setting):
        first = listed.agg(*broken).collect()[0]
    for name, found in zip(fields, first, strict=True):
        if found is not None:
            raise DataError(f"{where}: column {name!r} holds {found[:40]!r}; {_NUMBERS}")
    repeated = listed.groupBy(identity).count().where(f"count > 1 and {identity} is not null").orderBy(identity).first()
    if repeated is not None:
        raise DataError(f"{where}: {side} {repeated[0]!r} is in {repeated[1]} rows; expected one")
    return listed.select(identity, *cells.values()).where(F.col(identity).isNotNull())


def _is_csv(spark: SparkSession, path: str) -> bool:
    """Whether the file, or a directory's first one, is named so. Spark looks it up: the path may be on any storage."""
    if suffix(path) in (".csv", ".parquet"):
        return suffix(path) == ".csv"
    first = spark.read.format("binaryFile").load(path).select("path").first()
    return first is not None and suffix(first["path"]) == ".csv"


def _id(source: DataFrame, setting: str, place: str, side: str, name: str, of_text: DataType | None) -> Column:
    _require_column(
        source, setting, place, name, f"; set input.columns.{side} to the column that holds the {side}s' ids"
    )
    stored = source.schema[name].dataType
    if not isinstance(stored, (StringType, *WHOLE_NUMBERS)):
        raise DataError(
            f"{setting} {place!r}: column {name!r} is {stored.simpleString()}; expected strings or whole numbers"
        )
    if of_text is not None and not isinstance(of_text, StringType):
        return try_cast(quoted(name), of_text.simpleString()).alias(f"{side}_id")
    kind = StringType() if isinstance(stored, StringType) else LongType()
    return quoted(name).cast(kind).alias(f"{side}_id")


def _require_column(source: DataFrame, setting: str, place: str, name: str, advice: str) -> None:
    if name not in source.columns:
        found = ", ".join(map(repr, source.columns)) or "none"
        raise DataError(f"{setting} {place!r} has no column {name!r}: found {found}{advice}")


# ---- titles of items


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
    with opening(f"{TITLES} {path!r}", TITLES):
        item, title, source = _open_titles(spark, path)
    ids = try_cast(item.cast("string"), id_type.simpleString()).alias("item_id")
    named = source.select(ids, title.cast("string").alias("title"))
    # Where an item has several titles, every run takes the same one.
    return named.where("item_id is not null").groupBy("item_id").agg(F.min("title").alias("title"))


def _open_titles(spark: SparkSession, path: str) -> tuple[Column, Column, DataFrame]:
    if suffix(path) in _SEPARATORS:
        return _movielens(spark, path, _SEPARATORS[suffix(path)])
    is_csv = suffix(path) == ".csv"
    source = spark.read.options(header="true", **QUOTING).csv(path) if is_csv else spark.read.parquet(path)
    named = [name for name in _ITEM_COLUMNS if name in source.columns]
    if not named or "title" not in source.columns:
        raise DataError(
            f"{TITLES} {path!r}: found columns {', '.join(map(repr, source.columns)) or 'none'}; expected 'title' and "
            f"one of {', '.join(map(repr, _ITEM_COLUMNS))}"
        )
    return F.col(named[0]), F.col("title"), source


def _movielens(spark: SparkSession, path: str, separator: str) -> tuple[Column, Column, DataFrame]:
    reader = spark.read.option("encoding", "iso-8859-1").option("sep", "\n")
    fields = F.split("line", separator)
    return fields[0], fields[1], reader.csv(path, schema="line string", quote="")
