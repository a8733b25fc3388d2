"""Tables as of a snapshot: what a run has read can be named in its record, and read again.

Iceberg tables have snapshots with ids, Delta tables versions from 0. A table of another kind has none.
"""

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config.sections import InputConfig
from dcrec_spark.data.spark_errors import opening
from dcrec_spark.errors import ConfigError


def pin_snapshot(spark: SparkSession, config: InputConfig) -> InputConfig:
    """Name the snapshot that is current now, so that whatever is read later is of the same one.

    Returns with ``snapshot`` set, where the input is a table that has snapshots.
    Raises ConfigError: a snapshot is asked for of a table that has none.
    """
    if config.format != "table" or config.table is None:
        if config.snapshot is not None:
            raise ConfigError(
                f"setting input.snapshot: found {config.snapshot!r} with input.format={config.format}; expected null: "
                "only Iceberg and Delta tables (input.format=table) have snapshots"
            )
        return config
    with opening(f"input table {config.table!r}"):
        current = _current(spark, config.table)
    if config.snapshot is not None and current is None:
        raise ConfigError(
            f"setting input.snapshot: found {config.snapshot!r}; expected null: {config.table} is neither an Iceberg "
            "nor a Delta table"
        )
    return config if config.snapshot is not None else config.model_copy(update={"snapshot": current})


def table_at(spark: SparkSession, table: str, snapshot: str | None) -> DataFrame:
    """Open a table as of a snapshot. None: as it is."""
    return spark.table(table) if snapshot is None else spark.sql(f"SELECT * FROM {table} VERSION AS OF {int(snapshot)}")


def table_id(spark: SparkSession, config: InputConfig) -> str | None:
    """Name what tells a Delta table from an earlier one of its name: the versions of both begin at 0.

    None for an input of another kind. The id of an Iceberg snapshot is that of one table only.
    """
    if config.snapshot is None or config.table is None or _provider(spark, config.table) != "delta":
        return None
    return str(spark.sql(f"DESCRIBE DETAIL {config.table}").select("id").collect()[0][0])


def _provider(spark: SparkSession, table: str) -> str:
    details = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Provider'").collect()
    return str(details[0]["data_type"]).lower() if details else ""


def _current(spark: SparkSession, table: str) -> str | None:
    provider = _provider(spark, table)
    if provider == "iceberg":
        heads = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
    elif provider == "delta":
        heads = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()
    else:
        return None
    return str(heads[0][0]) if heads else None
