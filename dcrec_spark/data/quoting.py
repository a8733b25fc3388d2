"""Columns by their very names."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def quoted(name: str) -> Column:
    """The column of that name, with dots and spaces: Spark takes what follows a bare dot for a field of a struct."""
    return F.col(f"`{name}`")
