"""The layout of a fit: the blocks of both sides, and the way between blocks and tables of factors.

All stages of a fit are written once, against this protocol. It has two implementations:
:class:`dcrec_spark.models.fitting.process_layout.ProcessLayout` has one block a side in this process, and
:class:`dcrec_spark.models.fitting.cluster_layout.ClusterLayout` many blocks on the cluster.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.sides import Side, State
from dcrec_spark.models.families.base import Family, Remembered, Tabled

# Of a block and its memory: rows of a table.
MemoryRows = Callable[[int, Arrays], pa.RecordBatch]


class Part(NamedTuple):
    """The factors of a side after one stage: their state, and the family and shared terms that explain it."""

    state: State
    family: Family
    shared: Any


class Layout(Protocol):
    """Both sides' blocks, and their rows' ids."""

    @property
    def users(self) -> Side:
        """The users' blocks."""

    @property
    def items(self) -> Side:
        """The items' blocks."""

    @property
    def user_ids(self) -> DataFrame:
        """``id, idx`` of the users."""

    @property
    def item_ids(self) -> DataFrame:
        """``id, idx`` of the items."""

    @property
    def nonzeros(self) -> int:
        """Pairs of the fit."""

    @property
    def means(self) -> Mapping[str, float]:
        """Mean of each value over the pairs of the fit."""

    @property
    def held_out(self) -> bool:
        """Whether the blocks have held-out pairs, by which the fit is judged."""

    @property
    def n_users(self) -> int:
        """Rows of the users' side, U."""

    @property
    def n_items(self) -> int:
        """Rows of the items' side, I."""

    @property
    def n_pairs(self) -> float:
        """All pairs, U x I."""

    def with_sides(self, users: Any, items: Any) -> Self:
        """Return the same layout with other blocks of the same rows."""

    def environment(self) -> AbstractContextManager[None]:
        """Return the context in which half-steps run: settings of the session or of BLAS."""

    def place(self, is_user: bool, table: Any, family: Remembered) -> State:
        """Return fitted rows, ``id`` and the family's columns, as a state. An id without a row gets NaN."""

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any) -> DataFrame:
        """Return ``idx, id`` and the family's columns of a side's factors."""

    def table_with_exposure(self, is_user: bool, outcome: Part, exposure: Part) -> DataFrame:
        """Return ``idx, id``, the columns of the outcome, ``exposure_shape, exposure_rate``."""

    def memory_table(self, is_user: bool, state: State, rows: MemoryRows, schema: str) -> DataFrame:
        """Return the memories of a side's blocks as rows of a table.

        schema : of the table, in Spark's SQL.
        """

    def materialise(self, cached: DataFrame) -> DataFrame:
        """Compute a cached table of this layout, so that the blocks can be released. Return it."""
