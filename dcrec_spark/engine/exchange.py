"""The half-step of one block among many: from its messages to the messages that it sends.

No Spark: :mod:`dcrec_spark.engine.cluster` runs :func:`update_block` in Spark's workers and carries the messages.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from dcrec_spark.engine import heavy_items, messages
from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.cells import Array, Arrays, unpack
from dcrec_spark.engine.kernel_input import NO_PARTS, Kernel, KernelInput
from dcrec_spark.engine.messages import ROWS, Kind, Message
from dcrec_spark.engine.sides import State, checked_sums


class FromDriver(NamedTuple):
    """Data that the blocks of a half-step get from the driver.

    source_sums : of the source over all blocks. rows : the source's. None where they come in messages.
    memory : block -> its memory, where the driver has it.
    """

    source_sums: dict[str, Array]
    rows: Array | None
    memory: Mapping[int, Arrays]

    @classmethod
    def of(cls, source: State | None, previous: State | None) -> "FromDriver":
        """Collect what the driver has of two states."""
        sums, rows = ({}, None) if source is None else (dict(source.sums), source.rows)
        return cls(sums, rows, {} if previous is None else dict(previous.memory))


def update_block(
    number: int, block: Block, inbox: list[Message], kernel: Kernel, from_driver: FromDriver, broadcasts: bool
) -> list[Message]:
    """Run the kernel on one block. Return the messages that it sends."""
    rows = messages.read_rows(inbox)
    if rows is None:
        rows = np.empty((0, 0)) if from_driver.rows is None else from_driver.rows[block.need_at]
    cell = messages.read_memories(inbox).get(number)
    memory = from_driver.memory.get(number, {}) if cell is None else unpack(cell)
    parts: Arrays = NO_PARTS
    if heavy_items.has_own(block):
        sums = from_driver.source_sums
        parts = messages.add_up(inbox, Kind.PARTS) or heavy_items.from_driver(block, sums)
    update = kernel(KernelInput(block, memory, rows, from_driver.source_sums, parts))
    sums = checked_sums(update.sums, update.rows)
    if broadcasts:
        sums |= {f"{heavy_items.PART}{name}": part for name, part in update.parts.items()}
    outbox: list[Message] = []
    if update.memory or not broadcasts:
        outbox.append(Message.of(number, number, Kind.MEMORY, **(update.memory or {ROWS: update.rows})))
    if broadcasts:
        outbox.append(Message.of(None, number, Kind.ROWS, rows=update.rows))
    else:
        outbox += [Message.of(to, number, Kind.ROWS, rows=update.rows[at]) for to, at in enumerate(block.routes)]
        by_block = heavy_items.by_block(block, update.parts)
        outbox += [Message.of(to, number, Kind.PARTS, **parts) for to, parts in by_block]
    # Messages to the driver come last: Spark caches a few megabytes at a time, and reads these without the others.
    if heavy_items.has_own(block):
        slot, rows = block[heavy_items.SLOT], update.rows[block[heavy_items.ROW]]
        outbox.append(Message.of(None, number, Kind.HEAVY, slot=slot, rows=rows))
    return [*outbox, Message.of(None, number, Kind.SUMS, **sums)]


def add_up_sums(outbox: Iterable[Message]) -> dict[str, Array]:
    """Return the sums over all blocks, and the heavy rows where there are any."""
    outbox = list(outbox)
    sums, rows = messages.add_up(outbox), messages.read_heavy_rows(outbox)
    return sums if rows is None else {**sums, heavy_items.ROWS: rows}


def collected_state(outbox: list[Message]) -> State:
    """Return the state whose rows and memories the driver has collected."""
    # Copies: a view of one cell would keep all messages in memory.
    memory = {block: unpack(bytes(cell)) for block, cell in messages.read_memories(outbox).items()}
    rows = messages.read_rows(outbox)
    return State(add_up_sums(outbox), np.empty((0, 0)) if rows is None else rows, memory)
