"""Vectors in PostgreSQL as the extension pgvector has them: their type, and an index by inner product.

Spark sends them as text, which PostgreSQL reads as ``[0.1,-2]``, and reads them back as text.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, FloatType, StructType

from dcrec_spark.errors import ConfigError, require_extra

require_extra("warehouse")

import psycopg
from psycopg import sql

# Users' vectors are what is asked with; items are what is found.
INDEXED = "item_vectors"
_MOST_DIMENSIONS = 2000
_SCHEMA = (
    "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'"
)


class VectorColumn(NamedTuple):
    """How a column of vectors is declared. home : the schema of the extension."""

    home: str
    dimensions: int

    @property
    def type(self) -> sql.Composed:
        """Its type."""
        return sql.SQL("{}.vector({})").format(sql.Identifier(self.home), sql.Literal(self.dimensions))

    def indexed(self, table: sql.Composable, column: str) -> sql.Composed:
        """Return the statement that indexes it; the operator ``<#>`` is the negative inner product."""
        statement = "create index on {} using hnsw ({} {}.vector_ip_ops)"
        return sql.SQL(statement).format(table, sql.Identifier(column), sql.Identifier(self.home))


def require_pgvector(connection: psycopg.Connection, setting: str) -> None:
    """Make the extension, unless it is there.

    Raises
    ------
    ConfigError : the server does not have it, or this user may not make it.
    """
    if connection.execute(_SCHEMA).fetchone() is not None:
        return
    try:
        with connection.transaction():
            connection.execute("create extension vector")
    except psycopg.Error as error:
        raise ConfigError(
            f"setting {setting}: found true, and this database has no extension vector, nor may this user make it "
            f"({' '.join(str(error).split())}): install pgvector, and have an owner run 'create extension vector'"
        ) from error


def vector_names(schema: StructType) -> list[str]:
    """Name the columns of vectors: arrays in single precision."""
    return [
        field.name
        for field in schema
        if isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, FloatType)
    ]


def vector_columns(connection: psycopg.Connection, rows: DataFrame, names: list[str]) -> dict[str, VectorColumn]:
    """Declare the columns of vectors of a table.

    Raises
    ------
    ConfigError : they are longer than an index takes.
    """
    row = connection.execute(_SCHEMA).fetchone()
    home = "public" if row is None else str(row[0])
    lengths = rows.agg(*(F.max(F.size(f"`{name}`")).alias(name) for name in names)).collect()[0]
    for name in names:
        if (lengths[name] or 1) > _MOST_DIMENSIONS:
            raise ConfigError(
                f"column {name} has vectors of {lengths[name]} numbers, pgvector indexes {_MOST_DIMENSIONS} at most: "
                "set warehouses.postgresql.index_vectors=false"
            )
    return {name: VectorColumn(home, lengths[name] or 1) for name in names}


def as_text(name: str) -> Column:
    """Write vectors as PostgreSQL reads them."""
    return F.to_json(F.col(f"`{name}`"))


def from_text(name: str) -> Column:
    """Read vectors as PostgreSQL writes them."""
    return F.from_json(F.col(f"`{name}`").cast("string"), "array<float>").alias(name)
