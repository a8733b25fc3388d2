"""Store of a path: the local file system, HDFS or S3. Others are refused."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.storage.hadoop import HadoopFiles, ObjectFiles
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import Directories

LOCATION = re.compile(r"(?:(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<host>[^/]*))?)?(?P<path>.*)", re.DOTALL)
# Spark reads these in a path as a pattern, or fails on them.
PATTERN_CHARACTERS = frozenset("*?[]{}\\:")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
OBJECT_STORES = frozenset({"s3", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "cosn", "obs"})


def open_files(
    path: str, spark: SparkSession | None = None, setting: str = "output.path"
) -> tuple[Directories | ObjectFiles, str]:
    """Open the store that a path names.

    Without a scheme, and with ``file:``, that is the local file system, on a cluster too. ``hdfs:`` is HDFS, and
    ``s3a:`` S3 or what speaks its language, both reached through the driver's JVM.

    path : what a user has set.
    spark : the session whose JVM reaches HDFS and S3. None is enough for other paths.
    setting : what the user calls the path, for the error.
    Returns the store, and the absolute path inside it.
    Raises ConfigError: any other kind of path, other object stores first of all. Names the setting.
    """
    parts = LOCATION.fullmatch(path)
    scheme, host, inside = (parts[name] or "" for name in ("scheme", "host", "path")) if parts else ("", "", "")
    if scheme == "hdfs":
        _require_plain(path, inside, setting)
        return HadoopFiles(spark, path, setting), inside.rstrip("/") or "/"
    if scheme == "s3a" and host:
        _require_plain(path, inside or "/", setting)
        return ObjectFiles(spark, path, setting), inside.rstrip("/")
    if scheme == "" or (scheme == "file" and not host and inside.startswith("/")):
        _require_plain(path, inside, setting)
        return LocalFiles(), str(Path(inside).absolute())
    why = "is an object store, and only s3a: is known to replace a pointer under a condition, as publishing needs it"
    raise ConfigError(
        f"{setting} is {path!r}: {scheme}: {why if scheme in OBJECT_STORES else 'is not supported'}; "
        "use a path on S3 (s3a://bucket/...), on HDFS (hdfs://), or on a local or shared file system"
    )


def is_local(path: str) -> bool:
    """Whether a path is one of the local file system, which needs no session to be opened."""
    parts = LOCATION.fullmatch(path)
    return parts is not None and parts["scheme"] in (None, "file")


def _require_plain(path: str, inside: str, setting: str) -> None:
    if not inside.strip() or PATTERN_CHARACTERS & set(inside) or CONTROL_CHARACTERS.search(inside):
        refused = " ".join(sorted(PATTERN_CHARACTERS))
        raise ConfigError(
            f"{setting} is {path!r}; expected a path without line breaks and any of the characters {refused}"
        )
