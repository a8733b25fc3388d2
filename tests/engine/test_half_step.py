"""The distributed half-step: the numbers of a dense loop, wherever results lie, at the price of one job."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine import half_step as engine
from dcrec_spark.engine.ascent import LiveStates
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.half_step import Held, Placed, State, end_lineage, half_step, memories, rebuild
from dcrec_spark.errors import FitError
from tests.engine.toy_kernels import key_rows, remember, spoil_one, sum_neighbours
from tests.engine.toy_sides import N_ITEMS, N_USERS, dense_start, dense_sums, neighbours, rows_of, table, toy_sides
from tests.sides import Layout, Sides

PLACES = [(True, True), (True, False), (False, True), (False, False)]
LAYOUTS = [Layout(1, 1, *PLACES[3]), *(Layout(2, 3, *held) for held in PLACES), Layout(5, 3, *PLACES[3])]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)
by_place = pytest.mark.parametrize("held", [True, False], ids=["held", "placed"])

ToySides = Callable[[Layout], Sides]


@pytest.fixture(scope="module")
def toy(spark: SparkSession) -> Iterator[ToySides]:
    """Sides laid out as asked; those of equal numbers of blocks share them, whoever holds their results."""
    with ExitStack() as stack:
        built: dict[tuple[int, int], Sides] = {}

        def laid_out(layout: Layout) -> Sides:
            blocks = layout[:2]
            if blocks not in built:
                built[blocks] = stack.enter_context(toy_sides(spark, layout))
            users, items, *keys = built[blocks]
            return Sides(replace(users, held=layout.users_held), replace(items, held=layout.items_held), *keys)

        yield laid_out


@layouts
def test_three_half_steps_are_those_of_a_dense_loop(toy: ToySides, layout: Layout) -> None:
    """Items, users, items: exactly the same whole numbers, row by row and in the sums over all blocks."""
    sides = toy(layout)
    items = half_step(sides.items, key_rows)
    users = half_step(sides.users, neighbours, items)
    later = half_step(sides.items, neighbours, users)
    expected = dense_start(sides.item_keys)
    np.testing.assert_array_equal(items.sums["total"], expected.sum(axis=0))
    assert items.sums["rows"] == N_ITEMS
    assert isinstance(items, Held if layout.items_held else Placed)
    np.testing.assert_array_equal(rows_of(sides.items, items), expected)

    expected = dense_sums(table(), expected)
    np.testing.assert_array_equal(rows_of(sides.users, users), expected)
    np.testing.assert_array_equal(users.sums["total"], expected.sum(axis=0))
    # A kernel gets the source's sums over all of its rows, whatever it touches.
    share = layout.user_blocks / (layout.item_blocks + 1)
    np.testing.assert_allclose(users.sums["source"], items.sums["total"] * share, rtol=1e-14)

    expected = dense_sums(table().T, expected)
    np.testing.assert_array_equal(rows_of(sides.items, later), expected)
    np.testing.assert_array_equal(later.sums["total"], expected.sum(axis=0))


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["held", "placed"])
def test_more_blocks_than_rows_change_nothing(toy: ToySides, held: tuple[bool, bool]) -> None:
    """Blocks without a row do not exist; nothing is sent to them, and nothing expected of them."""
    sides = toy(Layout(N_USERS + 2, N_ITEMS + 1, *held))
    users = half_step(sides.users, neighbours, half_step(sides.items, key_rows))
    items = half_step(sides.items, neighbours, users)
    expected = dense_sums(table(), dense_start(sides.item_keys))
    np.testing.assert_array_equal(rows_of(sides.users, users), expected)
    np.testing.assert_array_equal(rows_of(sides.items, items), dense_sums(table().T, expected))


@by_place
def test_memory_comes_back_to_the_block_that_left_it(toy: ToySides, held: bool) -> None:
    sides = toy(Layout(2, 3, held, held))
    items = half_step(sides.items, key_rows)
    users = None
    for _ in range(3):
        users = half_step(sides.users, remember, items, users)
        assert users.sums["strangers"] == 0
    left = {row.block: unpack(row.data) for row in memories(sides.users, users).collect()}
    assert sorted(left) == [0, 1]
    for block, memory in left.items():
        assert memory["turn"] == 3
        np.testing.assert_array_equal(memory["mark"], sides.user_keys[block::2])


@by_place
def test_memory_comes_back_without_a_source_too(toy: ToySides, held: bool) -> None:
    sides = toy(Layout(2, 3, held, held))
    second = half_step(sides.users, remember, previous=half_step(sides.users, remember))
    assert [unpack(row.data)["turn"] for row in memories(sides.users, second).collect()] == [2, 2]
    assert second.sums["strangers"] == 0


def left_by(session: SparkSession) -> tuple[int, int]:
    """Broadcasts on the driver's disk, and reliable checkpoints."""
    context = session.sparkContext
    directory = Path(str(context.getCheckpointDir()).removeprefix("file:"))
    return len(list(Path(context._temp_dir).iterdir())), len(list(directory.glob("rdd-*")))


@pytest.mark.parametrize("users_held", [True, False], ids=["held-users", "placed-users"])
def test_with_a_state_goes_what_only_it_was_made_from(spark: SparkSession, toy: ToySides, users_held: bool) -> None:
    """A checkpoint is the same state, and needs nothing of what was before it."""
    sides = toy(Layout(2, 3, users_held, False))
    broadcasts, checkpoints = left_by(spark)
    with LiveStates() as live:
        items = live.add(half_step(sides.items, key_rows))
        users = live.add(half_step(sides.users, neighbours, items))
        later = live.add(half_step(sides.items, neighbours, users))
        live.keep_only([later])
        needed = {need for need in later.needs if isinstance(need, Broadcast)}
        assert len(needed) == (1 if users_held else 3)
        assert left_by(spark) == (broadcasts + len(needed), checkpoints)
        (ended,) = end_lineage(later)
        live.add(ended)
        live.keep_only([ended])
        assert left_by(spark) == (broadcasts, checkpoints + 1)
        expected = dense_sums(table().T, dense_sums(table(), dense_start(sides.item_keys)))
        np.testing.assert_array_equal(rows_of(sides.items, ended), expected)
        users = live.add(half_step(sides.users, neighbours, ended))
        np.testing.assert_array_equal(rows_of(sides.users, users), dense_sums(table(), expected))
        (last,) = end_lineage(half_step(sides.items, neighbours, users))
        live.add(last)
        live.keep_only([last])
        assert left_by(spark)[1] == checkpoints + 1
    assert left_by(spark)[1] == checkpoints


@pytest.mark.parametrize(("held", "entry"), [(True, np.nan), (False, np.inf)], ids=["held-nan", "placed-infinity"])
def test_a_row_that_is_not_finite_ends_the_fit_and_leaves_nothing(
    spark: SparkSession, toy: ToySides, held: bool, entry: float
) -> None:
    sides = toy(Layout(2, 3, held, held))
    sides.users.frame.count()  # which caches it
    before, cached = left_by(spark), len(spark.sparkContext._jsc.getPersistentRDDs())
    with pytest.raises(FitError, match=r"1 of 7 user factors are NaN or infinite"):
        half_step(sides.users, partial(spoil_one, key=int(sides.user_keys[4]), entry=entry))
    assert left_by(spark) == before
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == cached


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["held", "placed"])
def test_a_rebuilt_side_holds_what_its_kernel_remembered(toy: ToySides, held: tuple[bool, bool]) -> None:
    """In place of its old blocks, one block in each partition as before."""
    sides = toy(Layout(2, 3, *held))
    items, users = half_step(sides.items, key_rows), half_step(sides.users, remember)
    rebuilt = rebuild(sides.users, remember, items, users)
    turns = {row.block: int(unpack(row.data)["turn"]) for row in rebuilt.frame.collect()}
    assert turns == {0: 2, 1: 2}
    assert rebuilt.frame.rdd.glom().map(len).collect() == [1, 1]
    assert (rebuilt.n_rows, rebuilt.n_blocks, rebuilt.held) == (N_USERS, 2, held[0])
    rebuilt.release()


def test_an_error_in_a_kernel_reaches_the_driver(toy: ToySides) -> None:
    sides = toy(Layout(2, 3, False, False))
    items = half_step(sides.items, key_rows)
    with pytest.raises(Exception, match="shift"):  # Spark wraps it; the missing name is what helps
        half_step(sides.users, sum_neighbours, items)


# What a half-step costs


class Cost:
    """Jobs and exchanges of a half-step, as Spark counted and planned them."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spark, self._plans = spark, []
        outbox = engine._outbox

        def noted(*args: Any) -> DataFrame:
            frame = outbox(*args)
            self._plans.append(frame)
            return frame

        monkeypatch.setattr(engine, "_outbox", noted)

    def of(self, name: str, step: Callable[[], State]) -> tuple[State, int, int, int]:
        """The step's result, its jobs, its exchanges, and the length of its logical plan."""
        context = self._spark.sparkContext
        context.setJobGroup(name, name)
        state = step()
        context._jsc.sc().listenerBus().waitUntilEmpty()
        jobs = context.statusTracker().getJobIdsForGroup(name)
        execution = self._plans[-1]._jdf.queryExecution()
        plan = re.sub(r"\d+", "", execution.optimizedPlan().toString())
        return state, len(jobs), exchanges(execution.executedPlan()), len(plan)


def exchanges(node: Any) -> int:
    """Shuffles of a plan as it ran; a result that is kept ran as the plan of its cache, found at the root."""
    if node.nodeName().startswith("InMemoryTableScan"):
        node = node.relation().cachedPlan()
    return _exchanges(node)


def _exchanges(node: Any) -> int:
    """Not those inside the caches that a plan reads: they ran before."""
    assert node.nodeName() != "AdaptiveSparkPlan"  # it would hide what is below it, and move blocks
    below = sum(_exchanges(node.children().apply(i)) for i in range(node.children().size()))
    return below + (node.nodeName() == "Exchange")


@pytest.mark.parametrize("held", PLACES, ids=["both-held", "users-held", "items-held", "both-placed"])
def test_a_half_step_is_one_job_and_moves_only_messages(
    spark: SparkSession, toy: ToySides, held: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One exchange where a placed result is read, none where all is held; the blocks stay where they are."""
    users_held, items_held = held
    cost = Cost(spark, monkeypatch)
    sides = toy(Layout(2, 3, *held))
    sides.users.frame.count()
    sides.items.frame.count()
    items, jobs, moved, _ = cost.of(f"start {held}", lambda: half_step(sides.items, key_rows))
    assert (jobs, moved) == (1, 0)
    users, jobs, moved, _ = cost.of(f"source {held}", lambda: half_step(sides.users, neighbours, items))
    assert (jobs, moved) == (1, 0 if items_held else 1)
    users = half_step(sides.users, remember, items)
    _, jobs, moved, _ = cost.of(f"source and memory {held}", lambda: half_step(sides.users, remember, items, users))
    assert (jobs, moved) == (1, 0 if items_held and users_held else 1)


def test_blocks_are_not_moved_after_a_rebuild(
    spark: SparkSession, toy: ToySides, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = Cost(spark, monkeypatch)
    sides = toy(Layout(2, 3, False, False))
    items, users = half_step(sides.items, key_rows), half_step(sides.users, remember)
    rebuilt = rebuild(sides.users, keep_block, items, users)
    rebuilt.frame.count()
    _, jobs, moved, _ = cost.of("rebuilt", lambda: half_step(rebuilt, neighbours, items))
    assert (jobs, moved) == (1, 1)
    rebuilt.release()


def keep_block(turn: engine.Turn) -> engine.Update:
    return engine.Update(np.empty((len(turn.block["row_key"]), 0)), {}, turn.block)


@by_place
def test_plans_do_not_grow_with_the_iterations(
    spark: SparkSession, toy: ToySides, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that named its predecessors would double with each half-step."""
    cost = Cost(spark, monkeypatch)
    sides = toy(Layout(2, 3, held, held))
    users, items = half_step(sides.users, remember), half_step(sides.items, remember)
    lengths = []
    for turn in range(1, 6):
        before = users, items
        users = half_step(sides.users, remember, items, users)
        items, _, moved, length = cost.of(f"turn {turn} {held}", turn_of(sides, users, items))
        assert moved == (0 if held else 1)
        lengths.append(length)
        for state in before:
            state.release()
    assert lengths[4] == lengths[1]


def turn_of(sides: Sides, users: State, items: State) -> Callable[[], State]:
    return lambda: half_step(sides.items, remember, users, items)
