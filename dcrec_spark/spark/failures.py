"""Errors that Spark raises, in Python or in the JVM."""

import errno
import re
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TypeAlias

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from dcrec_spark.spark.compat import BROKEN_FILE

SPARK_FAILURES = (PySparkException, Py4JError)
SparkFailure: TypeAlias = PySparkException | Py4JError
# How the operating system and HDFS say that there is no room, in Java's stack traces as in Python's errors.
_FULL = ("No space left on device", "Disk quota exceeded", "DSQuotaExceededException", "not enough space on the disk")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _lines(error: BaseException) -> list[str]:
    """Return the lines of an error. Spark's own exceptions keep the causes apart from their text."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}".splitlines()


def full_disk(error: BaseException | None) -> str | None:
    """Return how an error, or one behind it, says that a disk is full: of this process, the JVM or an executor."""
    for one in _chain(error):
        if isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT):
            return str(one)
        for line in _lines(one):
            if any(words in line for words in _FULL):
                return line.strip()
    return None


# How drivers, the JVM and databases say that nobody answers, or not yet.
_AWAY = re.compile(
    r"Connection refused|refused\. Check that the hostname|[Cc]onnect(?:ion)? ?(?:attempt )?timed out|timeout expired|"
    r"NoRouteToHost|No route to host|UnknownHost|SocketTimeout|ConnectTimeout|Network is unreachable|"
    r"could not translate host name|failed to resolve host|Name or service not known|Temporary failure in name|"
    r"The connection attempt failed|server closed the connection unexpectedly|terminating connection due to|"
    r"database system is (?:starting up|shutting down|in recovery)|too many (?:clients|connections)|"
    r"remaining connection slots|Communications link failure|Connection reset"
)


def unreachable(error: BaseException | None) -> str | None:
    """Return how an error, or one behind it, says that a service did not answer. None: it did, or the JVM is gone."""
    if _is_of_a_dead_jvm(error):
        return None
    return next((line.strip() for one in _chain(error) for line in _lines(one) if _AWAY.search(line)), None)


# What Java prints in front of the causes of an error, and the lines that are no words of any.
_CAUSE = re.compile(r"^(?:Caused by)?: (?:[\w.$]+: )?(?=\S)", re.MULTILINE)
_OF_A_TRACE = re.compile(r"\t|Caused by: |(?:Driver|JVM) stacktrace:|\s*$")
_TRACEBACK = "Traceback (most recent call last):"
# Servers give details in the lines below the first; plans and whole queries follow further down.
_LINES_OF_A_CAUSE = 3
_DEAD_JVM = (
    "Spark's JVM has died. The system may have ended it for want of memory: give the machine or container more, or "
    "lower spark.driver.memory"
)


def message_of(error: BaseException) -> str:
    """Return what an error says, without the stack traces that Spark's and Py4J's errors have in their text."""
    if _is_of_a_dead_jvm(error):
        return _DEAD_JVM
    text = str(error)
    return reason(error) if isinstance(error, SPARK_FAILURES) or "\n\tat " in text else text


def _is_of_a_dead_jvm(error: BaseException | None) -> bool:
    return any(isinstance(one, Py4JNetworkError) for one in _chain(error))


def reason(error: BaseException) -> str:
    """One line of what Spark raised: its condition and the innermost cause, without the stack traces around them."""
    text = str(error)
    conditions: list[str] = re.findall(r"\[[A-Z][A-Z_.]+\] ?[^\n]*", text)
    causes = [_words(text[found.end() :]) for found in _CAUSE.finditer(text)]
    words = [*conditions[:1], *causes[-1:]] or [line for line in text.splitlines() if not _OF_A_TRACE.match(line)][-1:]
    if len(words) == 2 and words[0] in words[1]:
        words = words[1:]
    return " ".join(" / ".join(words).split()) or type(error).__name__


def _words(cause: str) -> str:
    """Take the first lines of a cause. Of a Python worker's, the last line of its traceback."""
    lines = list(takewhile(lambda line: not _OF_A_TRACE.match(line), cause.splitlines()))
    if _TRACEBACK in cause.partition("\n")[0]:
        return lines[-1]
    return "\n".join(islice(lines, _LINES_OF_A_CAUSE))


def is_broken_file(error: SparkFailure) -> bool:
    """Whether a data file could not be read to its end, which Spark meets long after the source was opened."""
    text = str(error)
    return any(words in text for words in BROKEN_FILE)
