"""Settings of the warehouses that a run is published to besides its directory."""

from typing import ClassVar, Self

from pydantic import Field, model_validator

from dcrec_spark.config.section import Section
from dcrec_spark.config.shared import JobConfig
from dcrec_spark.config.types import NonNegativeReal, Positive, Text


class HiveConfig(Section):
    """Tables and views of Spark's session catalog, which a Hive metastore keeps."""

    namespace: Text | None = Field(default=None, description="database of the tables; null: not published there")


class IcebergConfig(Section):
    """Iceberg tables; spark.conf sets their catalog up."""

    namespace: Text | None = Field(
        default=None, description="catalog.database of the tables; null: not published there"
    )


class DeltaConfig(Section):
    """Delta tables; spark.conf sets their catalog up."""

    namespace: Text | None = Field(
        default=None, description="database, or catalog.database, of the tables; null: not published there"
    )


class PostgresqlConfig(Section):
    """A PostgreSQL database, which needs pip install 'dcrec-spark[warehouse]' and the JDBC driver in spark.jars."""

    url: Text | None = Field(
        default=None, description="jdbc:postgresql://host:port/database, without password; null: not published there"
    )
    user: Text | None = Field(default=None, description="who publishes; null: the user of this process")
    password_file: Text | None = Field(
        default=None, description="file whose first line is the password; null: the environment variable PGPASSWORD"
    )
    namespace: Text = Field(default="public", description="schema of the tables; made if it is not there")
    lock_seconds: NonNegativeReal = Field(
        default=60.0,
        description="how long to wait for readers and other publishers before the job ends with 5, and for a server "
        "that restarts",
    )
    index_vectors: bool = Field(
        default=False,
        description="whether user_vectors and item_vectors (recommend.vectors) are stored as the type of the extension "
        "pgvector, and items indexed by inner product (HNSW); else as real[]",
    )


class RedisConfig(Section):
    """A Redis server, for lists and factors that are looked up by id; needs pip install 'dcrec-spark[redis]'."""

    url: Text | None = Field(
        default=None, description="redis://host:port/number, or rediss:// for TLS, without password; null: not there"
    )
    user: Text | None = Field(default=None, description="who publishes; null: Redis' default user")
    password_file: Text | None = Field(
        default=None, description="file whose first line is the password; null: the environment variable REDISCLI_AUTH"
    )
    namespace: Text = Field(default="dcrec", description="what all keys begin with")


class WarehousesConfig(Section):
    """Warehouses that the tables are published to, all in one run, besides output.path."""

    tables: tuple[Text, ...] | None = Field(
        default=None, min_length=1, description="published tables that go there; null: all of the run"
    )
    keep: Positive = Field(
        default=7,
        le=50,
        description="runs that each warehouse holds, to go back to; a Delta table keeps its own history",
    )
    hive: HiveConfig = HiveConfig()
    iceberg: IcebergConfig = IcebergConfig()
    delta: DeltaConfig = DeltaConfig()
    postgresql: PostgresqlConfig = PostgresqlConfig()
    redis: RedisConfig = RedisConfig()

    @model_validator(mode="after")
    def _hive_and_delta_apart(self) -> Self:
        if self.hive.namespace is not None and self.hive.namespace == self.delta.namespace:
            raise ValueError(f"two namespaces for hive and delta; found {self.hive.namespace!r} for both")
        return self


class WithWarehouses(Section):
    """What jobs have that may publish to warehouses."""

    warehouses: WarehousesConfig = WarehousesConfig()


class PlacesConfig(WithWarehouses, JobConfig):
    """What the commands that look at places, and publish nothing, can be given."""

    job: ClassVar[str] = "runs"
