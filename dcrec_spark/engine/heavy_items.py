"""Heavy items: those with more pairs than a block should hold.

Each pair is in two blocks, its user's and its item's. There are many users, so the pairs of an item that most of them
have rated are already spread over all user blocks. Its own block leaves them out, and the user blocks compute the
partial sums that its half-step needs::

    users' half-step    -> rows; and, for the heavy items, sums over their pairs
    items' half-step    -> rows; those of heavy items from the sums of all user blocks
    one more half-step  -> the user blocks score their pairs with the heavy items, whose new rows the driver brings

Of the example in :mod:`dcrec_spark.engine.blocks`, with item 4 heavy, of one pair, user block 0 and item block 1 also
have::

    user block 0    heavy_at    [2]   positions of the heavy items in the inbox of every block, whether it has pairs
                                      with them or not
                    heavy_block [1]   the item block of each, for which it computes partial sums
    item block 1    heavy_row   [1]   item 4, the second row of this block, has no pairs here
                    heavy_slot  [0]   the first of all heavy items
                    heavy_fitted [1]  its pairs of the fit

Without heavy items there is no third half-step. ``docs/decisions/heavy-rows.md`` says why only items can be heavy, and
what it costs.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dcrec_spark.engine.blocks import FITTED, Block, Pairs
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.sides import Side, State
from dcrec_spark.engine.steps import PartsOf, ScoresOf, Steps

AT, BLOCK = "heavy_at", "heavy_block"
ROW, SLOT, FITTED_PAIRS = "heavy_row", "heavy_slot", "heavy_fitted"
# Among a side's sums: its heavy rows, (H, width), in the order of the slots.
ROWS = "heavy_rows"
# Before the names of sums over the pairs of heavy rows, where these pass through the driver.
PART = "heavy_part_"


class Heavy(NamedTuple):
    """The heavy rows of a side: idx (H,), ascending, and how many pairs of the fit each has, fitted (H,)."""

    idx: Array
    fitted: Array

    def of_block(self, block: int, n_blocks: int) -> dict[str, Array]:
        """Return the arrays of a block about the heavy rows in it."""
        slot = np.flatnonzero(self.idx % n_blocks == block)
        return {ROW: self.idx[slot] // n_blocks, SLOT: slot, FITTED_PAIRS: self.fitted[slot]}


def has_own(block: Block) -> bool:
    """Whether some rows of a block are heavy."""
    return len(block.get(ROW, ())) > 0


# ---- the pairs with heavy rows, by row of the block and by heavy row


class _View(Block):
    """A block with only its pairs with heavy rows."""

    def __init__(self, arrays: Arrays, pairs: Mapping[str, Pairs]) -> None:
        super().__init__(arrays)
        self._seen = pairs

    def _pairs(self, prefix: str) -> Pairs:
        return self._seen[prefix]


def heavy_pairs(block: Block) -> Block:
    """Return a block with only its pairs with heavy rows. Its inbox is all heavy rows, in the order of the slots."""
    return _View(block, {pairs.prefix: _heavy_pairs(block, pairs) for pairs in block.parts})


def transpose(block: Block) -> Block:
    """Return the fitted pairs of a block with heavy rows as a block of the heavy rows. Its inbox is the block's rows.

    The keys and exposures of heavy rows are not known here, and are zeros.
    """
    n, pairs = len(block[AT]), _heavy_pairs(block, block.fitted)
    row = np.repeat(np.arange(len(pairs.row_ptr) - 1, dtype=np.int32), np.diff(pairs.row_ptr))
    order = np.argsort(pairs.col, kind="stable")
    row_ptr = np.searchsorted(pairs.col[order], np.arange(n + 1)).astype(np.int64)
    by_row = pairs._replace(row_ptr=row_ptr, col=row[order], at=None if pairs.at is None else pairs.at[order])
    arrays: dict[str, Array] = {"row_key": np.zeros(n, np.int64)}
    if "exposure" in block:
        arrays["exposure"] = np.zeros((n, block["exposure"].shape[1]))
    return _View(arrays, {FITTED: by_row})


def _heavy_pairs(block: Block, pairs: Pairs) -> Pairs:
    slot = np.full(len(block.need_at), -1, np.int16 if len(block[AT]) < 2**15 else np.int32)
    slot[block[AT]] = np.arange(len(block[AT]))
    of_pairs: Array = slot[pairs.col]
    at = np.flatnonzero(of_pairs >= 0)
    return pairs._replace(row_ptr=np.searchsorted(at, pairs.row_ptr).astype(np.int64), col=of_pairs[at], at=at)


# ---- partial sums, on their way from the blocks that have the pairs to the blocks of the heavy rows


def from_driver(block: Block, sums: Arrays) -> dict[str, Array]:
    """Return the sums of the other side for the heavy rows of a block."""
    return {n.removeprefix(PART): part[block[SLOT]] for n, part in sums.items() if n.startswith(PART)}


def by_block(block: Block, parts: Arrays) -> Iterator[tuple[int, dict[str, Array]]]:
    """Split a block's partial sums, (H, ...) each, by the blocks that the heavy rows are in."""
    for target in np.unique(block[BLOCK]) if parts else ():
        of_target = block[BLOCK] == target
        yield int(target), {name: part[of_target] for name, part in parts.items()}


# ---- the half-steps of a sweep


def with_parts(kernel: Kernel, steps: Steps, shared: Any) -> Kernel:
    """Return a kernel of users that also computes the partial sums of heavy items, in blocks with such pairs."""
    parts = steps.heavy_parts(shared)
    return kernel if parts is None else partial(_update_with_parts, kernel=kernel, parts=parts)


def _update_with_parts(inputs: KernelInput, *, kernel: Kernel, parts: PartsOf) -> Update:
    update = kernel(inputs)
    return update._replace(parts=parts(inputs, update)) if AT in inputs.block else update


def add_scores(users: Side, steps: Steps, shared: Any, user_state: State, item_state: State) -> State:
    """Return the items' result with the sums over all of their pairs, those of heavy items too."""
    rows, scores = item_state.sums.get(ROWS), steps.heavy_scores(shared)
    if rows is None or scores is None:
        return item_state
    of_heavy = users.add_up(partial(_score, scores=scores, rows=rows), user_state)
    return item_state.with_sums({**item_state.sums, **{n: item_state.sums[n] + part for n, part in of_heavy.items()}})


def _score(inputs: KernelInput, *, scores: ScoresOf, rows: Array) -> Update:
    return Update(np.empty((len(inputs.block.row_key), 0)), scores(inputs, rows), {})
