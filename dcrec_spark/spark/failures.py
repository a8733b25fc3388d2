"""What Spark raises, whether its Python side or its JVM does."""

import errno
import re
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_FAILURES = (PySparkException, Py4JError)
SparkFailure: TypeAlias = PySparkException | Py4JError


# How the operating system and HDFS say that there is no room, in Java's stack traces as in Python's errors.
_FULL = ("No space left on device", "Disk quota exceeded", "DSQuotaExceededException", "not enough space on the disk")


def full_disk(error: BaseException | None) -> str | None:
    """Return how an error, or one behind it, says that a disk is full: of this process, the JVM or an executor.

    None where none of them says so.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return str(error)
        # Spark's own exceptions keep the causes apart from their text.
        for line in f"{error}\n{getattr(error, '_stackTrace', '')}".splitlines():
            if any(words in line for words in _FULL):
                return line.strip()
        error = error.__cause__ or error.__context__
    return None


def reason(error: BaseException) -> str:
    """One line of what Spark raised: its condition and the innermost cause, without the stack traces around them."""
    text = str(error)
    conditions: list[str] = re.findall(r"\[[A-Z][A-Z_.]+\] ?[^\n]*", text)
    causes: list[str] = re.findall(r"^(?:Caused by)?: (?:[\w.$]+: )?([^\n]+)", text, re.MULTILINE)
    lines = [*conditions[:1], *causes[-1:]] or [line for line in text.splitlines() if line.strip()][-1:]
    return " ".join(" / ".join(dict.fromkeys(lines)).split()) or type(error).__name__


def is_broken_file(error: SparkFailure) -> bool:
    """Whether a data file could not be read to its end, which Spark meets long after the source was opened."""
    return "FAILED_READ_FILE" in str(error)
