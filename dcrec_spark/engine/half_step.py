"""The one distributed loop body: destination rows updated from the source rows that they touch.

    kernel(Turn(block, memory, inbox, source_sums)) -> Update(rows, sums, memory)

A model supplies the kernel, a pure function of arrays; this module brings each block its inbox and takes the result
to where the next half-step finds it. A side's result is *held* by the driver and broadcast where it is small,
else *placed*: it stays on the cluster, and each row travels once to each block that needs it. Either way a block
gets the same inbox.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.blocks import AnySide, LocalSide, Side, place_blocks
from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.errors import FitError
from dcrec_spark.spark.lineage import Checkpoint, Kept, broadcast, checkpoint, keep
from dcrec_spark.spark.worker import forget_zip_importers

Arrays = Mapping[str, Array]
Needs = frozenset[Broadcast[Any] | Checkpoint]
SomeSide = TypeVar("SomeSide", bound=AnySide)

OUTBOX = "to_block int, from_block int, kind string, data binary"
_POSTS = [("to_block", pa.int32()), ("from_block", pa.int32()), ("kind", pa.string()), ("data", pa.binary())]
MEMORY, MESSAGE, SUMS = "memory", "message", "sums"
EVERYONE = -1


class Turn(NamedTuple):
    """What a kernel gets to work on.

    block : the arrays of the block; see :mod:`dcrec_spark.engine.blocks`.
    memory : what the kernel left for this block at its last turn; empty at the first.
    inbox : (rows that the block needs, width) of the source; ``block["col"]`` points into it.
    source_sums : the source's sums over all of its blocks.
    """

    block: Arrays
    memory: Arrays
    inbox: Array
    source_sums: Arrays


class Update(NamedTuple):
    """What a kernel makes of one block.

    rows : (rows of the block, width) what the blocks of the other side may ask for.
    sums : added up over the blocks of the side, in the order of the blocks.
    memory : what the block gets back at its next turn; empty where the rows say all.
    """

    rows: Array
    sums: Arrays
    memory: Arrays


Kernel = Callable[[Turn], Update]


@dataclass(frozen=True)
class Held:
    """A side's result on the driver: ``rows`` of all blocks, one after the other."""

    sums: Arrays
    rows: Array
    memory: Mapping[int, bytes]
    needs: ClassVar[Needs] = frozenset()

    def release(self) -> None:
        """Does nothing: no part of it is kept on the cluster."""


@dataclass(frozen=True)
class Placed:
    """A side's result on the cluster: the messages and memories of its blocks.

    needs : what a recomputation would read.
    """

    sums: Arrays
    outbox: Kept
    needs: Needs = frozenset()

    def release(self) -> None:
        """Let go of what is cached on the cluster."""
        self.outbox.release()


State = Held | Placed


def end_lineage(*states: State) -> list[State]:
    """The same states from a checkpoint on: what is lost later is recomputed from here, and needs no more than that."""
    return [_ended(state) for state in states]


def _ended(state: State) -> State:
    if isinstance(state, Held):
        return state
    end = checkpoint(state.outbox)
    state.release()
    return Placed(state.sums, Kept(end.frame, end.frame), frozenset([end]))


def needed_by(states: Iterable[State]) -> Needs:
    """All that a recomputation of these would read."""
    return frozenset().union(*(state.needs for state in states))


def destroy(needs: Needs) -> None:
    """For good, on the driver as well."""
    for need in needs:
        need.destroy()


@contextmanager
def _destroyed_on_failure(box: Broadcast[Any]) -> Iterator[Broadcast[Any]]:
    try:
        yield box
    except BaseException:
        box.destroy()
        raise


def half_step(side: AnySide, kernel: Kernel, source: State | None = None, own: State | None = None) -> State:
    """Update every row of ``side``: one Spark job, and one exchange where a placed result is read.

    A side that is in this process is updated here, by the same kernel, without Spark.

    Parameters
    ----------
    source : the other side's result, the kernel's inbox; None where the kernel needs none.
    own : this side's last result, where the kernel remembers.

    Raises
    ------
    FitError : a row is no longer finite; names the side and how many.
    """
    if isinstance(side, LocalSide):
        state: State = _hold(_local_posts(side, kernel, source, own))
        _require_finite(side, state)
        return state
    with _destroyed_on_failure(broadcast(side.frame.sparkSession, _held(source, own))) as box:
        outbox = _outbox(side, kernel, box, source, own)
        if side.held:
            state = _hold(outbox.toArrow())
        else:
            state = _place(outbox, needed_by(state for state in (source, own) if state) | {box})
        _require_finite(side, state)
    destroy(frozenset([box]) - state.needs)
    return state


def rebuild(side: SomeSide, kernel: Kernel, source: State, own: State) -> SomeSide:
    """The side with new block contents: each block becomes the memory that ``kernel`` returns for it.

    The new blocks are there when this returns, so that the old ones can be let go.
    """
    if isinstance(side, LocalSide):
        posts = _local_posts(side, kernel, source, own)
        at = pc.index(posts["kind"], MEMORY).as_py()
        return LocalSide(side.name, side.n_rows, posts["data"][at])  # type: ignore[return-value]  # of this very kind
    with _destroyed_on_failure(broadcast(side.frame.sparkSession, _held(source, own))) as box:
        outbox = _outbox(replace(side, held=False), kernel, box, source, own)
        contents = outbox.where(F.col("kind") == MEMORY).select(F.col("to_block").alias("block"), "data")
        rebuilt = replace(side, frame=place_blocks(contents, side.n_blocks))
        rebuilt.frame.count()
    return rebuilt


def memories(side: Side, state: State) -> DataFrame:
    """``block int, data binary``: what a side knows at the end, the memory of each block or, without one, its rows."""
    if isinstance(state, Placed):
        chosen = state.outbox.frame.where(F.col("kind") == MEMORY)
        return chosen.select(F.col("to_block").alias("block"), "data")
    cells = state.memory or {b: pack({"rows": state.rows[side.places_of(b)]}) for b in range(side.n_blocks)}
    table = pa.table({"block": pa.array(cells.keys(), pa.int32()), "data": pa.array(cells.values(), pa.binary())})
    return side.frame.sparkSession.createDataFrame(table)


def _held(source: State | None, own: State | None) -> dict[str, Any]:
    """What travels by broadcast."""
    return {
        "source_sums": dict(source.sums) if source else {},
        "rows": source.rows if isinstance(source, Held) else None,
        "memory": own.memory if isinstance(own, Held) else {},
    }


def _local_posts(side: LocalSide, kernel: Kernel, source: State | None, own: State | None) -> pa.Table:
    return _update_block(0, side.data, [], kernel, _held(source, own), everyone=True)


def _outbox(side: Side, kernel: Kernel, box: Any, source: State | None, own: State | None) -> DataFrame:
    placed = [
        s.outbox.frame.where(F.col("kind") == kind)
        for s, kind in ((source, MESSAGE), (own, MEMORY))
        if isinstance(s, Placed)
    ]
    n_blocks, everyone = side.n_blocks, side.held

    def without_inbox(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zip_importers()
        for batch in batches:
            for block, data in zip(batch["block"].to_pylist(), batch["data"], strict=True):
                yield from _update_block(block, data, [], kernel, box.value, everyone).to_batches()

    def with_inbox(blocks: pa.Table, inbox: pa.Table) -> pa.Table:
        forget_zip_importers()
        if not blocks.num_rows:  # a message of no rows, to a block that has none
            return pa.schema(_POSTS).empty_table()
        inbox = inbox.sort_by("from_block").select(["kind", "data"]).to_pylist() if inbox.num_rows else []
        return _update_block(blocks["block"][0].as_py(), blocks["data"][0], inbox, kernel, box.value, everyone)

    if not placed:
        return side.frame.select("block", "data").mapInArrow(without_inbox, OUTBOX)
    inbox = placed[0] if len(placed) == 1 else placed[0].unionByName(placed[1])
    return (
        side.frame.select("block", "data")
        .groupBy("block")
        .cogroup(inbox.repartitionById(n_blocks, "to_block").groupBy("to_block"))
        .applyInArrow(with_inbox, OUTBOX)
    )


def _update_block(
    block: int, data: pa.BinaryScalar, inbox: list[dict[str, Any]], kernel: Kernel, held: Any, everyone: bool
) -> pa.Table:
    arrays = unpack(data.as_buffer())
    messages = [unpack(m["data"])["rows"] for m in inbox if m["kind"] == MESSAGE]
    memories = [m["data"] for m in inbox if m["kind"] == MEMORY] or [held["memory"].get(block)]
    if messages:
        rows = np.concatenate(messages)
    elif held["rows"] is not None:
        rows = held["rows"][arrays["need_at"]]
    else:
        rows = np.empty((0, 0))
    memory = unpack(memories[0]) if memories[0] is not None else {}
    update = kernel(Turn(arrays, memory, rows, held["source_sums"]))
    return _post(block, arrays, update, everyone)


def _post(block: int, arrays: Arrays, update: Update, everyone: bool) -> pa.Table:
    """The rows of the outbox: sums for the driver, memory for the block itself, messages for the other side."""
    finite = np.isfinite(update.rows).all(axis=1)
    sums = {**update.sums, "rows_not_finite": np.array(float((~finite).sum()))}
    posts = [(EVERYONE, SUMS, pack(sums))]
    if update.memory or not everyone:
        posts.append((block, MEMORY, pack(update.memory or {"rows": update.rows})))
    if everyone:
        posts.append((EVERYONE, MESSAGE, pack({"rows": update.rows})))
    else:
        pointer = arrays["route_ptr"].astype(int)
        for target in range(len(pointer) - 1):
            rows = update.rows[arrays["route_pos"][pointer[target] : pointer[target + 1]]]
            posts.append((target, MESSAGE, pack({"rows": rows})))
    to_block, kind, data = zip(*posts, strict=True)
    return pa.table([to_block, [block] * len(posts), kind, data], schema=pa.schema(_POSTS))


def _hold(outbox: pa.Table) -> Held:
    posts = outbox.sort_by("from_block").to_pylist()
    rows = [unpack(p["data"])["rows"] for p in posts if p["kind"] == MESSAGE]
    memory = {p["from_block"]: p["data"] for p in posts if p["kind"] == MEMORY}
    return Held(_total(posts), np.concatenate(rows), memory)


def _place(outbox: DataFrame, needs: Needs) -> Placed:
    kept = keep(outbox)
    posts = kept.frame.where(F.col("kind") == SUMS).toArrow().sort_by("from_block").to_pylist()
    return Placed(_total(posts), kept, needs)


def _total(posts: list[dict[str, Any]]) -> dict[str, Array]:
    totals: dict[str, Any] = {}
    for post in posts:
        if post["kind"] == SUMS:
            for name, part in unpack(post["data"]).items():
                totals[name] = totals[name] + part if name in totals else part
    return totals


def _require_finite(side: AnySide, state: State) -> None:
    bad = int(state.sums["rows_not_finite"])
    if bad:
        state.release()
        raise FitError(
            f"{bad} of {side.n_rows} {side.name} factors are NaN or infinite after an update: look for extreme "
            "ratings or weights (alpha), or raise the regularisation"
        )
