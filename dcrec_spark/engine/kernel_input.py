"""Input and output of a kernel: kernel(KernelInput) -> Update, for one block of a side at a time.

A block in this process may have more pairs than a kernel should process at once. Per-pair temporaries of a hundred
million pairs take 800 MB each. So the block is processed in runs: some of its rows, with the whole inbox. The rows of
the runs are concatenated and their sums added up, like those of a cluster's blocks. Arrays derived from the inbox alone
are computed once for all runs.
"""

from collections.abc import Callable
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.messages import ROWS

Derived = TypeVar("Derived")
NO_PARTS: Arrays = MappingProxyType({})
# The fewest pairs of a run. With a quarter of them, a sweep of 100 million pairs took a seventh longer.
PAIRS_PER_RUN = 2**22


class KernelInput(NamedTuple):
    """The input of a kernel.

    block : the arrays of the block. See :mod:`dcrec_spark.engine.blocks`.
    memory : what the kernel returned as memory for this block last time. Empty the first time.
    inbox : (rows that the block needs, width) of the source. ``block.fitted.col`` points into it.
    source_sums : the source's sums over all of its blocks.
    parts : (h, ...) each, of the block's heavy rows: what the source's blocks have added up over their pairs.
    cache : results of :meth:`once` by name, shared by the runs of a block. None: nothing is cached.
    """

    block: Block
    memory: Arrays
    inbox: Array
    source_sums: Arrays
    parts: Arrays = NO_PARTS
    cache: dict[str, Any] | None = None

    def once(self, name: str, derive: Callable[[], Derived]) -> Derived:
        """Return an array derived from the inbox and the source's sums alone, computed once for all runs of a block."""
        if self.cache is None:
            return derive()
        if name not in self.cache:
            self.cache[name] = derive()
        derived: Derived = self.cache[name]
        return derived

    def of_rows(self, first: int, last: int) -> "KernelInput":
        """Return the input of some rows, those from ``first`` to ``last``."""
        memory = {name: array[first:last] if array.ndim == 2 else array for name, array in self.memory.items()}
        return self._replace(block=self.block.of_rows(first, last), memory=memory)


class Update(NamedTuple):
    """The output of a kernel for one block.

    rows : (rows of the block, width), which the blocks of the other side may need.
    sums : added up over the blocks of the side, in the order of the blocks.
    memory : input of the next half-step of this block. Empty if the rows are enough. Arrays of two dimensions have one
        row for each row of the block, others are common to all rows.
    parts : (H, ...) each, of all heavy rows of the other side: sums over the pairs that this block has with them.
    """

    rows: Array
    sums: Arrays
    memory: Arrays
    parts: Arrays = NO_PARTS


Kernel = Callable[[KernelInput], Update]


def update_in_runs(kernel: Kernel, inputs: KernelInput, pairs_per_run: int = PAIRS_PER_RUN) -> Update:
    """Return a kernel's update of a block without heavy rows, run by run if it has many pairs.

    Raises ValueError: an array in the memory that is not of two dimensions differs between the runs.
    """
    inputs, bounds = inputs._replace(cache={}), _bounds(inputs.block.fitted.row_ptr, pairs_per_run)
    if len(bounds) <= 2:
        return kernel(inputs)
    whole: dict[str, Array] = {}
    sums: dict[str, Array] = {}
    for first, last in pairwise(bounds):
        update = kernel(inputs.of_rows(first, last))
        # An array of the memory named ROWS is the rows.
        for name, array in {ROWS: update.rows, **update.memory}.items():
            if array.ndim != 2:  # common to all rows
                if not np.array_equal(whole.setdefault(name, array), array, equal_nan=True):
                    raise ValueError(
                        f"memory {name!r}: found an array of {array.ndim} dimensions that differs between rows, "
                        "expected one that is common to all rows: give it two, with one row for each row of the block"
                    )
                continue
            if name not in whole:
                whole[name] = np.empty((bounds[-1], *array.shape[1:]), array.dtype)
            whole[name][first:last] = array
        sums = {name: sums[name] + part if sums else part for name, part in update.sums.items()}
    return Update(whole[ROWS], sums, {name: whole[name] for name in update.memory})


def _bounds(row_ptr: Array, pairs: int) -> list[int]:
    n_rows, n_runs = len(row_ptr) - 1, -(-int(row_ptr[-1]) // pairs)
    inner = np.searchsorted(row_ptr, np.arange(1, n_runs) * pairs)
    return sorted({0, *np.minimum(inner, n_rows).tolist(), n_rows})
