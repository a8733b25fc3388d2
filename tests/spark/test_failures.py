"""Failures of Spark and of the disks below it are told apart by what they say."""

import errno

import pytest
from pyspark.errors import PySparkException

from dcrec_spark.spark.failures import full_disk, reason


def chained(inner: Exception) -> Exception:
    outer = RuntimeError("the fit failed")
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "over the limit"), True),
        (chained(OSError(errno.ENOSPC, "full")), True),
        (PySparkException("Task 3 failed 4 times: java.io.IOException: No space left on device"), True),
        (OSError("/out: org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota"), True),
        (chained(OSError(errno.EACCES, "Permission denied")), False),
        (PySparkException("Task 3 failed 4 times: java.io.FileNotFoundException: /x"), False),
        (None, False),
    ],
)
def test_a_full_disk_is_recognised_on_both_sides_of_the_bridge(error: Exception | None, full: bool) -> None:
    assert (full_disk(error) is not None) == full


def test_the_line_that_says_so_is_shown() -> None:
    error = PySparkException(
        "An error occurred while calling o1.parquet.\n: java.io.IOException: No space left on device\n"
    )
    assert full_disk(error) == ": java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "An error occurred while calling o72.sql.\n"
            ": org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: invalid_client\n"
            "\tat org.apache.iceberg.rest.ErrorHandlers.accept(ErrorHandlers.java:338)",
            "Not authorized: invalid_client",
        ),
        (
            "[CATALOG_NOT_FOUND] The catalog `shop` not found.\nJVM stacktrace:\norg.apache.spark.X\n"
            "Caused by: java.lang.ClassNotFoundException: no.such.Catalog\n\tat java.base/x",
            "[CATALOG_NOT_FOUND] The catalog `shop` not found. / no.such.Catalog",
        ),
        ("an answer of another kind\n", "an answer of another kind"),
        ("", "PySparkException"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(text: str, line: str) -> None:
    assert reason(PySparkException(text)) == line
