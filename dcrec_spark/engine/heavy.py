"""Heavy rows: those with more pairs than a block should hold. Their pairs are with the other side's blocks alone.

Each pair is in two blocks, its user's and its item's. Users are many, so that the pairs of an item that most of them
have rated lie spread over all of their blocks already; its own block would hold them whole. So it leaves them out, and
what a half-step needs of them the users' blocks add up. Of the example in :mod:`dcrec_spark.engine.blocks`, with
item 4 heavy, of one pair, user block 0 and item block 1 have besides::

    user block 0    heavy_at    [2]   where the heavy items stand in the inbox of every block, whether it names them
                    heavy_block [1]   the item block of each, for which it adds up what it has of them
    item block 1    heavy_row   [1]   item 4, the second row of this block, has no pairs here
                    heavy_slot  [0]   the first of all heavy items
                    heavy_fitted [1]  its pairs of the fit

``docs/decisions/heavy-rows.md`` says why it is the items only, and what it costs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dcrec_spark.engine.blocks import FITTED, Block, Pairs
from dcrec_spark.engine.cells import Array, Arrays

AT, BLOCK = "heavy_at", "heavy_block"
ROW, SLOT, FITTED_PAIRS = "heavy_row", "heavy_slot", "heavy_fitted"
# Of a side's sums: the heavy rows as they are now, (H, width), whose order is that of the slots.
ROWS = "heavy_rows"
# Before the names of sums over the pairs of heavy rows, where these pass through the driver.
_PART = "heavy_part_"


class Heavy(NamedTuple):
    """The heavy rows of a side: idx (H,), rising, and how many pairs of the fit each has, fitted (H,)."""

    idx: Array
    fitted: Array

    def of_block(self, block: int, n_blocks: int) -> dict[str, Array]:
        """Return what their own block knows of those that are in it."""
        slot = np.flatnonzero(self.idx % n_blocks == block)
        return {ROW: self.idx[slot] // n_blocks, SLOT: slot, FITTED_PAIRS: self.fitted[slot]}


def has_own(block: Block) -> bool:
    """Whether some rows of a block are heavy."""
    return len(block.get(ROW, ())) > 0


def meets(block: Block) -> bool:
    """Whether a block has pairs with heavy rows, which it adds up for them."""
    return AT in block


# ---- the pairs with heavy rows, in either order


class _View(Block):
    """A block of which only the pairs with heavy rows are seen."""

    def __init__(self, arrays: Arrays, pairs: Mapping[str, Pairs]) -> None:
        super().__init__(arrays)
        self._seen = pairs

    def _pairs(self, prefix: str) -> Pairs:
        return self._seen[prefix]


def met(block: Block) -> Block:
    """Return a block with its pairs with heavy rows alone, whose inbox are all heavy rows in the order of the slots."""
    return _View(block, {pairs.prefix: _met(block, pairs) for pairs in block.parts})


def turned(block: Block) -> Block:
    """Return the fitted pairs of a block with heavy rows as a block of these, whose inbox are the block's own rows.

    Nothing else is known of them here: their keys and exposures are zeros.
    """
    n, pairs = len(block[AT]), _met(block, block.fitted)
    row = np.repeat(np.arange(len(pairs.row_ptr) - 1, dtype=np.int32), np.diff(pairs.row_ptr))
    order = np.argsort(pairs.col, kind="stable")
    row_ptr = np.searchsorted(pairs.col[order], np.arange(n + 1)).astype(np.int64)
    by_row = pairs._replace(row_ptr=row_ptr, col=row[order], at=None if pairs.at is None else pairs.at[order])
    arrays: dict[str, Array] = {"row_key": np.zeros(n, np.int64)}
    if "exposure" in block:
        arrays["exposure"] = np.zeros((n, block["exposure"].shape[1]))
    return _View(arrays, {FITTED: by_row})


def _met(block: Block, pairs: Pairs) -> Pairs:
    slot = np.full(len(block.need_at), -1, np.int16 if len(block[AT]) < 2**15 else np.int32)
    slot[block[AT]] = np.arange(len(block[AT]))
    of_pairs: Array = slot[pairs.col]
    at = np.flatnonzero(of_pairs >= 0)
    return pairs._replace(row_ptr=np.searchsorted(at, pairs.row_ptr).astype(np.int64), col=of_pairs[at], at=at)


# ---- sums over the pairs of heavy rows, on their way from the blocks that have these to the rows


def for_driver(parts: Arrays) -> dict[str, Array]:
    """Return what a block has added up, (H, ...) each, as sums of its side."""
    return {f"{_PART}{name}": part for name, part in parts.items()}


def from_driver(block: Block, sums: Arrays) -> dict[str, Array]:
    """Return what the sums of the other side hold for the heavy rows of a block."""
    return {n.removeprefix(_PART): part[block[SLOT]] for n, part in sums.items() if n.startswith(_PART)}


def by_block(block: Block, parts: Arrays) -> Iterator[tuple[int, dict[str, Array]]]:
    """Take what a block has added up, (H, ...) each, apart by the blocks that the heavy rows are in."""
    for target in np.unique(block[BLOCK]) if parts else ():
        of_target = block[BLOCK] == target
        yield int(target), {name: part[of_target] for name, part in parts.items()}
