"""Titles of MovieLens films, where the file that names them lies beside the ratings."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_FILES = {"u.item": r"\|", "movies.dat": "::"}


def read_titles(spark: SparkSession, ratings: Path) -> DataFrame | None:
    """``item_id long, title string`` from u.item or movies.dat beside ``ratings``; None when there is neither."""
    for name, separator in _FILES.items():
        path = ratings.parent / name
        if path.exists():
            lines = (
                spark.read.option("encoding", "iso-8859-1")
                .option("sep", "\n")
                .csv(str(path.resolve()), schema="line string", quote="")
            )
            fields = F.split("line", separator)
            return lines.select(fields[0].cast("long").alias("item_id"), fields[1].alias("title"))
    return None
