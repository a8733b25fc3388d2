"""Readers of ratings in all formats, in the layout of :mod:`dcrec_spark.data.columns`. Validation comes later."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.sections import ColumnNames, InputConfig
from dcrec_spark.data.columns import pick_columns, raw_frame
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.spark.failures import SPARK_FAILURES
from dcrec_spark.spark.planning import borrow

_MOVIELENS_FILES = ("u.data", "ratings.dat", "ratings.csv")
_MOVIELENS_CSV = ColumnNames(user="userId", item="movieId", rating="rating", timestamp="timestamp")
_MOVIELENS_SEPARATORS = {".data": "\t", ".dat": "::"}
_NAMES = ("user", "item", "rating", "timestamp")
# A quote inside quotes is doubled, as RFC 4180 and spreadsheets have it; Spark's own default is a backslash. What
# escapes the escape would by default be the character 0, which ids would lose.
QUOTING = {"escape": '"', "charToEscapeQuoteEscaping": '"'}
_COMPRESSED = (".gz", ".bz2", ".zst")
# Formats of files whose columns have types, by the endings of their names.
TYPED = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".orc": "orc", ".avro": "avro"}
_MERGING = ("parquet", "orc")
_PATH_AS_TABLE = re.compile(r"(csv|json|orc|parquet|avro|text)\.", re.IGNORECASE)
# Of Spark, for a column of nanoseconds in Parquet, and the session's setting with which they are read as whole numbers.
_NANOSECONDS, _AS_NUMBERS = "TIMESTAMP(NANOS", "spark.sql.legacy.parquet.nanosAsLong"
# Else code=007 in the name of a directory would be the number 7.
PARTITIONS_AS_TEXT = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}


def read_ratings(spark: SparkSession, config: InputConfig) -> DataFrame:
    """Open the input that ``config`` names. Its rows are read later, when they are validated.

    Text stays text until it is validated, so that what cannot be understood can be shown.

    Returns the raw frame of :mod:`dcrec_spark.data.columns`.
    Raises ConfigError: the settings do not say where the input is. Raises DataError: nothing is there, it cannot be
    opened, a column is missing or has an impossible type.
    """
    where = config.table if config.format in ("table", "jdbc") else config.path
    of_research = config.format in ("movielens", "coat", "yahoo-r3")
    with opening(f"input {config.format} {where!r}"), borrow(spark, PARTITIONS_AS_TEXT):
        picked = _READERS[config.format](spark, config)
        return raw_frame(picked, "long" if of_research and config.id_type == "auto" else config.id_type)


def _path(config: InputConfig) -> str:
    if config.path is None:
        raise ConfigError(
            f"setting input.path: found null, expected a file or directory for input.format={config.format}"
        )
    return config.path


def _table(config: InputConfig) -> str:
    if config.table is None:
        raise ConfigError(f"setting input.table: found null, expected a table's name for input.format={config.format}")
    if config.format == "table" and (files := _PATH_AS_TABLE.match(config.table)):
        raise ConfigError(
            f"setting input.table: found {config.table!r}, a path; set input.format={files[1].lower()}, and input.path "
            "to the path"
        )
    return config.table


def _ratings_table(spark: SparkSession, config: InputConfig) -> DataFrame:
    if config.snapshot is not None:
        source = spark.sql(f"SELECT * FROM {_table(config)} VERSION AS OF {int(config.snapshot)}")
    elif "query" in config.options and config.format == "jdbc":
        source = spark.read.format("jdbc").options(**_jdbc_options(config)).load()
    else:
        source = read_table(spark, config, _table(config))
    return pick_columns(source, config.columns)


def read_table(spark: SparkSession, config: InputConfig, name: str) -> DataFrame:
    """Open a table of the ratings' catalog or database, as it is now. Raises ConfigError: no address is set."""
    if config.format == "table":
        return spark.table(name)
    options = {option: value for option, value in _jdbc_options(config).items() if option != "query"}
    return spark.read.format("jdbc").options(**options, dbtable=name).load()


def _jdbc_options(config: InputConfig) -> dict[str, str]:
    if "url" not in config.options:
        raise ConfigError("setting input.options.url: not set, expected the database's address, jdbc:...")
    options = dict(config.options)
    if options["url"].startswith("jdbc:postgresql:") and "driver" not in map(str.lower, options):
        # Java looks for drivers on its own class path only, not in spark.jars.
        options["driver"] = "org.postgresql.Driver"
    return options


def csv_options(config: InputConfig) -> dict[str, str]:
    """Return the options of Spark's reader: with a header unless input.options says otherwise."""
    given = config.options if config.format == "csv" else {}
    # Spark takes names of encodings in capitals only.
    options = {name: value.upper() if name.lower() == "encoding" else value for name, value in given.items()}
    options = {"header": "true", **options}
    # Spark cuts files into lines by their bytes, which only some encodings allow; in one piece it reads all of them.
    one_piece = any(name.lower() == "encoding" and value == "UTF-16" for name, value in options.items())
    return {"multiLine": "true", **options} if one_piece else options


def open_files(spark: SparkSession, kind: str, path: str, options: Mapping[str, str]) -> DataFrame:
    """Open files of a typed format, with the columns of all of them, where these agree."""
    if kind in _MERGING:
        with suppress(*SPARK_FAILURES):  # a file that differs is named when it is read
            return _load(spark, kind, path, {"mergeSchema": "true", **options})
    return _load(spark, kind, path, options)


def _load(spark: SparkSession, kind: str, path: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format(kind).options(**options)
    try:
        return reader.load(path)
    except SPARK_FAILURES as error:
        if _NANOSECONDS not in str(error) or spark.conf.get(_AS_NUMBERS) == "true":
            raise
    spark.conf.set(_AS_NUMBERS, "true")  # rows are read later, with the setting of then
    return reader.load(path)


def _typed(spark: SparkSession, config: InputConfig) -> DataFrame:
    path = _path(config)
    if config.format != "json":
        return pick_columns(open_files(spark, config.format, path, config.options), config.columns)
    given, broken = spark.read.options(**config.options).json(path).schema, "_corrupt_record"
    schema = given if broken in given.fieldNames() else given.add(broken, "string")
    source = spark.read.schema(schema).options(**config.options).json(path)
    return pick_columns(source, config.columns, malformed_line=broken)


def _csv(spark: SparkSession, path: str, columns: ColumnNames, options: dict[str, str]) -> DataFrame:
    reading = {**({} if "escape" in options else QUOTING), **options, "inferSchema": "false"}
    schema = spark.read.options(**reading).csv(path).schema
    broken = "broken_line"
    while broken in schema.fieldNames():
        broken += "_"
    source = (
        spark.read.schema(schema.add(broken, "string"))
        .options(**reading)
        .options(mode="PERMISSIVE", columnNameOfCorruptRecord=broken)
        # Files with their columns in another order must not be read by position; and with pruning, a row that
        # is too long or too short would pass when the columns in use are there.
        .options(enforceSchema="false", columnPruning="false")
        .csv(path)
    )
    given = {name.lower(): value for name, value in reading.items()}
    quote, escape = given.get("quote", '"'), given.get("escape", "\\")

    def in_quotes(line: Column) -> Column:
        """Of a record over several lines the first and the last one alone have too few columns, and an odd quote."""
        plain = line if escape == quote else F.replace(line, F.lit(escape + quote), F.lit(""))
        return (F.length(plain) - F.length(F.replace(plain, F.lit(quote), F.lit("")))) % 2 == 1

    one_line = quote and "multiline" not in given
    return pick_columns(source, columns, malformed_line=broken, in_quotes=in_quotes if one_line else None)


def _movielens_file(spark: SparkSession, path: str) -> DataFrame:
    ending = suffix(path)
    if ending == ".csv":
        return _csv(spark, path, _MOVIELENS_CSV, {"header": "true"})
    if ending in _MOVIELENS_SEPARATORS:
        return _split_lines(spark.read.text(path), _MOVIELENS_SEPARATORS[ending], _NAMES)
    raise DataError(
        f"input movielens {path!r}: found the file type {ending or 'none'}, expected .data, .dat or .csv; "
        "for another layout set input.format=csv"
    )


def _first_that_exists(
    spark: SparkSession, path: str, usual: tuple[str, ...], read: Callable[[SparkSession, str], DataFrame]
) -> DataFrame:
    """Open the file itself, or a directory's usual file. Spark looks it up: the path may be on any storage."""
    if suffix(path):
        return read(spark, path)
    for name in usual:
        try:
            return read(spark, f"{path.rstrip('/')}/{name}")
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
    raise DataError(f"input {path!r}: expected a file, or a directory that has {' or '.join(usual)}; found neither")


def suffix(path: str) -> str:
    """Return how a path's last name ends, in small letters, without the ending that names its compression."""
    name = path.rstrip("/").rpartition("/")[2]
    for compressed in _COMPRESSED:
        name = name.removesuffix(compressed)
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def _split_lines(lines: DataFrame, separator: str, names: tuple[str, ...]) -> DataFrame:
    """Lines without a header, ``196<TAB>242<TAB>3<TAB>881250949``, as text columns, ``raw`` and ``malformed``."""
    cells = F.split("value", separator)
    columns = [F.get(cells, F.lit(position)).alias(name) for position, name in enumerate(names)]
    return lines.filter(F.trim("value") != "").select(
        *columns, F.col("value").alias("raw"), (F.size(cells) != len(names)).alias("malformed")
    )


def _read_coat(spark: SparkSession, path: str) -> DataFrame:
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


_READERS: dict[str, Callable[[SparkSession, InputConfig], DataFrame]] = {
    **dict.fromkeys(("parquet", "json", "orc", "avro"), _typed),
    "csv": lambda spark, of: _csv(spark, _path(of), of.columns, csv_options(of)),
    **dict.fromkeys(("table", "jdbc"), _ratings_table),
    "movielens": lambda spark, of: _first_that_exists(spark, _path(of), _MOVIELENS_FILES, _movielens_file),
    "coat": lambda spark, of: _first_that_exists(spark, _path(of), ("train.ascii",), _read_coat),
    "yahoo-r3": lambda spark, of: _split_lines(spark.read.text(_path(of)), "\t", _NAMES[:3]),
}


# Snapshots of tables: what a run has read can be named in its record, and read again.
# Iceberg tables have snapshots with ids, Delta tables versions from 0. A table of another kind has none.


def pin_snapshot(spark: SparkSession, config: InputConfig) -> InputConfig:
    """Set ``snapshot`` of a table that has some to the current one, so that whatever is read later is of the same.

    Raises ConfigError: a snapshot is asked for of a table that has none.
    """
    if config.format != "table" or config.table is None:
        if config.snapshot is not None:
            raise ConfigError(
                f"setting input.snapshot: found {config.snapshot!r} with input.format={config.format}; expected null: "
                "only Iceberg and Delta tables (input.format=table) have snapshots"
            )
        return config
    with opening(f"input table {config.table!r}"):
        table, heads = _table(config), []
        provider = _provider(spark, table)
        if provider == "iceberg":
            heads = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
        elif provider == "delta":
            heads = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()
    current = str(heads[0][0]) if heads else None
    if config.snapshot is not None and current is None:
        raise ConfigError(
            f"setting input.snapshot: found {config.snapshot!r}; expected null: {config.table} is neither an Iceberg "
            "nor a Delta table"
        )
    return config if config.snapshot is not None else config.model_copy(update={"snapshot": current})


def table_id(spark: SparkSession, config: InputConfig) -> str | None:
    """Name what tells a Delta table from an earlier one of its name, whose versions begin at 0 too. None for others."""
    if config.snapshot is None or config.table is None or _provider(spark, config.table) != "delta":
        return None
    return str(spark.sql(f"DESCRIBE DETAIL {config.table}").select("id").collect()[0][0])


def _provider(spark: SparkSession, table: str) -> str:
    details = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Provider'").collect()
    return str(details[0]["data_type"]).lower() if details else ""
