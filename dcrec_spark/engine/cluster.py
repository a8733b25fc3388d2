"""A side on the cluster: blocks in Spark's partitions, updated from the source rows that they touch, one job at a time.

    kernel(KernelInput(block, memory, inbox, source_sums, parts)) -> Update(rows, sums, memory, parts)

A model supplies the kernel, a pure function of arrays. This module brings each block its inbox, and takes the result
to the next half-step. If a side is small, the driver collects its rows and broadcasts them. Else they stay on the
cluster, and each row travels once to each block that needs it. Either way a block gets the same inbox. User block 0 of
the example in :mod:`dcrec_spark.engine.blocks`, with items of two factors::

    inbox = [[0.3, 0.1],    item 3, from item block 0
             [0.2, 0.5],    item 1, from item block 1
             [0.9, 0.4]]    item 4, from item block 1
    rows  = [[...], [...]]  the kernel's update of users 0 and 2
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine import messages
from dcrec_spark.engine.blocks import block_rows, read_block
from dcrec_spark.engine.cells import Arrays, cells_in, pack
from dcrec_spark.engine.exchange import FromDriver, add_up_sums, collected_state, update_block
from dcrec_spark.engine.kernel_input import Kernel
from dcrec_spark.engine.messages import Kind
from dcrec_spark.engine.sides import State, destroy, needed_by, require_finite
from dcrec_spark.spark.compat import apply_in_arrow, collect_arrow, frame_of_arrow, group_by_place, place
from dcrec_spark.spark.lineage import Broadcasted, Kept, broadcast, delete_unreachable_shuffles, keep


@dataclass(frozen=True)
class ClusterSide:
    """A side whose blocks are on the cluster.

    frame : one row for each block, in the partition of its number: ``block int, ..., data binary``.
    broadcasts : whether the driver collects and broadcasts the results of this side, else they stay on the cluster.
    lent : whether the blocks are another's, who frees them. on_disk : whether blocks and results stay out of memory.
    """

    name: str
    n_rows: int
    n_blocks: int
    frame: DataFrame
    broadcasts: bool = False
    lent: bool = False
    on_disk: bool = False

    def half_step(self, kernel: Kernel, source: State | None = None, previous: State | None = None) -> State:
        """Update every row: one Spark job, and one exchange if a result that stays on the cluster is read."""
        with _broadcast(self.frame, FromDriver.of(source, previous)) as from_driver:
            outbox = self.plan(kernel, from_driver, source, previous)
            if self.broadcasts:
                state = collected_state(messages.from_table(collect_arrow(outbox)))
            else:
                cached = keep(outbox, self.on_disk, is_result=True)
                to_driver = messages.from_table(collect_arrow(cached.rows.where(_is_of(Kind.SUMS, Kind.HEAVY))))
                needs = needed_by(state for state in (source, previous) if state) | {from_driver}
                state = State(add_up_sums(to_driver), outbox=cached, needs=needs)
            require_finite(self, state)
        destroy(frozenset([from_driver]) - state.needs)
        return state

    def remember(self, kernel: Kernel, source: State, previous: State) -> State:
        """Run a half-step for the memories of its blocks, which stay on the cluster even if the rows are few."""
        return replace(self, broadcasts=False).half_step(kernel, source, previous)

    def add_up(self, kernel: Kernel, previous: State) -> Arrays:
        """Run a half-step for its sums alone, which the driver collects."""
        if previous.outbox is None:
            memory = {block: self._memory(previous, block) for block in range(self.n_blocks)}
            previous = replace(previous, memory=memory)
        return replace(self, broadcasts=True).half_step(kernel, previous=previous).sums

    def rebuild(self, kernel: Kernel, source: State | None, previous: State | None) -> Self:
        """Return the side with new blocks, which are computed when this returns."""
        with _broadcast(self.frame, FromDriver.of(source, previous)) as from_driver:
            outbox = replace(self, broadcasts=False).plan(kernel, from_driver, source, previous)
            cells = _memory_cells(outbox.where(_is_of(Kind.MEMORY)))
            rebuilt = replace(self, frame=cache_blocks(cells, self.n_blocks, self.on_disk), lent=False)
            rebuilt.frame.count()
        return rebuilt

    def memories(self, state: State) -> DataFrame:
        """Return each block's memory or, without one, its rows: ``block int, data binary``."""
        if state.outbox is not None:
            return _memory_cells(state.outbox.where(_is_of(Kind.MEMORY)))
        cells = {block: pack(self._memory(state, block)) for block in range(self.n_blocks)}
        table = pa.table({"block": pa.array(cells.keys(), pa.int32()), "data": pa.array(cells.values(), pa.binary())})
        return frame_of_arrow(self.frame.sparkSession, table)

    def free_disks(self) -> None:
        """Delete the shuffle files of earlier half-steps that nothing refers to any more."""
        if not self.broadcasts:
            delete_unreachable_shuffles(self.frame.sparkSession)

    def release(self) -> None:
        """Free the cached blocks, unless they are lent."""
        if not self.lent:
            self.frame.unpersist()

    def _memory(self, state: State, block: int) -> Arrays:
        return state.memory_of(block, block_rows(self.n_rows, self.n_blocks, block))

    def plan(self, kernel: Kernel, from_driver: Broadcasted, source: State | None, previous: State | None) -> DataFrame:
        """Plan a half-step: the messages of all blocks, which Spark computes when they are read."""
        inboxes = [
            state.outbox.where(_is_of(*kinds))
            for state, kinds in ((source, (Kind.ROWS, Kind.PARTS)), (previous, (Kind.MEMORY,)))
            if state is not None and state.outbox is not None
        ]
        n_blocks, broadcasts = self.n_blocks, self.broadcasts

        def without_inbox(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number, cell in zip(batch["block"].to_pylist(), cells_in(batch["data"]), strict=True):
                    sent = update_block(number, read_block(cell), [], kernel, from_driver.value, broadcasts)
                    yield from messages.to_table(sent).to_batches()

        def with_inbox(blocks: pa.Table, inbox: pa.Table) -> pa.Table:
            if not blocks.num_rows:  # a message without rows, to a block that does not exist
                return messages.to_table([])
            number, (cell,) = blocks["block"][0].as_py(), cells_in(blocks["data"])
            arrived = messages.from_table(inbox)
            sent = update_block(number, read_block(cell), arrived, kernel, from_driver.value, broadcasts)
            return messages.to_table(sent)

        blocks = self.frame.drop("nonzeros", "duplicate_row", "duplicate_col")
        if not inboxes:
            return blocks.mapInArrow(without_inbox, messages.SCHEMA)
        inbox = inboxes[0] if len(inboxes) == 1 else inboxes[0].unionByName(inboxes[1])
        arrived = group_by_place(place(inbox, n_blocks, "to_block"), "to_block")
        return apply_in_arrow(group_by_place(blocks, "block").cogroup(arrived), with_inbox, messages.SCHEMA)


def cache_blocks(built: DataFrame, n_blocks: int, on_disk: bool) -> DataFrame:
    """Put one block into each partition, in a way that Spark knows of, so that later only messages have to move."""
    return keep(place(built, n_blocks, "block"), on_disk, is_result=True).cached


def state_of_memories(cells: DataFrame, cached: DataFrame) -> State:
    """Return the state of a side that only remembers: the start of a warm fit.

    cells : ``block int, data binary``, the cell of each block's memory.
    cached : the cached frame that ``cells`` is made of. Released with the state.
    """
    block = F.col("block")
    kind = F.lit(Kind.MEMORY.value).alias("kind")
    outbox = cells.select(block.alias("to_block"), block.alias("from_block"), kind, "data")
    return State({}, outbox=Kept(outbox, cached))


@contextmanager
def _broadcast(frame: DataFrame, value: FromDriver) -> Iterator[Broadcasted]:
    """Broadcast. Destroyed if the half-step fails, else by the owner of its result."""
    from_driver = broadcast(frame.sparkSession, value)
    try:
        yield from_driver
    except BaseException:
        from_driver.destroy()
        raise


def _is_of(*kinds: Kind) -> Column:
    return F.col("kind").isin([kind.value for kind in kinds])


def _memory_cells(messages_to_itself: DataFrame) -> DataFrame:
    return messages_to_itself.select(F.col("to_block").alias("block"), "data")
