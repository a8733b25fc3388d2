"""Many blocks in memory that exchange messages like those of a cluster: a side without Spark."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dcrec_spark.engine.blocks import Block, block_rows
from dcrec_spark.engine.build import BlockPlan, build_block, split_by_block
from dcrec_spark.engine.cells import Array, Arrays, unpack
from dcrec_spark.engine.exchange import FromDriver, add_up_sums, collected_state, update_block
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.kernel_input import Kernel
from dcrec_spark.engine.messages import Kind, Message, from_table, to_table
from dcrec_spark.engine.sides import State, require_finite


@dataclass(frozen=True)
class MemoryOutbox:
    messages: list[Message]

    def release(self) -> None: ...

    def checkpoint(self) -> "tuple[MemoryOutbox, MemoryOutbox]":
        return self, self

    destroy = release

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class MemorySide:
    """``blocks`` : the cell of each. broadcasts : whether a driver has its rows, as for a small side of a cluster."""

    name: str
    n_rows: int
    blocks: list[bytes]
    broadcasts: bool = False

    @property
    def n_blocks(self) -> int:
        return len(self.blocks)

    def half_step(self, kernel: Kernel, source: State | None = None, previous: State | None = None) -> State:
        sent = self._run(kernel, source, previous)
        state = collected_state(sent) if self.broadcasts else State(add_up_sums(sent), outbox=MemoryOutbox(sent))
        return require_finite(self, state)

    def remember(self, kernel: Kernel, source: State, previous: State) -> State:
        return replace(self, broadcasts=False).half_step(kernel, source, previous)

    def add_up(self, kernel: Kernel, previous: State) -> Arrays:
        known = previous if previous.outbox else replace(previous, memory=dict(enumerate(self.memories(previous))))
        return replace(self, broadcasts=True).half_step(kernel, previous=known).sums

    def rebuild(self, kernel: Kernel, source: State, previous: State) -> "MemorySide":
        sent = replace(self, broadcasts=False)._run(kernel, source, previous)
        return replace(self, blocks=[bytes(m.data) for m in sent if m.kind is Kind.MEMORY])

    def memories(self, state: State) -> list[Arrays]:
        if state.outbox is not None:
            return [unpack(m.data) for m in state.outbox.messages if m.kind is Kind.MEMORY]
        return [state.memory_of(b, block_rows(self.n_rows, self.n_blocks, b)) for b in range(self.n_blocks)]

    def rows(self, state: State, name: str = "rows") -> Array:
        memories = self.memories(state)
        rows = np.empty((self.n_rows, *memories[0][name].shape[1:]))
        for block, memory in enumerate(memories):
            rows[block :: self.n_blocks] = memory[name]
        return rows

    def remembered(self, memories: list[Arrays]) -> State:
        if self.broadcasts:
            return State({}, memory=dict(enumerate(memories)))
        return State(
            {}, outbox=MemoryOutbox([Message.of(b, b, Kind.MEMORY, **arrays) for b, arrays in enumerate(memories)])
        )

    def free_disks(self) -> None: ...

    release = free_disks

    def _run(self, kernel: Kernel, source: State | None, previous: State | None) -> list[Message]:
        """Messages of all blocks; kernels and what the driver has are pickled, and messages arrive in any order."""
        from_driver, kernel = pickle.loads(pickle.dumps((FromDriver.of(source, previous), kernel)))
        inbox = [m for m in _messages(source) if m.kind in (Kind.ROWS, Kind.PARTS)]
        inbox += [m for m in _messages(previous) if m.kind is Kind.MEMORY]
        sent: list[Message] = []
        for number, cell in enumerate(self.blocks):
            mine = from_table(to_table([m for m in reversed(inbox) if m.to_block == number]))
            sent += update_block(number, Block(unpack(cell)), mine, kernel, from_driver, self.broadcasts)
        return from_table(to_table(sent[::-1]))


def _messages(state: State | None) -> list[Message]:
    return [] if state is None or state.outbox is None else state.outbox.messages


def memory_sides(
    pairs: Mapping[str, Array],
    keys: tuple[Array, Array],
    n_blocks: tuple[int, int],
    broadcasts: tuple[bool, bool] = (False, False),
    dtype: str = "float64",
    heavy: Heavy | None = None,
) -> tuple[MemorySide, MemorySide]:
    """Users and items. pairs : ``user``, ``item``, values and perhaps ``held_out``. keys : hashes of the ids."""
    sides = []
    for n, (name, other, heavies) in enumerate((("user", "item", {"others": heavy}), ("item", "user", {"own": heavy}))):
        source, mine = (len(keys[1 - n]), n_blocks[1 - n]), dict(pairs)
        own = heavies.get("own")
        if own is not None:
            light = ~np.isin(mine["item"], own.idx)
            mine = {column: values[light] for column, values in mine.items()}
        columns = [column for column in mine if column not in ("user", "item", "held_out")]
        plan = BlockPlan(n_blocks[n], source, columns, dtype, **heavies, held_out="held_out" in pairs)
        blocks = []
        for b in range(n_blocks[n]):
            parts = block_parts(mine, name, other, keys[n], b, n_blocks[n])
            blocks.append(build_block(b, parts, plan)["data"][0].as_py())
        sides.append(MemorySide(name, len(keys[n]), blocks, broadcasts[n]))
    return sides[0], sides[1]


def block_parts(
    pairs: Mapping[str, Array], name: str, other: str, key: Array, block: int, n_blocks: int
) -> list[Arrays]:
    """The pairs and rows of one block, as a partition of the cluster has them."""
    rest = {column: values for column, values in pairs.items() if column not in (name, other)}
    tables = {"row": pairs[name], "col": pairs[other], **rest}, {"row": np.arange(len(key)), "key": key}
    parts = [list(split_by_block(table, n_blocks))[block] for table in tables]
    return [unpack(part["data"][0].as_py()) for part in parts]
