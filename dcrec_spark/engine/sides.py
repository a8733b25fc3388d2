"""Sides of a fit, users or items, and the results of their half-steps.

A side updates all of its rows from the source rows that they touch::

    side.half_step(kernel, source, previous) -> State

Two implementations: :class:`dcrec_spark.engine.process.ProcessSide` calls the kernel in this process, on one block.
:class:`dcrec_spark.engine.cluster.ClusterSide` runs one Spark job over many blocks. A kernel can't tell them apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import numpy as np

from dcrec_spark.engine.blocks import read_only_arrays
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel
from dcrec_spark.engine.messages import ROWS
from dcrec_spark.errors import FitError

if TYPE_CHECKING:  # a fit in one process has no use for them
    from dcrec_spark.spark.lineage import Broadcasted, Checkpoint, Kept

    Needs: TypeAlias = frozenset[Broadcasted | Checkpoint]

# Added to each block's sums: how many of its rows are NaN or infinite.
_NOT_FINITE = "rows_not_finite"


@dataclass(frozen=True)
class State:
    """The result of a side's half-step.

    sums : over all blocks. rows : (rows of the side, width), of the concatenated blocks. None where they stay on the
    cluster. memory : block -> its memory, for its next half-step; empty where the rows are enough.
    outbox : the messages of the blocks, where rows and memories stay on the cluster.
    needs : the data that a recomputation of the outbox would read.
    """

    sums: Arrays
    rows: Array | None = None
    memory: Mapping[int, Arrays] = field(default_factory=dict)
    outbox: "Kept | None" = None
    needs: "Needs" = frozenset()

    @classmethod
    def of_memory(cls, arrays: Arrays) -> Self:
        """Return the state of a side in this process that only remembers these arrays: the start of a warm fit."""
        return cls({}, memory={0: read_only_arrays(arrays)})

    def memory_of(self, block: int, rows: slice = slice(None)) -> Arrays:
        """Return the memory of a block, or its rows where they are enough."""
        return self.memory.get(block) or ({} if self.rows is None else {ROWS: self.rows[rows]})

    def release(self) -> None:
        """Free the cached data on the cluster."""
        if self.outbox is not None:
            self.outbox.release()

    def checkpoint(self) -> "State":
        """End the lineage: data lost later is recomputed from a checkpoint, which needs nothing else."""
        if self.outbox is None:
            return self
        outbox, end = self.outbox.checkpoint()
        self.release()
        return State(self.sums, outbox=outbox, needs=frozenset([end]))

    def with_sums(self, sums: Arrays) -> "State":
        """Return the same result with other sums."""
        return replace(self, sums=sums)


class Side(Protocol):
    """Users or items, in blocks."""

    @property
    def name(self) -> str:
        """ "user" or "item"."""

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""

    @property
    def n_blocks(self) -> int:
        """Blocks of the side."""

    def half_step(self, kernel: Kernel, source: State | None = None, previous: State | None = None) -> State:
        """Update every row.

        kernel : computes the new rows of a block.
        source : the other side's result, the kernel's inbox. None where the kernel needs none.
        previous : this side's last result, the kernel's memory.

        Raises FitError: a row is NaN or infinite. Names the side and how many.
        """

    def remember(self, kernel: Kernel, source: State, previous: State) -> State:
        """Run a half-step for the memories of its blocks, which may have any shape. They stay with the blocks."""

    def add_up(self, kernel: Kernel, previous: State) -> Arrays:
        """Run a half-step for its sums alone. Each block gets its memory or, without one, its rows."""

    def rebuild(self, kernel: Kernel, source: State | None, previous: State | None) -> Self:
        """Return the side with new blocks: the memories that ``kernel`` returns. The old ones can be released."""

    def free_disks(self) -> None:
        """Delete the files of earlier half-steps that nothing refers to any more."""

    def release(self) -> None:
        """Free the cached blocks."""


def needed_by(states: Iterable[State]) -> "Needs":
    """Collect the data that a recomputation of these states would read."""
    return frozenset().union(*(state.needs for state in states))


def destroy(needs: "Needs") -> None:
    """Delete data that no recomputation will read again."""
    for need in needs:
        need.destroy()


def checked_sums(sums: Arrays, rows: Array) -> dict[str, Array]:
    """Return a block's sums, and how many of its rows are NaN or infinite."""
    return {**sums, _NOT_FINITE: np.array(float((~np.isfinite(rows).all(axis=1)).sum()))}


def require_finite(side: Side, state: State) -> State:
    """Refuse a result with rows that are NaN or infinite, and release it."""
    bad = int(state.sums[_NOT_FINITE])
    if bad:
        state.release()
        raise FitError(
            f"{bad} of {side.n_rows} {side.name} factors are NaN or infinite after an update: look for extreme "
            "ratings or weights (alpha), or raise the regularisation (regParam)"
        )
    return state
