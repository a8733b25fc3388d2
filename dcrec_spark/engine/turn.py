"""What a half-step asks of a model, and what it answers: kernel(Turn) -> Update, of one block of a side at a time.

A block in this process may have more pairs than is good to work on at once: what a kernel makes of each, its weight
and its pull, would be 800 MB a time of a hundred million pairs, asked for anew, written and read back. So it is worked
on in runs, of which each is a block: some of the rows, with the whole inbox. Their rows follow one another, their sums
are added up, as those of a cluster's blocks are. What a kernel makes of the inbox alone, it makes once for all runs.
"""

from collections.abc import Callable
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.posts import ROWS

Made = TypeVar("Made")
NO_PARTS: Arrays = MappingProxyType({})
# How many pairs a run has at least: in runs of a quarter of it a sweep of 100 million took a seventh longer.
PAIRS_OF_A_RUN = 2**22


class Turn(NamedTuple):
    """What a kernel gets to work on.

    block : the arrays of the block; see :mod:`dcrec_spark.engine.blocks`.
    memory : what the kernel left for this block at its last turn; empty at the first.
    inbox : (rows that the block needs, width) of the source; ``block.fitted.col`` points into it.
    source_sums : the source's sums over all of its blocks.
    parts : of the block's heavy rows, (h, ...) each, what the source's blocks have added up over their pairs.
    made : what :meth:`once` has made, by its name, shared by the runs of a block; None where nothing is kept.
    """

    block: Block
    memory: Arrays
    inbox: Array
    source_sums: Arrays
    parts: Arrays = NO_PARTS
    made: dict[str, Any] | None = None

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what is made of the inbox, the source's sums and the model alone, the same for each run of a block."""
        if self.made is None:
            return make()
        if name not in self.made:
            self.made[name] = make()
        made: Made = self.made[name]
        return made

    def of_rows(self, first: int, last: int) -> "Turn":
        """Return the turn of some rows, those from ``first`` to ``last``."""
        memory = {name: array[first:last] if is_of_rows(array) else array for name, array in self.memory.items()}
        return self._replace(block=self.block.of_rows(first, last), memory=memory)


class Update(NamedTuple):
    """What a kernel makes of one block.

    rows : (rows of the block, width) what the blocks of the other side may ask for.
    sums : added up over the blocks of the side, in the order of the blocks.
    memory : what the block gets back at its next turn; empty where the rows say all. Arrays of two dimensions have a
        row for each of the block, others hold what all rows share.
    parts : of all heavy rows of the other side, (H, ...) each, sums over the pairs that this block has with them.
    """

    rows: Array
    sums: Arrays
    memory: Arrays
    parts: Arrays = NO_PARTS


Kernel = Callable[[Turn], Update]


def updated_in_runs(kernel: Kernel, turn: Turn) -> Update:
    """Return a kernel's update of a block without heavy rows, run by run if its pairs are many.

    Raises
    ------
    ValueError : a memory of other than two dimensions differs between the runs.
    """
    turn, bounds = turn._replace(made={}), _bounds(turn.block.fitted.row_ptr, PAIRS_OF_A_RUN)
    if len(bounds) <= 2:
        return kernel(turn)
    whole: dict[str, Array] = {}
    sums: dict[str, Array] = {}
    for first, last in pairwise(bounds):
        update = kernel(turn.of_rows(first, last))
        # A memory by the name of the rows is the rows.
        for name, array in {ROWS: update.rows, **update.memory}.items():
            if not is_of_rows(array):
                _require_shared(name, whole.setdefault(name, array), array)
                continue
            if name not in whole:
                whole[name] = np.empty((bounds[-1], *array.shape[1:]), array.dtype)
            whole[name][first:last] = array
        sums = {name: sums[name] + added if sums else added for name, added in update.sums.items()}
    return Update(whole[ROWS], sums, {name: whole[name] for name in update.memory})


def _bounds(row_ptr: Array, pairs: int) -> list[int]:
    """Return where runs begin and where the last one ends."""
    n_rows, n_runs = len(row_ptr) - 1, -(-int(row_ptr[-1]) // pairs)
    inner = np.searchsorted(row_ptr, np.arange(1, n_runs) * pairs)
    return sorted({0, *np.minimum(inner, n_rows).tolist(), n_rows})


def _require_shared(name: str, before: Array, now: Array) -> None:
    """Refuse a memory that is not what it was in the runs before: of rows it would be lost.

    Raises
    ------
    ValueError : names the memory.
    """
    if not np.array_equal(before, now, equal_nan=True):
        raise ValueError(
            f"memory {name!r}: found an array of {now.ndim} dimensions that differs between rows, expected one that "
            "all rows share: give it two, with a row for each of the block"
        )


def is_of_rows(array: Array) -> bool:
    """Whether a memory's array has a row for each of the block's."""
    return array.ndim == 2
