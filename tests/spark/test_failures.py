"""Failures of Spark and of the disks below it are told apart by what they say."""

import errno

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dcrec_spark.spark.failures import full_disk, message_of, reason, unreachable


def chained(inner: Exception) -> Exception:
    outer = RuntimeError("the fit failed")
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (chained(OSError(errno.EDQUOT, "over the limit")), True),
        (PySparkException("An error occurred.\n: java.io.IOException: No space left on device\n"), True),
        (OSError("/out: org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota"), True),
        (chained(OSError(errno.EACCES, "Permission denied")), False),
        (None, False),
    ],
)
def test_a_full_disk_is_recognised_on_both_sides_of_the_bridge(error: Exception | None, full: bool) -> None:
    found = full_disk(error)
    assert (found is not None) == full
    if isinstance(error, PySparkException):
        assert found == ": java.io.IOException: No space left on device"


REFUSED = "org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check that the hostname and port are"
NAME_NODE = "java.net.ConnectException: Call From a to b:8020 failed on connection exception"


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (chained(OSError(errno.ECONNREFUSED, "Connection refused")), True),
        (PySparkException(f"An error occurred.\n: {REFUSED}\n"), True),
        (chained(PySparkException(f"x\n\tat y\nCaused by: {NAME_NODE}: Connection refused")), True),
        (OSError("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution"), True),
        (OSError("connection failed: FATAL:  the database system is starting up"), True),
        (OSError('connection failed: FATAL:  password authentication failed for user "bob"'), False),
        (chained(Py4JNetworkError("[Errno 111] Connection refused")), False),  # it is the JVM that is gone
        (None, False),
    ],
)
def test_a_service_that_does_not_answer_is_told_from_one_that_refuses(error: Exception | None, away: bool) -> None:
    assert (unreachable(error) is not None) == away


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[CATALOG_NOT_FOUND] The catalog `shop` not found.\nJVM stacktrace:\norg.apache.spark.X\n"
            "Caused by: java.lang.ClassNotFoundException: no.such.Catalog\n\tat java.base/x",
            "[CATALOG_NOT_FOUND] The catalog `shop` not found. / no.such.Catalog",
        ),
        (
            "An error occurred while calling o9.save.\n: org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Lost task 0.0: java.sql.BatchUpdateException: Batch entry 0 was aborted.\n\tat org.postgresql.X\n"
            "\nDriver stacktrace:\n\tat org.apache.spark.X\nCaused by: java.sql.BatchUpdateException: Batch entry 0\n"
            "\tat org.postgresql.X\n\t... 9 more\nCaused by: org.postgresql.util.PSQLException: ERROR: duplicate key\n"
            "  Detail: Key (user_id)=(7) already exists.\n\tat org.postgresql.X\n\t... 19 more\n",
            "ERROR: duplicate key Detail: Key (user_id)=(7) already exists.",
        ),
        (
            "An error occurred while calling o9.collect.\n: org.apache.spark.SparkException: Job aborted.\n\tat x\n"
            "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\nValueError: too bad\n\n\tat org.apache.spark.X\n',
            "ValueError: too bad",
        ),
        ("Job aborted\n\tat org.apache.spark.X\n\nDriver stacktrace:\n\tat org.apache.spark.X", "Job aborted"),
        ("", "PySparkException"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(text: str, line: str) -> None:
    assert reason(PySparkException(text)) == line


def test_a_dead_jvm_is_called_so_whatever_its_bridge_says() -> None:
    """The system ends it where memory runs out, and Py4J then meets a closed port."""
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    refused.__context__ = Py4JNetworkError("Error while sending")
    assert message_of(refused).startswith("Spark's JVM has died")
    assert message_of(ConnectionRefusedError(errno.ECONNREFUSED, "another port")).endswith("another port")


def test_what_an_error_says_has_no_stack_trace_and_is_whole_where_there_was_none(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        spark._jvm.java.net.URI("a b")  # type: ignore[union-attr]
    assert "\tat java.base" in str(caught.value)
    assert message_of(caught.value) == "Illegal character in path at index 1: a b"
    assert message_of(RuntimeError(str(caught.value))) == "Illegal character in path at index 1: a b"
    assert message_of(RuntimeError("one line\nand another")) == "one line\nand another"
