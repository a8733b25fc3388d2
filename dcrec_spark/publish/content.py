"""Content of a table in two numbers, equal for equal rows in any order, files and kind of place."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType


class Content(NamedTuple):
    """Number of rows, and the sum of their 64-bit hashes as text."""

    rows: int
    hashed: str


def content_of(table: DataFrame) -> Content:
    """Read a table once and sum up what it holds.

    Columns count by their names, not by their order. Columns of maps are left out: maps have no order to be hashed in.

    Parameters
    ----------
    table : DataFrame
        Rows as somebody would read them.

    Returns
    -------
    Content
    """
    names = sorted(field.name for field in table.schema if not isinstance(field.dataType, MapType))
    total = F.sum(F.xxhash64(*(F.col(f"`{name}`") for name in names)).cast("decimal(38,0)"))
    sums = table.agg(F.count(F.lit(1)).alias("rows"), total.alias("hashed")).collect()[0]
    return Content(int(sums["rows"]), str(sums["hashed"]))
