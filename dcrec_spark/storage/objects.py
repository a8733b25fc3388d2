"""Objects on S3, or a store that speaks its language, by the calls of :mod:`dcrec_spark.spark.hadoop`."""

from uuid import uuid4

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.hadoop import HadoopFileSystem, ObjectChangedError, has_jvm
from dcrec_spark.storage.hadoop import HadoopStore
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, ChangedError


class ObjectFiles(HadoopStore):
    """:class:`dcrec_spark.storage.protocol.Objects` in the bucket that ``uri`` names."""

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        if spark is None or not has_jvm(spark):
            raise ConfigError(
                f"{setting} is {uri!r}: S3 needs a driver with a JVM, not Spark Connect; run the job with "
                "spark-submit, or choose a path on a shared file system"
            )
        try:
            self._hadoop = HadoopFileSystem(spark, uri)
        except OSError as error:
            raise ConfigError(
                f"{setting} is {uri!r}, which can not be opened ({error}); S3 needs in spark.jars the archives that "
                "'python -m dcrec_spark.spark.jars FOLDER s3' fetches, and credentials in the environment"
            ) from error

    def sync(self, path: str) -> None:
        """Do nothing: an object that is there is safe."""

    def write(self, path: str, content: bytes) -> None:
        """Put the object."""
        self._hadoop.replace(path, content)

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory is there when something is in it."""

    def check_writable(self, path: str) -> None:
        """Put an object and delete it: a store tells nothing beforehand."""
        probe = f"{path}/{TEMPORARY_PREFIX}{uuid4().hex}"
        self.write(probe, b"")
        self.delete(probe)

    def version(self, path: str) -> str | None:
        """Return the object's ETag."""
        return self._hadoop.etag(path)

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        """Put the object under the condition If-Match, or If-None-Match."""
        try:
            self._hadoop.replace_version(path, content, version)
        except ObjectChangedError as error:
            raise ChangedError(str(error)) from error
