"""A side in this process: one block of arrays, updated by a function call instead of a Spark job."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dcrec_spark.engine.blocks import Block, read_only, read_only_arrays
from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.kernel_input import PAIRS_PER_RUN, Kernel, KernelInput, Update, update_in_runs
from dcrec_spark.engine.sides import State, checked_sums, require_finite


@dataclass(frozen=True)
class ProcessSide:
    """A side whose only block is in this process.

    duplicate : position, among the pairs that the block was built of, of one that has come before. None: each is new.
    pairs_per_run : the fewest pairs that a kernel processes at once.
    """

    name: str
    n_rows: int
    block: Block
    duplicate: int | None = None
    pairs_per_run: int = PAIRS_PER_RUN
    n_blocks: ClassVar[int] = 1

    def half_step(self, kernel: Kernel, source: State | None = None, previous: State | None = None) -> State:
        """Update every row. See :class:`dcrec_spark.engine.sides.Side`."""
        return self._state(update_in_runs(kernel, self._input(source, previous), self.pairs_per_run))

    def remember(self, kernel: Kernel, source: State, previous: State) -> State:
        """Run a half-step for its memory, which may have any shape."""
        return self._state(kernel(self._input(source, previous)))

    def add_up(self, kernel: Kernel, previous: State) -> Arrays:
        """Run a half-step for its sums alone."""
        return self.half_step(kernel, previous=State.of_memory(previous.memory_of(0))).sums

    def rebuild(self, kernel: Kernel, source: State | None, previous: State | None) -> Self:
        """Return the side with a new block: the memory that ``kernel`` returns."""
        contents = kernel(self._input(source, previous)).memory
        return type(self)(self.name, self.n_rows, Block(read_only_arrays(contents)), None, self.pairs_per_run)

    def free_disks(self) -> None:
        """Do nothing: nothing is on the cluster."""

    def release(self) -> None:
        """Do nothing: nothing is on the cluster."""

    def _input(self, source: State | None, previous: State | None) -> KernelInput:
        """Return the input of a kernel. If all source rows are needed, the inbox is not copied."""
        inbox, need_at = np.empty((0, 0)) if source is None or source.rows is None else source.rows, self.block.need_at
        if source is not None and len(need_at) != len(inbox):
            inbox = inbox[need_at]
        memory = {} if previous is None else previous.memory.get(0, {})
        return KernelInput(self.block, memory, inbox, {} if source is None else source.sums)

    def _state(self, update: Update) -> State:
        sums = read_only_arrays(checked_sums(update.sums, update.rows))
        memory = {0: read_only_arrays(update.memory)} if update.memory else {}
        return require_finite(self, State(sums, read_only(update.rows), memory))
