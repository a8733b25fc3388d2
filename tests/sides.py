"""Both sides of a small dense table as blocks on Spark."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.build import BlockPlan, build_cluster_side
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.spark.compat import frame_of_arrow
from dcrec_spark.spark.lineage import fixed_placement
from tests.reference.poisson import Array


class Layout(NamedTuple):
    """Blocks of the users and of the items, and which side's results the driver broadcasts."""

    user_blocks: int
    item_blocks: int
    users_broadcast: bool
    items_broadcast: bool

    def __str__(self) -> str:
        kinds = ["broadcast" if each else "blocks" for each in (self.users_broadcast, self.items_broadcast)]
        return f"{self.user_blocks}-{kinds[0]}-users-{self.item_blocks}-{kinds[1]}-items"


class Sides(NamedTuple):
    """Users and items; ids are the indices. Keys: the hash of each row's id, as the noise takes it."""

    users: ClusterSide
    items: ClusterSide
    user_keys: Array
    item_keys: Array

    def broadcasting(self, layout: Layout) -> "Sides":
        """The same sides, with the results broadcast as asked."""
        users = replace(self.users, broadcasts=layout.users_broadcast)
        return self._replace(users=users, items=replace(self.items, broadcasts=layout.items_broadcast))


@contextmanager
def sides_of(
    spark: SparkSession,
    observed: Array,
    values: Mapping[str, Array],
    layout: Layout,
    dtype: str = "float64",
    heavy: Heavy | None = None,
) -> Iterator[Sides]:
    """Blocks of the observed pairs with their values, while they are in use; plans keep their placement."""
    n_users, n_items = observed.shape
    u, i = np.nonzero(observed)
    at = {name: table[u, i] for name, table in values.items()}
    pairs = frame_of_arrow(spark, pa.table({"u": u, "i": i, **at}))
    by_user = pairs.select(F.col("u").alias("row"), F.col("i").alias("col"), *values)
    by_item = pairs.select(F.col("i").alias("row"), F.col("u").alias("col"), *values)
    user_ids, item_ids = ids(spark, n_users), ids(spark, n_items)
    blocks = layout.user_blocks, layout.item_blocks
    of_users = BlockPlan(blocks[0], (n_items, blocks[1]), list(values), dtype, others=heavy)
    of_items = BlockPlan(blocks[1], (n_users, blocks[0]), list(values), dtype, own=heavy)
    with fixed_placement(spark):
        users = build_cluster_side("user", by_user, user_ids, n_users, of_users)
        items = build_cluster_side("item", by_item, item_ids, n_items, of_items)
        yield Sides(users, items, keys(user_ids), keys(item_ids)).broadcasting(layout)
        users.release()
        items.release()


def ids(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select("id", F.col("id").alias("idx"))


def keys(ids_of_side: DataFrame) -> Array:
    """The hash of each id, which is its index."""
    hashed = ids_of_side.select("id", F.xxhash64(F.col("id").cast("string")).alias("key")).toPandas()
    return hashed.sort_values("id")["key"].to_numpy()
