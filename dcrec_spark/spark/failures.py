"""What Spark raises, whether its Python side or its JVM does."""

import errno
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_FAILURES = (PySparkException, Py4JError)
SparkFailure: TypeAlias = PySparkException | Py4JError


# How the operating system and HDFS say that there is no room, in Java's stack traces as in Python's errors.
_FULL = ("No space left on device", "Disk quota exceeded", "DSQuotaExceededException", "not enough space on the disk")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, is that of a full disk: of this process, of the JVM or of an executor."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        # Spark's own exceptions keep the causes apart from their text.
        text = f"{error}{getattr(error, '_stackTrace', '')}"
        if any(words in text for words in _FULL):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_broken_file(error: SparkFailure) -> bool:
    """Whether a data file could not be read to its end, which Spark meets long after the source was opened."""
    return "FAILED_READ_FILE" in str(error)
