"""The sink of an output directory, whichever store it is on."""

from typing import TypeAlias

from pyspark.sql import SparkSession

from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import ParquetSink
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.objects import ObjectFiles

Output: TypeAlias = ParquetSink | ObjectStoreSink


def open_output(output: str, spark: SparkSession | None = None) -> Output:
    """Open a directory to publish to, which need not exist.

    Parameters
    ----------
    output : str
        A path on the local file system, on HDFS or on S3.
    spark : SparkSession, optional
        Needed for other paths than local ones.

    Returns
    -------
    ParquetSink or ObjectStoreSink

    Raises
    ------
    ConfigError
        ``output`` names no such place; the error names output.path.
    """
    files, root = open_files(output, spark)
    if isinstance(files, ObjectFiles):
        return ObjectStoreSink(files, root, output)
    return ParquetSink(files, root, output)
