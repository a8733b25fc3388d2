"""Both sides of a small dense table as blocks on Spark, and dense versions of the kernels on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.build import BlockPlan, build_cluster_side, split_pairs
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.sides import State
from dcrec_spark.spark.compat import frame_of_arrow
from dcrec_spark.spark.lineage import fixed_placement
from tests.engine.toy_kernels import sum_neighbours
from tests.reference.poisson import Array

N_USERS, N_ITEMS = 7, 6
KEYS = np.arange(1000, 1000 + N_USERS), np.arange(3000, 3000 + N_ITEMS)
PLACES = [(True, True), (True, False), (False, True), (False, False)]
neighbours = partial(sum_neighbours, shift=3.0)


class Sides(NamedTuple):
    """Users and items; ids are the indices. Keys: the hash of each row's id, as the noise takes it."""

    users: ClusterSide
    items: ClusterSide
    user_keys: Array
    item_keys: Array

    def broadcasting(self, users: bool, items: bool) -> "Sides":
        """The same sides, whose results the driver broadcasts or not."""
        return self._replace(users=replace(self.users, broadcasts=users), items=replace(self.items, broadcasts=items))


def table() -> Array:
    """Whole numbers; user 0 and the last item have none."""
    rng = np.random.default_rng(11)
    values = rng.integers(1, 6, (N_USERS, N_ITEMS)) * (rng.random((N_USERS, N_ITEMS)) < 0.5)
    values[0], values[:, -1] = 0, 0
    return values.astype(np.float64)


@contextmanager
def toy_sides(
    spark: SparkSession, n_blocks: tuple[int, int], heavy: Heavy | None = None, on_disk: bool = False
) -> Iterator[Sides]:
    """Blocks of the table, of users and of items, while they are in use; plans keep their placement."""
    user, item = np.nonzero(table())
    pairs = frame_of_arrow(spark, pa.table({"user_idx": user, "item_idx": item, "value": table()[user, item]}))
    user_ids, item_ids = (spark.range(n).select("id", F.col("id").alias("idx")) for n in (N_USERS, N_ITEMS))
    of_users = BlockPlan(n_blocks[0], (N_ITEMS, n_blocks[1]), ["value"], "float64", others=heavy, on_disk=on_disk)
    of_items = BlockPlan(n_blocks[1], (N_USERS, n_blocks[0]), ["value"], "float64", own=heavy, on_disk=on_disk)
    with fixed_placement(spark):
        cells = split_pairs(pairs, {"user": of_users, "item": of_items})
        users = build_cluster_side("user", cells, user_ids, N_USERS, of_users)
        items = build_cluster_side("item", cells, item_ids, N_ITEMS, of_items)
        yield Sides(users, items, keys_of(user_ids), keys_of(item_ids))
        users.release()
        items.release()


def keys_of(ids: DataFrame) -> Array:
    """The hash of each id, which is its index."""
    hashed = ids.select("id", F.xxhash64(F.col("id").cast("string")).alias("key")).toPandas()
    return hashed.sort_values("id")["key"].to_numpy()


def rows_of(side: ClusterSide, state: State) -> Array:
    rows = np.empty((side.n_rows, 2))
    for row in side.memories(state).collect():
        rows[row.block :: side.n_blocks] = unpack(row.data)["rows"]
    return rows


def dense_start(keys: Array) -> Array:
    """Dense version of :func:`tests.engine.toy_kernels.key_rows`."""
    return np.column_stack([keys % 1009, keys % 31]).astype(np.float64)


def dense_sums(weights: Array, rows: Array) -> Array:
    """Dense version of :data:`neighbours`."""
    return np.asarray((3 + weights @ rows) % 10_007)
