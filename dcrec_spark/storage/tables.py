"""A DataFrame as a directory of Parquet files that the driver sees completely."""

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from dcrec_spark.errors import DataError
from dcrec_spark.storage.protocol import Files


def write_table(files: Files, path: str, table: DataFrame, setting: str) -> int:
    """Write the table to a directory that does not exist yet, safe on disk. Returns its number of rows.

    Raises DataError: names ``setting``, when the rows are not all where the driver looks for them.
    """
    observed = Observation()
    counted = table.observe(observed, F.count(F.lit(1)).alias("rows"))
    counted.write.parquet(files.uri(path))
    rows = int(observed.get["rows"])
    readable = table.sparkSession.read.schema(table.schema).parquet(files.uri(path)).count()
    if readable != rows:
        raise DataError(
            f"{rows} rows were written to {files.uri(path)}, and {readable} are there: the executors wrote to "
            f"disks of their own; set {setting} to one that all nodes share (hdfs://, or a shared mount)"
        )
    for name in ["", *(entry.name for entry in files.list(path))]:
        files.sync(f"{path}/{name}")
    return rows
