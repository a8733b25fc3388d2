"""What Spark raises, whether its Python side or its JVM does."""

from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

SPARK_FAILURES = (PySparkException, Py4JError)
SparkFailure: TypeAlias = PySparkException | Py4JError


def is_broken_file(error: SparkFailure) -> bool:
    """Whether a data file could not be read to its end, which Spark meets long after the source was opened."""
    return "FAILED_READ_FILE" in str(error)
