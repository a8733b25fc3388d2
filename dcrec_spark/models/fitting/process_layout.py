"""Blocks of both sides in this process, for ratings that one process fits sooner than a cluster.

Estimators use it in the driver: tables come and go as DataFrames, so that a model does not depend on where it was
fitted. :mod:`dcrec_spark.local` uses it without Spark: tables come and go as arrays.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.build import build_process_side, narrow
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.process import ProcessSide
from dcrec_spark.engine.sides import State
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.kernels.threads import blas_on_one_thread
from dcrec_spark.models.families.base import Remembered, Tabled
from dcrec_spark.models.fitting.checks import duplicate_pair, require_two, require_usable_here, unknown_side
from dcrec_spark.models.fitting.factors import arrow_table, cached_frame, list_array, matrix_of
from dcrec_spark.models.fitting.layout import Layout, MemoryRows, Part
from dcrec_spark.models.fitting.layout_settings import AT_ONCE, LayoutSettings
from dcrec_spark.models.fitting.places import Indices, places
from dcrec_spark.spark.compat import collect_arrow, frame_of_arrow

SIDES = ("user", "item")


class SparkIds(NamedTuple):
    """The ids of both sides' rows, each in the order of its idx, and the session of their tables."""

    users: pa.Array
    items: pa.Array
    spark: SparkSession


@dataclass(frozen=True)
class ProcessLayout(Layout):
    """Both sides in this process.

    ids : None without Spark. Then tables are arrays, one row for each row of the side.
    """

    users: ProcessSide
    items: ProcessSide
    nonzeros: int
    means: Mapping[str, float]
    held_out: bool = False
    ids: SparkIds | None = None

    @cached_property
    def user_ids(self) -> DataFrame:  # type: ignore[override]
        return self._id_table(is_user=True)

    @cached_property
    def item_ids(self) -> DataFrame:  # type: ignore[override]
        return self._id_table(is_user=False)

    def environment(self) -> AbstractContextManager[None]:
        """Limit BLAS to one thread, as in Spark's workers: the kernels have their own threads."""
        return blas_on_one_thread()

    def place(self, is_user: bool, table: DataFrame | Arrays, family: Remembered) -> State:
        columns = self._aligned(is_user, table, family) if isinstance(table, DataFrame) else table
        return State.of_memory(family.memory_of(columns, is_user=is_user))

    def arrays(self, is_user: bool, state: State, family: Tabled, shared: Any) -> dict[str, Floats]:
        """Return the family's columns of a side's factors, in float64 and in the order of the rows."""
        columns = family.table_of(state.memory_of(0), is_user=is_user, shared=shared)
        return {name: np.asarray(column, np.float64) for name, column in columns.items()}

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any, exposed: Part | None = None) -> DataFrame:
        columns, ids = self._columns(is_user, state, family, shared), self._row_ids(is_user)
        if exposed is not None:
            columns |= {f"exposure_{name}": array for name, array in self._columns(is_user, *exposed).items()}
        table = pa.table({"idx": pa.array(np.arange(len(ids))), "id": ids, **columns})
        return cached_frame(self._spark_ids.spark, table)

    def memory_table(self, is_user: bool, state: State, rows: MemoryRows, schema: str) -> DataFrame:
        return frame_of_arrow(self._spark_ids.spark, pa.Table.from_batches([rows(0, state.memory_of(0))]))

    def materialise(self, cached: DataFrame) -> DataFrame:
        """Return the table: its rows are in Spark already, and Spark caches them when they are first read."""
        return cached

    @property
    def _spark_ids(self) -> SparkIds:
        if self.ids is None:
            raise TypeError("a layout without Spark has no tables: read its arrays")
        return self.ids

    def _row_ids(self, is_user: bool) -> pa.Array:
        return self._spark_ids.users if is_user else self._spark_ids.items

    def _id_table(self, is_user: bool) -> DataFrame:
        ids = self._row_ids(is_user)
        return cached_frame(self._spark_ids.spark, pa.table({"id": ids, "idx": pa.array(np.arange(len(ids)))}))

    def _columns(self, is_user: bool, state: State, family: Tabled, shared: Any) -> dict[str, pa.Array]:
        arrays = self.arrays(is_user, state, family, shared)
        names = [column.name for column in family.columns(is_user)]
        return {name: list_array(arrays[name]) if arrays[name].ndim == 2 else pa.array(arrays[name]) for name in names}

    def _aligned(self, is_user: bool, table: DataFrame, family: Remembered) -> dict[str, Array]:
        """Return columns of fitted rows in the order of a side's rows. NaN, or the common value, for other ids."""
        columns = [column for column in family.columns(is_user) if column.remembered]
        # By id: the first row has the values that all rows share, and folded-in rows may have others.
        fitted = arrow_table(table, ["id", *[column.name for column in columns]]).sort_by("id")
        at = places(self._row_ids(is_user), fitted["id"])
        aligned = {}
        for column in columns:
            values = fitted[column.name].to_numpy() if column.width is None else matrix_of(fitted[column.name])
            rows = np.full((len(at), *values.shape[1:]), np.nan)
            if column.same_for_all:
                rows[:] = values[0]
            rows[at >= 0] = values[at[at >= 0]]
            aligned[column.name] = rows
        return aligned


@dataclass(frozen=True)
class CollectedPairs:
    """Pairs that this process has room for, collected when they are first read, and cached until :meth:`take`.

    pairs : ``user_id, item_id``, values and perhaps ``held_out``. given : "user" or "item" -> ``id, idx`` of a side
    whose rows are given. Pairs with other ids of that side are left out. portions : so many are collected one after
    the other, to limit what passes through the JVM's heap at once.
    """

    pairs: DataFrame
    given: Mapping[str, DataFrame]
    portions: int = 1

    @cached_property
    def table(self) -> pa.Table:
        if self.portions == 1:
            return collect_arrow(self.pairs)
        portion = F.pmod(F.xxhash64("user_id", "item_id"), F.lit(self.portions))
        return pa.concat_tables([collect_arrow(self.pairs.where(portion == at)) for at in range(self.portions)])

    def take(self) -> pa.Table:
        """Return the pairs, which are no longer cached here."""
        table = self.table
        del self.__dict__["table"]
        return table

    def count_rows(self) -> int:
        """Count the rows of both sides: those that are given, else those that the pairs name."""
        named = [pc.count_distinct(self.table[f"{side}_id"]).as_py() for side in SIDES if side not in self.given]
        return int(sum(named)) + sum(frame.count() for frame in self.given.values())


def lay_out_in_process(
    collected: CollectedPairs, columns: Mapping[str, str], settings: LayoutSettings, distinct: bool, new_only: bool
) -> ProcessLayout:
    """Build the blocks of both sides, at the same time if the pairs are few enough.

    columns : the names of the ids and of the values -> their names in the input. distinct, new_only : see ``lay_out``.
    """
    table, given = collected.take(), collected.given
    values = [name for name in columns if name not in ("user_id", "item_id")]
    checked = require_usable_here(table, values, columns, settings.signed)
    sides = {name: _side_ids(table[f"{name}_id"], given.get(name)) for name in SIDES}
    located = {name: places(table[f"{name}_id"], ids) for name, ids in sides.items()}
    numbers = {name: narrow(table[name].to_numpy()) for name in values}
    held_out = "held_out" in table.column_names
    if held_out:
        numbers["held_out"] = table["held_out"].to_numpy()
    del table
    if not given:
        require_two({name: len(ids) for name, ids in sides.items()})
    else:
        known = (located["user"] >= 0) & (located["item"] >= 0)
        if not known.any():
            raise unknown_side(checked.nonzeros, next(iter(given)))
        if not known.all():
            located, numbers = ({name: array[known] for name, array in of.items()} for of in (located, numbers))
    user, item = located["user"], located["item"]

    def build(name: str, other: str, row: Indices, col: Indices) -> ProcessSide:
        of_pairs = {"row": row, "col": col, **numbers}
        if new_only and name in given:
            of_pairs = {column: array[:0] for column, array in of_pairs.items()}
        keys = keys_of(sides[name].cast(pa.string()).to_pylist())
        return build_process_side(name, of_pairs, keys, len(sides[other]), values, settings.precision)

    with ThreadPoolExecutor(len(SIDES) if len(user) <= AT_ONCE else 1) as pool:
        users, items = pool.map(build, SIDES, reversed(SIDES), (user, item), (item, user))
    repeated = [side.duplicate for side in (users, items) if side.duplicate is not None]
    if distinct and repeated:
        raise duplicate_pair(*(sides[name][located[name][repeated[0]]].as_py() for name in SIDES))
    ids = SparkIds(sides["user"], sides["item"], collected.pairs.sparkSession)
    return ProcessLayout(users, items, checked.nonzeros, checked.means, held_out, ids)


def _side_ids(named: pa.ChunkedArray, fitted: DataFrame | None) -> pa.Array:
    """Return the ids of a side in the order of its rows: the given ones, else those that pairs name, sorted."""
    if fitted is not None:
        return arrow_table(fitted, ["id", "idx"]).sort_by("idx")["id"].combine_chunks()
    distinct = named.unique()
    return distinct.take(pc.sort_indices(distinct))
