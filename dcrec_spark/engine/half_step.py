"""The one distributed loop body: destination rows updated from the source rows that they touch.

    kernel(Turn(block, memory, inbox, source_sums, parts)) -> Update(rows, sums, memory, parts)

A model supplies the kernel, a pure function of arrays; this module brings each block its inbox and takes the result
to where the next half-step finds it. A side's result is *held* by the driver and broadcast where it is small,
else *placed*: it stays on the cluster, and each row travels once to each block that needs it. Either way a block
gets the same inbox. User block 0 of the example in :mod:`dcrec_spark.engine.blocks`, with items of two factors::

    inbox = [[.3, .1],      item 3, from item block 0
             [.2, .5],      item 1, from item block 1
             [.9, .4]]      item 4, from item block 1
    rows  = [[...], [...]]  what the kernel makes of users 0 and 2
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.engine import heavy, posts
from dcrec_spark.engine.blocks import AnySide, Block, LocalSide, Side, kept_arrays, read_block, read_only
from dcrec_spark.engine.build import place_blocks
from dcrec_spark.engine.cells import Array, Arrays, Cell, cells_in, pack, unpack
from dcrec_spark.engine.posts import Kind, Post
from dcrec_spark.engine.turn import NO_PARTS, Kernel, Turn, Update, updated_in_runs
from dcrec_spark.errors import FitError
from dcrec_spark.spark.lineage import (
    Broadcasted,
    Checkpoint,
    Kept,
    broadcast,
    checkpoint,
    delete_unreachable_shuffles,
    keep,
)

Needs = frozenset[Broadcasted | Checkpoint]
SomeSide = TypeVar("SomeSide", bound=AnySide)

# Added to each block's sums: how many of its rows are NaN or infinite.
_NOT_FINITE = "rows_not_finite"


# ---- results of half-steps


@dataclass(frozen=True)
class Held:
    """A side's result on the driver.

    sums : over all blocks. rows : (rows of the side, width), of all blocks, one after the other.
    memory : block -> the cell that it left for itself; empty where the rows say all.
    """

    sums: Arrays
    rows: Array
    memory: Mapping[int, bytes]
    needs: ClassVar[Needs] = frozenset()

    def release(self) -> None:
        """Do nothing: no part of it is kept on the cluster."""


@dataclass(frozen=True)
class Placed:
    """A side's result on the cluster: the messages and memories of its blocks, and their sums on the driver.

    needs : what a recomputation of the outbox would read.
    """

    sums: Arrays
    outbox: Kept
    needs: Needs = frozenset()

    def release(self) -> None:
        """Free what is cached on the cluster."""
        self.outbox.release()


@dataclass(frozen=True)
class Here:
    """The result of a side in this process: what its one block's update says, as it is.

    sums, rows, memory : of the :class:`Update`; the arrays are read-only, as those of cells are.
    """

    sums: Arrays
    rows: Array
    memory: Arrays
    needs: ClassVar[Needs] = frozenset()

    def release(self) -> None:
        """Do nothing: no part of it is kept on the cluster."""


State = Held | Placed | Here


def placed_memories(cells: DataFrame, cached: DataFrame) -> Placed:
    """Make the state of a side that remembers, and has sent nothing yet: where a warm start begins.

    Parameters
    ----------
    cells : ``block int, data binary``, the cell of each block's memory.
    cached : the frame that is cached for it, if it is not ``cells``; freed with the state.
    """
    return Placed({}, Kept(posts.memory_outbox(cells), cached))


def held_memory(arrays: Arrays) -> Here:
    """Make the state of a side in this process that remembers these arrays, and has sent nothing yet."""
    return Here({}, np.empty((0, 0)), kept_arrays(arrays))


def memory_of(state: State) -> Arrays:
    """Read what a side in this process knows at the end: its one block's memory or, without one, its rows."""
    here = _here(state)
    return here.memory or {posts.ROWS: here.rows}


def _here(state: State) -> Here:
    if not isinstance(state, Here):
        raise TypeError(f"expected the result of a side in this process, found one that is {type(state).__name__}")
    return state


def memories(side: Side, state: State) -> DataFrame:
    """Read what a side knows at the end, each block's memory or, without one, its rows: ``block int, data binary``."""
    if isinstance(state, Placed):
        return posts.memory_cells(state.outbox.frame)
    cells = _cells(side, state)
    table = pa.table({"block": pa.array(cells.keys(), pa.int32()), "data": pa.array(cells.values(), pa.binary())})
    return side.frame.sparkSession.createDataFrame(table)


def remembering(side: Side, state: State) -> State:
    """Return the same result, whose blocks get their rows as memories where they have no others."""
    return replace(state, memory=_cells(side, state)) if isinstance(state, Held) else state


def _cells(side: Side, state: State) -> Mapping[int, bytes]:
    if not isinstance(state, Held):
        raise TypeError(f"expected a result that the driver holds for blocks, found one that is {type(state).__name__}")
    return state.memory or {b: pack({posts.ROWS: state.rows[side.places_of(b)]}) for b in range(side.n_blocks)}


def end_lineage(*states: State) -> list[State]:
    """Checkpoint the states: what is lost later is recomputed from there, and needs no more than that."""
    return [_from_checkpoint(state) for state in states]


def _from_checkpoint(state: State) -> State:
    if not isinstance(state, Placed):
        return state
    end = checkpoint(state.outbox)
    state.release()
    return Placed(state.sums, Kept(end.frame, end.frame), frozenset([end]))


def free_disks(*sides: AnySide) -> None:
    """Delete what Spark shuffled for results that nothing refers to any more, where a side's results are placed."""
    placed = next((side for side in sides if isinstance(side, Side) and not side.held), None)
    if placed:
        delete_unreachable_shuffles(placed.frame.sparkSession)


def needed_by(states: Iterable[State]) -> Needs:
    """Collect all that a recomputation of these states would read."""
    return frozenset().union(*(state.needs for state in states))


def destroy(needs: Needs) -> None:
    """Delete what no recomputation will read again, on the executors and on the driver."""
    for need in needs:
        need.destroy()


# ---- one half-step


def half_step(side: AnySide, kernel: Kernel, source: State | None = None, previous: State | None = None) -> State:
    """Update every row of a side: one Spark job, and one exchange where a placed result is read.

    A side that is in this process is updated here, by the same kernel, without Spark.

    Parameters
    ----------
    side : the rows to update, in blocks.
    kernel : what makes the new rows of a block.
    source : the other side's result, the kernel's inbox; None where the kernel needs none.
    previous : this side's last result, where the kernel remembers.

    Raises
    ------
    FitError : a row is no longer finite; names the side and how many.
    """
    if isinstance(side, LocalSide):
        return _state_here(side, updated_in_runs(kernel, _turn_here(side, source, previous)))
    with _broadcast(side, source, previous) as from_driver:
        outbox = _outbox(side, kernel, from_driver, source, previous)
        if side.held:
            state: State = _hold(posts.posts_in(outbox.toArrow()))
        else:
            state = _place(outbox, needed_by(state for state in (source, previous) if state) | {from_driver})
        _require_finite(side, state)
    destroy(frozenset([from_driver]) - state.needs)
    return state


def left_by(side: SomeSide, kernel: Kernel, source: State, previous: State) -> tuple[SomeSide, State]:
    """Run a half-step for what its blocks remember, be it of rows or of pairs; return the side that it belongs to.

    It stays with the blocks, however few the rows are.
    """
    if isinstance(side, LocalSide):
        return side, _state_here(side, kernel(_turn_here(side, source, previous)))
    placed = replace(side, held=False)
    return placed, half_step(placed, kernel, source, previous)


def rebuild(side: SomeSide, kernel: Kernel, source: State, previous: State) -> SomeSide:
    """Give a side new block contents: each block becomes the memory that ``kernel`` returns for it.

    The new blocks are there when this returns, so that the old ones can be freed.
    """
    if isinstance(side, LocalSide):
        contents = kernel(_turn_here(side, source, previous)).memory
        return LocalSide(side.name, side.n_rows, Block(kept_arrays(contents)))  # type: ignore[return-value]  # of its kind
    with _broadcast(side, source, previous) as from_driver:
        outbox = _outbox(replace(side, held=False), kernel, from_driver, source, previous)
        rebuilt = replace(side, frame=place_blocks(posts.memory_cells(outbox), side.n_blocks))
        rebuilt.frame.count()
    return rebuilt


class FromDriver(NamedTuple):
    """What the blocks of a half-step get from the driver, once on each executor.

    source_sums : of the source over all blocks. rows : the source's, where the driver holds them.
    memory : block -> the cell that it left for itself, where the driver holds them.
    """

    source_sums: dict[str, Array]
    rows: Array | None
    memory: Mapping[int, bytes]


def _from_driver(source: State | None, previous: State | None) -> FromDriver:
    return FromDriver(
        dict(source.sums) if source else {},
        source.rows if isinstance(source, Held) else None,
        previous.memory if isinstance(previous, Held) else {},
    )


@contextmanager
def _broadcast(side: Side, source: State | None, previous: State | None) -> Iterator[Broadcasted]:
    """Broadcast what the driver has; destroyed if the half-step fails, and else by whoever owns its result."""
    from_driver = broadcast(side.frame.sparkSession, _from_driver(source, previous))
    try:
        yield from_driver
    except BaseException:
        from_driver.destroy()
        raise


def _outbox(
    side: Side, kernel: Kernel, from_driver: Broadcasted, source: State | None, previous: State | None
) -> DataFrame:
    """Plan the half-step: the posts of all blocks, once they are asked for."""
    placed = [
        posts.of_kind(state.outbox.frame, *kinds)
        for state, kinds in ((source, (Kind.MESSAGE, Kind.PARTS)), (previous, (Kind.MEMORY,)))
        if isinstance(state, Placed)
    ]
    n_blocks, held = side.n_blocks, side.held

    def without_inbox(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, cell in zip(batch["block"].to_pylist(), cells_in(batch["data"]), strict=True):
                yield from posts.table_of(_updated(number, cell, [], kernel, from_driver.value, held)).to_batches()

    def with_inbox(blocks: pa.Table, inbox: pa.Table) -> pa.Table:
        if not blocks.num_rows:  # a message of no rows, to a block that has none
            return posts.table_of([])
        number, (cell,) = blocks["block"][0].as_py(), cells_in(blocks["data"])
        return posts.table_of(_updated(number, cell, posts.posts_in(inbox), kernel, from_driver.value, held))

    if not placed:
        return side.frame.select("block", "data").mapInArrow(without_inbox, posts.SCHEMA)
    inbox = placed[0] if len(placed) == 1 else placed[0].unionByName(placed[1])
    return (
        side.frame.select("block", "data")
        .groupBy("block")
        .cogroup(inbox.repartitionById(n_blocks, "to_block").groupBy("to_block"))
        .applyInArrow(with_inbox, posts.SCHEMA)
    )


def _state_here(side: LocalSide, update: Update) -> Here:
    sums = {**update.sums, _NOT_FINITE: _not_finite(update.rows)}
    state = Here(kept_arrays(sums), read_only(update.rows), kept_arrays(update.memory))
    _require_finite(side, state)
    return state


def _turn_here(side: LocalSide, source: State | None, previous: State | None) -> Turn:
    """Hand a kernel what is in this process; whatever all rows of the source are needed of, it gets as it is."""
    rows, need_at = np.empty((0, 0)) if source is None else _here(source).rows, side.block.need_at
    inbox = rows if source is None or len(need_at) == len(rows) else rows[need_at]
    memory = {} if previous is None else _here(previous).memory
    return Turn(side.block, memory, inbox, {} if source is None else source.sums)


def _updated(
    number: int, cell: Cell, inbox: list[Post], kernel: Kernel, from_driver: FromDriver, held: bool
) -> list[Post]:
    """Run the kernel on one block; what its update has to say, to whom."""
    block = read_block(cell)
    rows = posts.rows_in(inbox)
    if rows is None:
        rows = np.empty((0, 0)) if from_driver.rows is None else from_driver.rows[block.need_at]
    left = (posts.memories_in(inbox) or from_driver.memory).get(number)
    memory = {} if left is None else unpack(left)
    parts = _parts(block, inbox, from_driver) if heavy.has_own(block) else NO_PARTS
    return _posts_of(number, block, kernel(Turn(block, memory, rows, from_driver.source_sums, parts)), held)


def _parts(block: Block, inbox: list[Post], from_driver: FromDriver) -> Arrays:
    return posts.total_of(inbox, Kind.PARTS) or heavy.from_driver(block, from_driver.source_sums)


def _posts_of(number: int, block: Block, update: Update, held: bool) -> list[Post]:
    sums = {**update.sums, _NOT_FINITE: _not_finite(update.rows)}
    if held:
        sums |= heavy.for_driver(update.parts)
    outbox = [posts.sums(number, sums)]
    if heavy.has_own(block):
        outbox.append(posts.heavy(number, block[heavy.SLOT], update.rows[block[heavy.ROW]]))
    if update.memory or not held:
        outbox.append(posts.memory(number, update.memory or {posts.ROWS: update.rows}))
    if held:
        outbox.append(posts.message(None, number, update.rows))
    else:
        outbox += [posts.message(target, number, update.rows[rows]) for target, rows in enumerate(block.routes)]
        outbox += [posts.parts(target, number, of_rows) for target, of_rows in heavy.by_block(block, update.parts)]
    return outbox


def _hold(outbox: list[Post]) -> Held:
    rows = posts.rows_in(outbox)
    memory = {block: bytes(cell) for block, cell in posts.memories_in(outbox).items()}
    return Held(_summed(outbox), np.empty((0, 0)) if rows is None else rows, memory)


def _place(outbox: DataFrame, needs: Needs) -> Placed:
    cached = keep(outbox)
    for_driver = posts.posts_in(posts.of_kind(cached.frame, Kind.SUMS, Kind.HEAVY).toArrow())
    return Placed(_summed(for_driver), cached, needs)


def _summed(outbox: list[Post]) -> dict[str, Array]:
    """Return what the driver gets: the sums over all blocks, and the heavy rows where there are any."""
    sums, rows = posts.total_of(outbox), posts.heavy_in(outbox)
    return sums if rows is None else {**sums, heavy.ROWS: rows}


def _not_finite(rows: Array) -> Array:
    return np.array(float((~np.isfinite(rows).all(axis=1)).sum()))


def _require_finite(side: AnySide, state: State) -> None:
    bad = int(state.sums[_NOT_FINITE])
    if bad:
        state.release()
        raise FitError(
            f"{bad} of {side.n_rows} {side.name} factors are NaN or infinite after an update: look for extreme "
            "ratings or weights (alpha), or raise the regularisation (regParam)"
        )
