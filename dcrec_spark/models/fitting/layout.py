"""The layout of a fit: the blocks of both sides, and the way between blocks and tables of factors.

All stages of a fit are written once, against this class. It has two implementations:
:class:`dcrec_spark.models.fitting.process_layout.ProcessLayout` has one block a side in this process, and
:class:`dcrec_spark.models.fitting.cluster_layout.ClusterLayout` many blocks on the cluster.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.sides import State
from dcrec_spark.models.families.base import Family, Observed, Remembered, Tabled
from dcrec_spark.models.fitting.fit_resources import FitResources

# Of a block and its memory: rows of a table.
MemoryRows = Callable[[int, Arrays], pa.RecordBatch]


class Part(NamedTuple):
    """The factors of a side after one stage: their state, and the family and shared terms that explain it."""

    state: State
    family: Family
    shared: Any


class Layout(Observed, ABC):
    """Both sides' blocks, and their rows' ids: ``id, idx``."""

    user_ids: DataFrame
    item_ids: DataFrame

    def with_sides(self, users: Any, items: Any) -> Self:
        """Return the same layout with other blocks of the same rows."""
        return replace(self, users=users, items=items)  # type: ignore[type-var]

    def lend(self) -> Self:
        """Return the layout for one of several fits, which frees none of its blocks."""
        return self

    @abstractmethod
    def environment(self) -> AbstractContextManager[None]:
        """Return the context in which half-steps run: settings of the session or of BLAS."""

    @abstractmethod
    def place(self, is_user: bool, table: Any, family: Remembered) -> State:
        """Return fitted rows, ``id`` and the family's columns, as a state. An id without a row gets NaN."""

    def place_both(self, tables: tuple[Any, Any], family: Remembered, resources: FitResources) -> tuple[State, State]:
        """Return fitted users and items as states, which the resources own."""
        users = resources.add(self.place(True, tables[0], family))
        return users, resources.add(self.place(False, tables[1], family))

    @abstractmethod
    def table(self, is_user: bool, state: State, family: Tabled, shared: Any, exposed: Part | None = None) -> DataFrame:
        """Return ``idx, id`` and the family's columns of a side's factors, then ``exposure_shape, exposure_rate``."""

    @abstractmethod
    def memory_table(self, is_user: bool, state: State, rows: MemoryRows, schema: str) -> DataFrame:
        """Return the memories of a side's blocks as rows of a table."""

    @abstractmethod
    def materialise(self, cached: DataFrame) -> DataFrame:
        """Compute a cached table of this layout, so that the blocks can be released. Return it."""
