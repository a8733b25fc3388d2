"""Where a fit's blocks are: the only thing in which a fit on the cluster and one in this process differ.

A layout holds both sides' blocks, and turns tables of fitted rows into the states of blocks and back. Tables are
DataFrames on the cluster (:class:`dcrec_spark.models.fitting.spark_layout.SparkLayout`) and arrays by name in this
process (:class:`dcrec_spark.local.layout.LocalLayout`). All stages of a fit are written once, for either.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self

from dcrec_spark.engine.blocks import AnySide
from dcrec_spark.engine.half_step import State
from dcrec_spark.models.families.base import Family, Remembered, Tabled


class Part(NamedTuple):
    """What a stage makes of the rows of a side: their state, and the family and the shared terms that explain it."""

    state: State
    family: Family
    shared: Any


class Layout(Protocol):
    """Both sides' blocks, and the way between blocks and tables of factors."""

    @property
    def users(self) -> AnySide:
        """The users' blocks."""

    @property
    def items(self) -> AnySide:
        """The items' blocks."""

    @property
    def nonzeros(self) -> int:
        """Pairs of the fit."""

    @property
    def means(self) -> Mapping[str, float]:
        """Mean of each value over the pairs of the fit."""

    @property
    def held_out(self) -> bool:
        """Whether the blocks hold further pairs, by which the fit is judged."""

    @property
    def n_users(self) -> int:
        """Rows of the users' side, U."""

    @property
    def n_pairs(self) -> float:
        """All pairs, U x I."""

    def with_sides(self, users: Any, items: Any) -> Self:
        """Return the same layout with other blocks of the same rows."""

    def at_work(self) -> AbstractContextManager[None]:
        """Hold what these blocks want while they are worked on."""

    def place(self, is_user: bool, table: Any, family: Remembered) -> State:
        """Fitted rows as the state of a side's blocks; an id without a row gets NaN."""

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any) -> Any:
        """Return the factors in a side's state, as the table that the family makes of them."""
