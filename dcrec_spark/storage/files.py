"""Store of a path: the local file system, HDFS, or an object store of a cloud."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.storage.hadoop import HadoopFiles, NumberedFiles, ObjectFiles
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import Directories

LOCATION = re.compile(r"(?:(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<host>[^/]*))?)?(?P<path>.*)", re.DOTALL)
# Spark reads these in a path as a pattern, or fails on them.
PATTERN_CHARACTERS = frozenset("*?[]{}\\:")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def open_files(
    path: str, spark: SparkSession | None = None, setting: str = "output.path"
) -> tuple[Directories | ObjectFiles, str]:
    """Open the store that a path names.

    Without a scheme, and with ``file:``, that is the local file system, on a cluster too. ``hdfs:`` is HDFS. All else
    is an object store, or a file system of which no renames are asked. They are reached through the driver's JVM.

    spark : the session whose JVM reaches other stores than the local one. None is enough for that.
    Returns the store, and the absolute path inside it.
    Raises ConfigError: Hadoop has no client for it here. Names the setting, and the cure.
    """
    parts = LOCATION.fullmatch(path)
    scheme, host, inside = (parts[name] or "" for name in ("scheme", "host", "path")) if parts else ("", "", "")
    if scheme == "file" and (host or not inside.startswith("/")):
        raise ConfigError(f"{setting} is {path!r}; expected an absolute path after file:, such as file:/data")
    plain = inside if scheme in ("", "file") else inside or "/"
    if not plain.strip() or PATTERN_CHARACTERS & set(plain) or CONTROL_CHARACTERS.search(plain):
        raise ConfigError(
            f"{setting} is {path!r}; expected a path without line breaks and any of the characters "
            f"{' '.join(sorted(PATTERN_CHARACTERS))}"
        )
    if scheme in ("", "file"):
        return LocalFiles(), str(Path(inside).absolute())
    if scheme == "hdfs":
        return HadoopFiles(spark, path, setting), inside.rstrip("/") or "/"
    files = ObjectFiles(spark, path, setting)
    return files if files.is_conditional else NumberedFiles(spark, path, setting), inside.rstrip("/")


def is_local(path: str) -> bool:
    """Whether a path is one of the local file system, which needs no session to be opened."""
    parts = LOCATION.fullmatch(path)
    return parts is not None and parts["scheme"] in (None, "file")
