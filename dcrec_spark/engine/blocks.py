"""Ratings of one side as CSR blocks, built once for all half-steps.

Row ``idx`` of a side with ``n`` blocks lives in block ``idx % n`` at position ``idx // n``, so that blocks are
even whatever the order of the ids. With two user blocks, three item blocks and the ratings

    user 0: item 1 -> 5, item 4 -> 3;   user 2: item 3 -> 4

user block 0 holds the rows of users 0 and 2 and looks like this::

    row_key   [h(u0), h(u2)]     a hash of each row's id, the seed of its noise
    row_ptr   [0, 2, 3]          where each row's nonzeros begin
    need_at   [1, 2, 3]          the source rows it needs, as positions in the concatenated source blocks:
                                 item 3 (block 0), items 1 and 4 (block 1). The order of its inbox
    col       [1, 2, 0]          each nonzero's source row, as a position in that inbox
    rating    [5, 3, 4]          and one array for each further value column
    route_ptr [0, 1, 2, 2]       item blocks 0 and 1 need one of these rows each, block 2 none
    route_pos [1, 0]             ... which rows: the mirror image of the item blocks' needs

Held-out pairs are not part of the fit, but need the same source rows. They have arrays of their own, ``held_row_ptr``,
``held_col`` and ``held_`` before the name of each value, and the same inbox. Kernels read a block as :class:`Block`,
and never spell those names out::

    block.row_key, block.fitted.row_ptr, block.fitted.value("rating"), block.held_out.value("rating")

Rows with more pairs than a block should hold have none here: see :mod:`dcrec_spark.engine.heavy_items`.
:mod:`dcrec_spark.engine.build` builds blocks.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dcrec_spark.engine.cells import Array, Arrays, Cell, unpack

# Prefixes of the names of arrays: of the pairs that are fitted, and of those that are held out.
FITTED, HELD_OUT = "", "held_"
# Arrays of one dimension that have no number for each pair.
_NOT_OF_PAIRS = {"row_key", "need_at", "route_ptr", "route_pos", "row_ptr", f"{HELD_OUT}row_ptr"}


class Pairs(NamedTuple):
    """Pairs of a block, those of the fit or those held out.

    row_ptr : (n + 1,) where each row's pairs begin. col : (nnz,) each pair's position in the inbox.
    at : (nnz,) positions of their values in the block's arrays. None: all of these, in their order.
    """

    row_ptr: Array
    col: Array
    arrays: Arrays
    prefix: str
    at: Array | None = None

    def named(self, value: str) -> str:
        """Return the name of the block's array that has this value of the pairs."""
        return f"{self.prefix}{value}"

    def value(self, name: str) -> Array:
        """Return a value of each pair, (nnz,): "rating", "a_hat". KeyError where the block has none."""
        values = self.arrays[self.named(name)]
        return values if self.at is None else values[self.at]

    def has(self, name: str) -> bool:
        """Whether the pairs have this value."""
        return self.named(name) in self.arrays


class Block(Mapping[str, Array]):
    """One block of a side: its arrays by name, and by attribute those that every block has."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def row_key(self) -> Array:
        """(n,) the hash of each row's id."""
        return self["row_key"]

    @property
    def need_at(self) -> Array:
        """(m,) the source rows of the inbox, as positions in the concatenated source blocks."""
        return self["need_at"]

    @property
    def fitted(self) -> Pairs:
        """The nonzeros of the fit."""
        return self._pairs(FITTED)

    @property
    def held_out(self) -> Pairs:
        """The held-out pairs. KeyError where the side has none."""
        return self._pairs(HELD_OUT)

    @property
    def parts(self) -> list[Pairs]:
        """All pairs: those of the fit, and those held out if there are any."""
        return [self.fitted, self.held_out] if f"{HELD_OUT}col" in self else [self.fitted]

    @property
    def routes(self) -> list[Array]:
        """For each target block the positions of the rows that it needs."""
        pointer = self["route_ptr"].tolist()
        return [self["route_pos"][start:end] for start, end in pairwise(pointer)]

    def of_rows(self, first: int, last: int) -> "Block":
        """Return a block of some rows, those from ``first`` to ``last``, with the whole inbox. Nothing is copied."""
        arrays = {"need_at": self.need_at, "row_key": self.row_key[first:last]}
        arrays |= {name: array[first:last] for name, array in self.items() if array.ndim == 2}
        for pairs in self.parts:
            start, end = int(pairs.row_ptr[first]), int(pairs.row_ptr[last])
            of_pairs = [name for name, array in self.items() if array.ndim == 1 and name not in _NOT_OF_PAIRS]
            own = [name for name in of_pairs if name.startswith(HELD_OUT) == (pairs.prefix == HELD_OUT)]
            arrays |= {name: self[name][start:end] for name in own}
            arrays[pairs.named("row_ptr")] = pairs.row_ptr[first : last + 1] - start
        return Block(arrays)

    def _pairs(self, prefix: str) -> Pairs:
        return Pairs(self[f"{prefix}row_ptr"], self[f"{prefix}col"], self, prefix)


def read_block(cell: Cell) -> Block:
    """Read a block from its cell, without a copy."""
    return Block(unpack(cell))


def read_only_arrays(arrays: Arrays) -> dict[str, Array]:
    """Return contiguous read-only arrays, like those read from a cell, without a copy of contiguous arrays."""
    return {name: read_only(np.asarray(array, order="C")) for name, array in arrays.items()}


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def block_rows(n_rows: int, n_blocks: int, block: int) -> slice:
    """Locate a block's rows in the concatenated blocks of a side.

    >>> block_rows(7, 3, 1)
    slice(3, 5, None)
    """
    start = int(first_place(n_rows, n_blocks, np.asarray(block)))
    return slice(start, start + rows_in_block(n_rows, n_blocks, block))


def rows_in_block(n_rows: int, n_blocks: int, block: int) -> int:
    """Count the rows, of ``n_rows``, that fall into a block.

    >>> [rows_in_block(7, 3, block) for block in range(3)]
    [3, 2, 2]
    """
    return (n_rows - block + n_blocks - 1) // n_blocks


def first_place(n_rows: int, n_blocks: int, block: Array) -> Array:
    """Return the position of a block's first row in the concatenated blocks of a side.

    >>> first_place(7, 3, np.arange(3))
    array([0, 3, 5])
    """
    return block * (n_rows // n_blocks) + np.minimum(block, n_rows % n_blocks)


def index_at(n_rows: int, n_blocks: int, place: Array) -> Array:
    """Turn positions in the concatenated blocks, such as those of ``need_at``, into the idx of the rows.

    >>> index_at(7, 3, np.arange(7))
    array([0, 3, 6, 1, 4, 2, 5])
    """
    starts = first_place(n_rows, n_blocks, np.arange(n_blocks))
    block = np.searchsorted(starts, place, side="right") - 1
    return (place - starts[block]) * n_blocks + block
