"""Columns by their very names: Spark takes what follows a bare dot in a name for a field of a struct."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def quote(name: str) -> str:
    """Name of a column as SQL expressions take it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def quoted(name: str) -> Column:
    """Column of that name, with dots, spaces and backticks."""
    return F.col(quote(name))
