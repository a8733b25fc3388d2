"""Ids that a setting lists (users to serve, the catalogue, pairs to exclude), their features, and titles of items."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType

from dcrec_spark.config.sections import InputConfig
from dcrec_spark.data.columns import column_of, is_blank, number_in
from dcrec_spark.data.ids import IDS, can_be_id, read_id
from dcrec_spark.data.quoting import quoted
from dcrec_spark.data.read import PARTITIONS_AS_TEXT, QUOTING, TYPED, csv_options, open_files, read_table, suffix
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import DataError, cut
from dcrec_spark.spark.compat import try_cast
from dcrec_spark.spark.planning import borrow

TITLES = "evaluation.titles_path"
TITLE_FILES = {"u.item": r"\|", "movies.dat": "::"}
_SEPARATORS = {suffix(name): separator for name, separator in TITLE_FILES.items()}
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
    """Open what ``setting`` lists at ``place``: a file, a directory of such files, or a table.

    id_types : user, item or both -> the type of its ids, which the text of a CSV file is read as. Other formats keep
    their own. more : Further columns, which are taken as they are. None: all others.
    Returns user_id, item_id, and the further columns. An id is null where a text or a number is no id.
    Raises DataError: nothing is there, it cannot be opened, a column is missing or cannot hold ids.
    """
    is_text = False
    with opening(f"{setting} {place!r}", setting), borrow(spark, PARTITIONS_AS_TEXT):
        if config.format in ("table", "jdbc"):
            source = read_table(spark, config, place)
        else:
            kind = _kind_of(spark, place)
            is_text = kind == "csv"
            # A list is small enough to be read in one piece, whatever line breaks its quotes hold.
            options = {"multiLine": "true", **QUOTING, **csv_options(config)}
            source = spark.read.options(**options).csv(place) if is_text else open_files(spark, kind, place, {})
    where = f"{setting} {place!r}"
    columns = [_id(source, where, side, config, kind if is_text else None) for side, kind in id_types.items()]
    if more is None:
        ids = {column_of(getattr(config.columns, side), source.columns) for side in id_types}
        more = tuple(name for name in source.columns if name not in ids)
    for name in more:
        _require_column(source, where, name, "")
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
        value = number_in(cell, stored)
        cells[name] = value.alias(name)
        is_broken = ~is_blank(cell, stored) & (value.isNull() | F.abs(value).isin(float("inf")))
        broken.append(F.first(F.when(is_broken, cell.cast("string")), ignorenulls=True))
    with opening(where, setting):
        first = listed.agg(*broken).collect()[0]
    for name, found in zip(fields, first, strict=True):
        if found is not None:
            raise DataError(f"{where}: column {name!r} holds {cut(found, 40)}; {_NUMBERS}")
    repeated = listed.groupBy(identity).count().where(f"count > 1 and {identity} is not null").orderBy(identity).first()
    if repeated is not None:
        raise DataError(f"{where}: {side} {cut(repeated[0])} is in {repeated[1]} rows; expected one")
    return listed.select(identity, *cells.values()).where(F.col(identity).isNotNull())


def _kind_of(spark: SparkSession, path: str) -> str:
    """Format of a file, or of a directory's first one, by its name. Spark looks it up: it may be on any storage."""
    kinds = {**TYPED, ".csv": "csv"}
    if suffix(path) in kinds:
        return kinds[suffix(path)]
    first = spark.read.format("binaryFile").load(path).select("path").first()
    return kinds.get("" if first is None else suffix(first["path"]), "parquet")


def _id(source: DataFrame, where: str, side: str, config: InputConfig, of_text: DataType | None) -> Column:
    name: str = getattr(config.columns, side)
    found = column_of(name, source.columns) or name
    _require_column(source, where, found, f"; set input.columns.{side} to the column that holds the {side}s' ids")
    stored = source.schema[found].dataType
    if not can_be_id(stored):
        raise DataError(f"{where}: column {found!r} is {stored.simpleString()}; expected {IDS}")
    as_long = of_text is not None and not isinstance(of_text, StringType)
    return read_id(quoted(found), stored, "long" if as_long else config.id_type).alias(f"{side}_id")


def _require_column(source: DataFrame, where: str, name: str, advice: str) -> None:
    if name not in source.columns:
        found = ", ".join(map(repr, source.columns)) or "none"
        raise DataError(f"{where} has no column {name!r}: found {found}{advice}")


def read_titles_file(spark: SparkSession, path: str, id_type: DataType) -> DataFrame:
    """Open a file of titles.

    path : a MovieLens file (.item, .dat), or CSV or Parquet with a column title and one called item, item_id or
    movieId. Returns item_id, of the given type, and title, one row for each item.
    Raises DataError: nothing is there, it cannot be opened, or a column is missing.
    """
    with opening(f"{TITLES} {path!r}", TITLES):
        if suffix(path) in _SEPARATORS:
            reader = spark.read.option("encoding", "iso-8859-1").option("sep", "\n")
            source = reader.csv(path, schema="line string", quote="")
            item, title = (F.split("line", _SEPARATORS[suffix(path)])[at] for at in (0, 1))
        else:
            is_csv = suffix(path) == ".csv"
            source = spark.read.options(header="true", **QUOTING).csv(path) if is_csv else spark.read.parquet(path)
            named = [name for name in _ITEM_COLUMNS if name in source.columns]
            if not named or "title" not in source.columns:
                raise DataError(
                    f"{TITLES} {path!r}: found columns {', '.join(map(repr, source.columns)) or 'none'}; expected "
                    f"'title' and one of {', '.join(map(repr, _ITEM_COLUMNS))}"
                )
            item, title = F.col(named[0]), F.col("title")
    ids = try_cast(item.cast("string"), id_type.simpleString()).alias("item_id")
    titled = source.select(ids, title.cast("string").alias("title"))
    # Where an item has several titles, every run takes the same one.
    return titled.where("item_id is not null").groupBy("item_id").agg(F.min("title").alias("title"))
