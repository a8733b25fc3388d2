"""The ratings of a job, as of one snapshot, which the record names."""

from typing import TypeVar

from pyspark.sql import DataFrame

from dcrec_spark.config import ReadingConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.snapshots import pinned, table_id
from dcrec_spark.jobs.job import Context

ReadingT = TypeVar("ReadingT", bound=ReadingConfig)


def open_ratings(context: Context[ReadingT]) -> DataFrame:
    """Open the ratings that the settings name, and note their snapshot; see ``read_ratings``."""
    read = pinned(context.spark, context.config.input)
    context.run.input_snapshot = read.snapshot
    context.run.input_table_id = table_id(context.spark, read)
    return read_ratings(context.spark, read)
