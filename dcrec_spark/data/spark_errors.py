"""Spark's exceptions about unreadable input, in the words of this package."""

from collections.abc import Iterator
from contextlib import contextmanager

from dcrec_spark.config.secrets import mask_secrets
from dcrec_spark.errors import DataError
from dcrec_spark.spark.compat import BROKEN_FILE
from dcrec_spark.spark.failures import SPARK_FAILURES, SparkFailure, is_broken_file, reason

_ADVICE = {
    "PATH_NOT_FOUND": "nothing is there; check {setting}",
    "UNABLE_TO_INFER_SCHEMA": "no data files are there; check {setting} and {format}",
    "TABLE_OR_VIEW_NOT_FOUND": "there is no such table or view; check input.table and the catalog",
    "REQUIRES_SINGLE_PART_NAMESPACE": "there is no such catalog; check input.table",
    "NotAuthorizedException": "the catalog does not know who asks; check its credential or token in spark.conf",
    "ForbiddenException": "the catalog does not let its user do that; check what it grants",
    "PARSE_SYNTAX_ERROR": "expected a table's name, catalog.database.table; check input.table",
    "CSV header does not conform": "its files have different headers, or one has a column without a name or a name "
    "twice; expected the same columns in order, each with a name of its own",
    # Spark's limit of columns, which a line meets whose delimiter or quotes are others than the settings say.
    "out of bounds for length 20480": "a line has more than 20,480 columns; check input.options.sep",
    "CANNOT_READ_FILE_FOOTER": "a file is not in the format that {format} says, or is damaged",
    'No FileSystem for scheme "s3"': "no client for s3: is there; write s3a:, and name in spark.jars what "
    "'dcrec jars s3' fetches",
    "S3AFileSystem not found": "no archive for s3a: is there; 'dcrec jars s3' fetches what spark.jars has to name",
    "org.postgresql.Driver": "no JDBC driver for input.options.url; name its jar in spark.jars",
    "Failed to find data source: avro": "set spark.conf.spark.jars.packages=org.apache.spark:spark-avro_2.13:VERSION, "
    "with the version of Spark",
    "No suitable driver": "no JDBC driver for input.options.url; put its jar on the class path",
    # Last, for the lines above know more.
    "FAILED_READ_FILE": "a file is damaged, or not as the others are; mend it or take it out of {setting}",
}


@contextmanager
def opening(source: str, setting: str = "input.path") -> Iterator[None]:
    """Turn whatever Spark raises inside into a ``DataError`` about ``source``, which ``setting`` names."""
    try:
        yield
    except SPARK_FAILURES as error:
        # Spark's own text may hold the address of a database with its password: it is not chained.
        raise DataError(f"{source}: {explain(error, setting)}") from None


@contextmanager
def reading_rows() -> Iterator[None]:
    """Turn a file that breaks while it is read into a ``DataError``. Every other failure goes on as it is."""
    try:
        yield
    except SPARK_FAILURES as error:
        if not is_broken_file(error):
            raise
        raise DataError(f"the input cannot be read to its end: {explain(error)}") from None


def explain(error: SparkFailure, setting: str = "input.path") -> str:
    """One line: the advice where the failure is a known one, then Spark's own reason without secrets."""
    # Spark 3.5 has several names for a broken file, and none for the one that is.
    text = f"{error} {BROKEN_FILE[0] if is_broken_file(error) else ''}"
    of_format = "input.format" if setting == "input.path" else "its name"
    advice = [hint.format(setting=setting, format=of_format) for known, hint in _ADVICE.items() if known in text][:1]
    return "; ".join([*advice, f"Spark says: {mask_secrets(reason(error))[:400]}"])
