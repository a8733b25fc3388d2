"""Readers of ratings in all formats, in the layout of :mod:`dcrec_spark.data.columns`. Validation comes later."""

from collections.abc import Callable
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import ColumnNames, InputConfig
from dcrec_spark.data.columns import pick_columns, raw_frame
from dcrec_spark.data.formats import MOVIELENS_CSV, MOVIELENS_SEPARATORS, read_coat, read_movielens_lines, read_yahoo_r3
from dcrec_spark.data.snapshots import table_at
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import ConfigError, DataError

_MOVIELENS_FILES = ("u.data", "ratings.dat", "ratings.csv")
# A quote inside quotes is doubled, as RFC 4180 and spreadsheets have it; Spark's own default is a backslash. What
# escapes the escape would by default be the character 0, which ids would lose.
QUOTING = {"escape": '"', "charToEscapeQuoteEscaping": '"'}
_COMPRESSED = (".gz", ".bz2", ".zst")


def read_ratings(spark: SparkSession, config: InputConfig) -> DataFrame:
    """Open the input that ``config`` names. Its rows are read later, when they are validated.

    Text stays text until it is validated, so that what cannot be understood can be shown. Typed sources (parquet,
    table, jdbc) keep their types. Ids are as stored, text from csv, whole numbers from the research data sets, unless
    ``config.id_type`` says otherwise.

    Returns the raw frame of :mod:`dcrec_spark.data.columns`.
    Raises ConfigError: the settings do not say where the input is. Raises DataError: nothing is there, it cannot be
    opened, a column is missing or has an impossible type.
    """
    reader = _READERS[config.format]
    where = config.table if config.format in ("table", "jdbc") else config.path
    with opening(f"input {config.format} {where!r}"):
        picked = reader(spark, config)
        return raw_frame(picked, _id_type(config))


def _id_type(config: InputConfig) -> Literal["auto", "string", "long"]:
    if config.id_type == "auto" and config.format in ("movielens", "coat", "yahoo-r3"):
        return "long"
    return config.id_type


def _path(config: InputConfig) -> str:
    if config.path is None:
        raise ConfigError(
            f"setting input.path: found null, expected a file or directory for input.format={config.format}"
        )
    return config.path


def _table(config: InputConfig) -> str:
    if config.table is None:
        raise ConfigError(f"setting input.table: found null, expected a table's name for input.format={config.format}")
    return config.table


def _read_parquet(spark: SparkSession, config: InputConfig) -> DataFrame:
    source = spark.read.options(**config.options).parquet(_path(config))
    return pick_columns(source, config.columns)


def _read_table(spark: SparkSession, config: InputConfig) -> DataFrame:
    return pick_columns(table_at(spark, _table(config), config.snapshot), config.columns)


def _read_jdbc(spark: SparkSession, config: InputConfig) -> DataFrame:
    if "query" not in config.options:
        return pick_columns(read_table(spark, config, _table(config)), config.columns)
    return pick_columns(spark.read.format("jdbc").options(**_jdbc_options(config)).load(), config.columns)


def read_table(spark: SparkSession, config: InputConfig, name: str) -> DataFrame:
    """Open another table of the place that the ratings are in, a catalog or a database, as it is now.

    Raises ConfigError: the settings do not say where the database is.
    """
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


def _read_csv(spark: SparkSession, config: InputConfig) -> DataFrame:
    return _csv(spark, _path(config), config.columns, csv_options(config))


def csv_options(config: InputConfig) -> dict[str, str]:
    """Return the options of Spark's reader: with a header unless input.options says otherwise."""
    given = config.options if config.format == "csv" else {}
    # Spark takes names of encodings in capitals only.
    options = {name: value.upper() if name.lower() == "encoding" else value for name, value in given.items()}
    options = {"header": "true", **options}
    # Spark cuts files into lines by their bytes, which only some encodings allow; in one piece it reads all of them.
    one_piece = any(name.lower() == "encoding" and value == "UTF-16" for name, value in options.items())
    return {"multiLine": "true", **options} if one_piece else options


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
    return pick_columns(source, columns, malformed_line=broken)


def _read_movielens(spark: SparkSession, config: InputConfig) -> DataFrame:
    path = _path(config)
    return _first_that_exists(spark, path, _MOVIELENS_FILES, _movielens_file)


def _movielens_file(spark: SparkSession, path: str) -> DataFrame:
    ending = suffix(path)
    if ending == ".csv":
        return _csv(spark, path, MOVIELENS_CSV, {"header": "true"})
    if ending in MOVIELENS_SEPARATORS:
        return read_movielens_lines(spark, path, MOVIELENS_SEPARATORS[ending])
    raise DataError(
        f"input movielens {path!r}: found the file type {ending or 'none'}, expected .data, .dat or .csv; "
        "for another layout set input.format=csv"
    )


def _read_coat(spark: SparkSession, config: InputConfig) -> DataFrame:
    return _first_that_exists(spark, _path(config), ("train.ascii",), read_coat)


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
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
    raise DataError(f"input {path!r}: expected a file, or a directory that has {' or '.join(usual)}; found neither")


def suffix(path: str) -> str:
    """Return how a path's last name ends, in small letters, without the ending that names its compression."""
    name = path.rstrip("/").rpartition("/")[2]
    for compressed in _COMPRESSED:
        name = name.removesuffix(compressed)
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def _read_yahoo_r3(spark: SparkSession, config: InputConfig) -> DataFrame:
    return read_yahoo_r3(spark, _path(config))


_READERS: dict[str, Callable[[SparkSession, InputConfig], DataFrame]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "table": _read_table,
    "movielens": _read_movielens,
    "coat": _read_coat,
    "yahoo-r3": _read_yahoo_r3,
    "jdbc": _read_jdbc,
}
