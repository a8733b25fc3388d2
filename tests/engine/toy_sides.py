"""A small table as blocks, and dense versions of the kernels on it."""

from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.sides import State
from tests.engine.toy_kernels import sum_neighbours
from tests.reference.poisson import Array
from tests.sides import Layout, sides_of

N_USERS, N_ITEMS = 7, 6
KEYS = np.arange(1000, 1000 + N_USERS), np.arange(3000, 3000 + N_ITEMS)
PLACES = [(True, True), (True, False), (False, True), (False, False)]
neighbours = partial(sum_neighbours, shift=3.0)


def table() -> Array:
    """Whole numbers; user 0 and the last item have none."""
    rng = np.random.default_rng(11)
    values = rng.integers(1, 6, (N_USERS, N_ITEMS)) * (rng.random((N_USERS, N_ITEMS)) < 0.5)
    values[0], values[:, -1] = 0, 0
    return values.astype(np.float64)


def toy_sides(spark: SparkSession, layout: Layout) -> Any:
    return sides_of(spark, table() > 0, {"value": table()}, layout)


def rows_of(side: ClusterSide, state: State) -> Array:
    """All rows in the order of their indices."""
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
