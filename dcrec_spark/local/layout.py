"""The blocks of a fit in this process: one block a side, tables of factors as arrays by name."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dcrec_spark.engine.blocks import LocalSide
from dcrec_spark.engine.build import local_side
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.half_step import State, held_memory, memory_of
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.local.ratings import Ratings
from dcrec_spark.models.families.base import Remembered, Tabled


@dataclass(frozen=True)
class LocalLayout:
    """Both sides in this process; see :class:`dcrec_spark.models.fitting.layout.Layout`."""

    users: LocalSide
    items: LocalSide
    nonzeros: int
    means: Mapping[str, float]
    held_out = False

    @property
    def n_pairs(self) -> float:
        """All pairs, U x I."""
        return float(self.users.n_rows) * self.items.n_rows

    @property
    def n_users(self) -> int:
        """Rows of the users' side, U."""
        return self.users.n_rows

    def with_sides(self, users: LocalSide, items: LocalSide) -> Self:
        """Return the same layout with other blocks of the same rows."""
        return replace(self, users=users, items=items)

    def at_work(self) -> AbstractContextManager[None]:
        """Nothing has to hold: who runs fits side by side holds BLAS to one thread for all of them."""
        return nullcontext()

    def place(self, is_user: bool, table: Mapping[str, Array], family: Remembered) -> State:
        """Return the family's columns, one row of each row of the side, as the state of its block."""
        return held_memory(family.memory_of(table, is_user))

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any) -> dict[str, Floats]:
        """Return the family's columns, in float64 and in the order of the rows."""
        table = family.table_of(memory_of(state), is_user, shared)
        return {name: np.asarray(column, np.float64) for name, column in table.items()}


def lay_out(ratings: Ratings, values: Mapping[str, Floats], precision: str) -> LocalLayout:
    """Return the blocks of ratings.

    Parameters
    ----------
    values : name of a block's array -> one number for each rating. precision : "float64" or "float32".
    """
    sides = []
    for name, row, col, key, n_source in (
        ("user", ratings.user, ratings.item, ratings.user_key, len(ratings.item_key)),
        ("item", ratings.item, ratings.user, ratings.item_key, len(ratings.user_key)),
    ):
        sides.append(local_side(name, {"row": row, "col": col, **values}, key, n_source, list(values), precision))
    means = {name: float(value.mean()) for name, value in values.items()}
    return LocalLayout(sides[0], sides[1], len(ratings.rating), means)
