"""Both sides' blocks in the driver's process: for ratings that one process fits sooner than a cluster.

The kernels, the loop and the stages are those of the cluster; a half-step is a function call, not a Spark job. Tables
come and go as DataFrames, so that a fitted model cannot tell where it was fitted.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.engine.blocks import LocalSide
from dcrec_spark.engine.build import local_side, narrowed
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.half_step import State, held_memory, memory_of
from dcrec_spark.kernels.csr import index_type
from dcrec_spark.kernels.keys import keys_of
from dcrec_spark.kernels.threads import blas_on_one_thread, made_in_pieces
from dcrec_spark.models.families.base import Remembered, TableColumn, Tabled
from dcrec_spark.models.fitting.checked import duplicate_pair, require_two, require_usable_here, unknown_side
from dcrec_spark.models.fitting.factors import list_array, matrix_of
from dcrec_spark.models.fitting.layout import Part
from dcrec_spark.models.fitting.layout_settings import AT_ONCE
from dcrec_spark.models.fitting.rows_here import frame_of, rows_of
from dcrec_spark.spark.lineage import cache_while_used

Indices = npt.NDArray[np.integer]
Keys = npt.NDArray[np.int64]
SIDES = ("user", "item")
# Ids are looked up in a table of all numbers between them, if these are no more than so many times what is looked up.
_SPARSE = 4


class Ids(NamedTuple):
    """The ids of one side, each at its idx. key : (n,) their hashes, the seeds of the rows' noise."""

    id: pa.Array
    key: Keys


@dataclass(frozen=True)
class DriverLayout:
    """Both sides' blocks in this process, and the ids of their rows.

    row_users, row_items : the id of each row. means : of each value over the pairs of the fit.
    held_out : whether the blocks hold further pairs, to judge by.
    """

    users: LocalSide
    items: LocalSide
    row_users: pa.Array
    row_items: pa.Array
    nonzeros: int
    means: dict[str, float]
    held_out: bool
    spark: SparkSession

    @property
    def n_pairs(self) -> float:
        """U x I."""
        return float(self.users.n_rows) * self.items.n_rows

    @property
    def n_users(self) -> int:
        """Rows of the users' side, U."""
        return self.users.n_rows

    @property
    def n_items(self) -> int:
        """Rows of the items' side, I."""
        return self.items.n_rows

    @cached_property
    def user_ids(self) -> DataFrame:
        """``id, idx`` of the users."""
        return self._frame({"id": self.row_users, "idx": pa.array(np.arange(len(self.row_users)))})

    @cached_property
    def item_ids(self) -> DataFrame:
        """``id, idx`` of the items."""
        return self._frame({"id": self.row_items, "idx": pa.array(np.arange(len(self.row_items)))})

    def _frame(self, columns: Mapping[str, pa.Array]) -> DataFrame:
        return frame_of(self.spark, pa.table(dict(columns)))

    def with_sides(self, users: LocalSide, items: LocalSide) -> Self:
        """Return the same layout with other blocks of the same rows."""
        return replace(self, users=users, items=items)

    def cached(self, table: DataFrame) -> DataFrame:
        """Cache a table when it is first read: its rows are with Spark already, reading needs nothing of the fit."""
        return cache_while_used(table)

    def at_work(self) -> AbstractContextManager[None]:
        """Hold BLAS to one thread, as it is in Spark's workers: the kernels bring their own threads."""
        return blas_on_one_thread()

    def place(self, is_user: bool, table: DataFrame, family: Remembered) -> State:
        """Rows ``id`` and the family's columns as the state of a side's block; an id without a row gets NaN."""
        ids = self.row_users if is_user else self.row_items
        columns = [column for column in family.columns(is_user) if column.remembered]
        # By id, since what all rows share is taken from the first, and folded-in rows may have it otherwise.
        fitted = rows_of(table, ["id", *[column.name for column in columns]]).sort_by("id")
        at = places(ids, fitted["id"])
        arrays = {column.name: _aligned(fitted, column, at) for column in columns}
        return held_memory(family.memory_of(arrays, is_user=is_user))

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any) -> DataFrame:
        """``idx, id`` and the family's columns."""
        return self._table(is_user, _columns(is_user, state, family, shared))

    def table_with_exposure(self, is_user: bool, outcome: Part, exposure: Part) -> DataFrame:
        """``idx, id``, the columns of the outcome, ``exposure_shape, exposure_rate``."""
        of_exposure = {f"exposure_{name}": array for name, array in _columns(is_user, *exposure).items()}
        return self._table(is_user, _columns(is_user, *outcome) | of_exposure)

    def _table(self, is_user: bool, columns: Mapping[str, pa.Array]) -> DataFrame:
        ids = self.row_users if is_user else self.row_items
        return self._frame({"idx": pa.array(np.arange(len(ids))), "id": ids, **columns})


def _columns(is_user: bool, state: State, family: Tabled, shared: Any) -> dict[str, pa.Array]:
    values = family.table_of(memory_of(state), is_user=is_user, shared=shared)
    return {column.name: _arrow(values[column.name]) for column in family.columns(is_user)}


@dataclass(frozen=True)
class PairsHere:
    """Pairs that this process has room for, collected when they are first looked at, and kept until they are taken.

    pairs : ``user_id, item_id``, values and perhaps ``held_out``. given : "user" or "item" -> ``id, idx`` of a side
    whose rows are given; pairs with other ids of that side are left out. portions : so many are collected one after
    the other, for what passes through the JVM's heap at once.
    """

    pairs: DataFrame
    given: Mapping[str, DataFrame]
    portions: int = 1

    @cached_property
    def table(self) -> pa.Table:
        """The pairs."""
        if self.portions == 1:
            return self.pairs.toArrow()
        portion = F.pmod(F.xxhash64("user_id", "item_id"), F.lit(self.portions))
        return pa.concat_tables([self.pairs.where(portion == at).toArrow() for at in range(self.portions)])

    def taken(self) -> pa.Table:
        """Return the pairs, which are kept here no longer."""
        table = self.table
        del self.__dict__["table"]
        return table

    def count_rows(self) -> int:
        """Count the rows of both sides: those that are given, else those that the pairs name."""
        named = [pc.count_distinct(self.table[f"{side}_id"]).as_py() for side in SIDES if side not in self.given]
        return int(sum(named)) + sum(frame.count() for frame in self.given.values())


def lay_out_here(
    here: PairsHere, columns: Mapping[str, str], precision: str, distinct: bool, new_only: bool
) -> DriverLayout:
    """Build the blocks of both sides in this process, at once if the pairs are not many.

    Parameters
    ----------
    columns : the names of the ids and of the values -> what they are called in the input.
    distinct : whether to refuse a pair that occurs twice. new_only : whether a given side's block has no pairs.

    Raises
    ------
    DataError : pairs can't be used; a pair is given twice; no pair has an id of the given side.
    """
    table, given = here.taken(), here.given
    values = [name for name in columns if name not in ("user_id", "item_id")]
    checked = require_usable_here(table, values, columns)
    sides = {name: _side_ids(table[f"{name}_id"], given.get(name)) for name in SIDES}
    located = {name: places(table[f"{name}_id"], ids.id) for name, ids in sides.items()}
    numbers = {name: narrowed(table[name].to_numpy()) for name in values}
    numbers |= {name: table[name].to_numpy() for name in _flags(table)}
    held_out = bool(_flags(table))
    del table
    if not given:
        require_two({name: len(ids.id) for name, ids in sides.items()})
    else:
        known = (located["user"] >= 0) & (located["item"] >= 0)
        if not known.any():
            raise unknown_side(checked.nonzeros, next(iter(given)))
        if not known.all():
            located, numbers = ({name: array[known] for name, array in of.items()} for of in (located, numbers))
    user, item = located["user"], located["item"]

    def block(name: str, other: str, row: Indices, col: Indices) -> LocalSide:
        of_pairs = {"row": row, "col": col, **numbers}
        if new_only and name in given:
            of_pairs = {column: array[:0] for column, array in of_pairs.items()}
        return local_side(name, of_pairs, sides[name].key, len(sides[other].id), values, precision)

    with ThreadPoolExecutor(len(SIDES) if len(user) <= AT_ONCE else 1) as pool:
        blocks = list(pool.map(block, SIDES, reversed(SIDES), (user, item), (item, user)))
    twice = [side.duplicate for side in blocks if side.duplicate is not None]
    if distinct and twice:
        raise duplicate_pair(*(sides[name].id[located[name][twice[0]]].as_py() for name in SIDES))
    ids = sides["user"].id, sides["item"].id
    return DriverLayout(blocks[0], blocks[1], *ids, checked.nonzeros, checked.means, held_out, here.pairs.sparkSession)


def _flags(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name == "held_out"]


def _side_ids(named: pa.ChunkedArray, fitted: DataFrame | None) -> Ids:
    """Return the ids of a side in the order of its rows: those that are given, else the distinct named ones, sorted."""
    if fitted is not None:
        ids = rows_of(fitted, ["id", "idx"]).sort_by("idx")["id"].combine_chunks()
    else:
        distinct = named.unique()
        ids = distinct.take(pc.sort_indices(distinct))
    return Ids(ids, keys_of(ids.cast(pa.string()).to_pylist()))


def places(wanted: pa.Array | pa.ChunkedArray, ids: pa.Array | pa.ChunkedArray) -> Indices:
    """Return where each wanted id stands among ``ids``; -1 where it does not. Integers of all widths are alike."""
    if pa.types.is_integer(ids.type):
        if len(ids) and pa.types.is_integer(wanted.type) and not wanted.null_count:
            span = pc.min_max(ids).as_py()
            if span["max"] - span["min"] < _SPARSE * (len(ids) + len(wanted)):
                return _places_by_table(wanted.to_numpy(), ids.to_numpy())
        wanted, ids = wanted.cast(pa.int64()), ids.cast(pa.int64())
    found = pc.fill_null(pc.index_in(wanted, value_set=ids), -1)
    return np.asarray(found.to_numpy(), index_type(len(ids)))


def _places_by_table(wanted: npt.NDArray[np.integer], ids: npt.NDArray[np.integer]) -> Indices:
    """Look places up by the id, in a table of all numbers from the smallest id to the largest."""
    low, high = int(ids.min()), int(ids.max())
    index = index_type(len(ids))
    table = np.full(high - low + 2, -1, index)  # the last stands for all numbers outside
    table[ids.astype(np.int64) - low] = np.arange(len(ids))

    def found(at: slice) -> Indices:
        number = wanted[at].astype(np.int64)
        return np.asarray(table[np.where((number < low) | (number > high), len(table) - 1, number - low)])

    return made_in_pieces(found, len(wanted), index)


def _aligned(fitted: pa.Table, column: TableColumn, at: Indices) -> Array:
    """Return a column of fitted rows in the order of a side's rows; NaN, or what all share, where there is none."""
    values = fitted[column.name].to_numpy() if column.width is None else matrix_of(fitted[column.name])
    aligned = np.full((len(at), *values.shape[1:]), np.nan)
    if column.same_for_all:
        aligned[:] = values[0]
    aligned[at >= 0] = values[at[at >= 0]]
    return aligned


def _arrow(values: Array) -> pa.Array:
    return list_array(values) if values.ndim == 2 else pa.array(values.astype(np.float64))
