"""The distributed half-step: the numbers of a dense loop, wherever results lie, at the price of one job."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine import half_step as engine
from dcrec_spark.engine.ascent import Owned
from dcrec_spark.engine.blocks import Side
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.half_step import Held, Placed, State, end_lineage, half_step, memories, rebuild
from dcrec_spark.errors import FitError
from tests.engine.toy_kernels import key_rows, remember, spoil_one, sum_neighbours
from tests.reference.poisson import Array
from tests.sides import Layout, Sides, sides_of

N_USERS, N_ITEMS = 7, 6
neighbours = partial(sum_neighbours, shift=3.0)
PLACES = [(True, True), (True, False), (False, True), (False, False)]
LAYOUTS = [Layout(1, 1, *PLACES[3]), *(Layout(2, 3, *held) for held in PLACES), Layout(5, 3, *PLACES[3])]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)
kept = pytest.mark.parametrize("held", [True, False], ids=["held", "placed"])


def table() -> Array:
    """Whole numbers; user 0 and the last item have none."""
    rng = np.random.default_rng(11)
    values = rng.integers(1, 6, (N_USERS, N_ITEMS)) * (rng.random((N_USERS, N_ITEMS)) < 0.5)
    values[0], values[:, -1] = 0, 0
    return values.astype(np.float64)


def toy_sides(spark: SparkSession, layout: Layout) -> Any:
    return sides_of(spark, table() > 0, {"value": table()}, layout)


def rows_of(side: Side, state: State) -> Array:
    """All rows in the order of their indices."""
    rows = np.empty((side.n_rows, 2))
    for row in memories(side, state).collect():
        rows[row.block :: side.n_blocks] = unpack(row.data)["rows"]
    return rows


def dense_start(keys: Array) -> Array:
    return np.column_stack([keys % 1009, keys % 31]).astype(np.float64)


@layouts
def test_three_half_steps_are_those_of_a_dense_loop(spark: SparkSession, layout: Layout) -> None:
    """Items, users, items: exactly the same whole numbers, row by row and in the sums over all blocks."""
    with toy_sides(spark, layout) as sides:
        items = half_step(sides.items, key_rows)
        users = half_step(sides.users, neighbours, items)
        again = half_step(sides.items, neighbours, users)
        expected = dense_start(sides.item_keys)
        np.testing.assert_array_equal(items.sums["total"], expected.sum(axis=0))
        assert items.sums["rows"] == N_ITEMS
        assert isinstance(items, Held if layout.items_held else Placed)
        np.testing.assert_array_equal(rows_of(sides.items, items), expected)

        expected = (3 + table() @ expected) % 10_007
        np.testing.assert_array_equal(rows_of(sides.users, users), expected)
        np.testing.assert_array_equal(users.sums["total"], expected.sum(axis=0))
        # What a kernel is told of the source: sums over all of its rows, whatever it touches.
        share = layout.user_blocks / (layout.item_blocks + 1)
        np.testing.assert_allclose(users.sums["source"], items.sums["total"] * share, rtol=1e-14)

        expected = (3 + table().T @ expected) % 10_007
        np.testing.assert_array_equal(rows_of(sides.items, again), expected)
        np.testing.assert_array_equal(again.sums["total"], expected.sum(axis=0))


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["held", "placed"])
def test_more_blocks_than_rows_change_nothing(spark: SparkSession, held: tuple[bool, bool]) -> None:
    """Blocks without a row do not exist; nothing is sent to them, and nothing expected of them."""
    with toy_sides(spark, Layout(N_USERS + 2, N_ITEMS + 1, *held)) as sides:
        items = half_step(sides.items, key_rows)
        users = half_step(sides.users, neighbours, items)
        again = half_step(sides.items, neighbours, users)
        expected = (3 + table() @ dense_start(sides.item_keys)) % 10_007
        np.testing.assert_array_equal(rows_of(sides.users, users), expected)
        np.testing.assert_array_equal(rows_of(sides.items, again), (3 + table().T @ expected) % 10_007)


@kept
def test_memory_comes_back_to_the_block_that_left_it(spark: SparkSession, held: bool) -> None:
    with toy_sides(spark, Layout(3, 2, held, held)) as sides:
        items = half_step(sides.items, key_rows)
        users = None
        for _ in range(3):
            users = half_step(sides.users, remember, items, users)
            assert users.sums["strangers"] == 0
        told = {row.block: unpack(row.data) for row in memories(sides.users, users).collect()}
        assert sorted(told) == [0, 1, 2]
        for block, memory in told.items():
            assert memory["turn"] == 3
            np.testing.assert_array_equal(memory["mark"], sides.user_keys[block::3])


@kept
def test_memory_comes_back_without_a_source_too(spark: SparkSession, held: bool) -> None:
    with toy_sides(spark, Layout(2, 2, held, held)) as sides:
        first = half_step(sides.users, remember)
        second = half_step(sides.users, remember, previous=first)
        memory = [unpack(row.data)["turn"] for row in memories(sides.users, second).collect()]
        assert memory == [2, 2]
        assert second.sums["strangers"] == 0


def test_a_checkpoint_is_the_same_state(spark: SparkSession) -> None:
    with toy_sides(spark, Layout(2, 3, False, False)) as sides:
        (items,) = end_lineage(half_step(sides.items, key_rows))
        users = half_step(sides.users, neighbours, items)
        expected = (3 + table() @ dense_start(sides.item_keys)) % 10_007
        np.testing.assert_array_equal(rows_of(sides.users, users), expected)


def left_by(session: SparkSession) -> tuple[int, int]:
    """Broadcasts on the driver's disk, and reliable checkpoints."""
    context = session.sparkContext
    directory = Path(str(context.getCheckpointDir()).removeprefix("file:"))
    return len(list(Path(context._temp_dir).iterdir())), len(list(directory.glob("rdd-*")))


@pytest.mark.parametrize("users_held", [True, False], ids=["held-users", "placed-users"])
def test_with_a_state_goes_what_only_it_was_made_from(spark: SparkSession, users_held: bool) -> None:
    with toy_sides(spark, Layout(2, 3, users_held, False)) as sides:
        before = left_by(spark)
        with Owned() as owned:
            items = owned.add(half_step(sides.items, key_rows))
            users = owned.add(half_step(sides.users, neighbours, items))
            again = owned.add(half_step(sides.items, neighbours, users))
            owned.keep_only([again])
            boxes = {need for need in again.needs if isinstance(need, Broadcast)}
            assert len(boxes) == (1 if users_held else 3)
            assert left_by(spark) == (before[0] + len(boxes), before[1])
            (ended,) = end_lineage(again)
            owned.add(ended)
            owned.keep_only([ended])
            assert left_by(spark) == (before[0], before[1] + 1)
            expected = (3 + table() @ dense_start(sides.item_keys)) % 10_007
            np.testing.assert_array_equal(rows_of(sides.items, ended), (3 + table().T @ expected) % 10_007)
            users = owned.add(half_step(sides.users, neighbours, ended))
            (later,) = end_lineage(half_step(sides.items, neighbours, users))
            owned.add(later)
            owned.keep_only([later])
            assert left_by(spark)[1] == before[1] + 1
        assert left_by(spark)[1] == before[1]


@kept
def test_a_half_step_that_fails_leaves_nothing(spark: SparkSession, held: bool) -> None:
    with toy_sides(spark, Layout(2, 2, held, held)) as sides:
        sides.users.frame.count()  # which caches it
        before, cached = left_by(spark), len(spark.sparkContext._jsc.getPersistentRDDs())
        with pytest.raises(FitError):
            half_step(sides.users, partial(spoil_one, key=int(sides.user_keys[4]), entry=np.nan))
        assert left_by(spark) == before
        assert len(spark.sparkContext._jsc.getPersistentRDDs()) == cached


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["held", "placed"])
def test_a_rebuilt_side_holds_what_its_kernel_remembered(spark: SparkSession, held: tuple[bool, bool]) -> None:
    """In place of its old blocks, one block in each partition as before."""
    with toy_sides(spark, Layout(2, 3, *held)) as sides:
        items, users = half_step(sides.items, key_rows), half_step(sides.users, remember)
        new = rebuild(sides.users, remember, items, users)
        found = {row.block: unpack(row.data) for row in new.frame.collect()}
        assert {block: int(arrays["turn"]) for block, arrays in found.items()} == {0: 2, 1: 2}
        assert new.frame.rdd.glom().map(len).collect() == [1, 1]
        assert (new.n_rows, new.n_blocks, new.held) == (N_USERS, 2, held[0])
        new.release()


@kept
@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_row_that_is_not_finite_ends_the_fit(spark: SparkSession, held: bool, entry: float) -> None:
    with toy_sides(spark, Layout(2, 2, held, held)) as sides:
        spoil = partial(spoil_one, key=int(sides.user_keys[4]), entry=entry)
        with pytest.raises(FitError, match=r"1 of 7 user factors are NaN or infinite"):
            half_step(sides.users, spoil)


def test_an_error_in_a_kernel_reaches_the_driver(spark: SparkSession) -> None:
    with (
        toy_sides(spark, Layout(2, 2, False, False)) as sides,
        pytest.raises(Exception, match="shift"),  # Spark wraps it; the missing name is what helps
    ):
        half_step(sides.users, sum_neighbours, half_step(sides.items, key_rows))


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
    spark: SparkSession, held: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One exchange where a placed result is read, none where all is held; the blocks stay where they are."""
    users_held, items_held = held
    cost = Cost(spark, monkeypatch)
    with toy_sides(spark, Layout(2, 3, *held)) as sides:
        sides.users.frame.count()
        sides.items.frame.count()
        items, jobs, moved, _ = cost.of(f"start {held}", lambda: half_step(sides.items, key_rows))
        assert (jobs, moved) == (1, 0)
        users, jobs, moved, _ = cost.of(f"source {held}", lambda: half_step(sides.users, neighbours, items))
        assert (jobs, moved) == (1, 0 if items_held else 1)
        users = half_step(sides.users, remember, items)
        _, jobs, moved, _ = cost.of(f"source and memory {held}", lambda: half_step(sides.users, remember, items, users))
        assert (jobs, moved) == (1, 0 if items_held and users_held else 1)


def test_blocks_are_not_moved_again_after_a_rebuild(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Cost(spark, monkeypatch)
    with toy_sides(spark, Layout(2, 3, False, False)) as sides:
        items, users = half_step(sides.items, key_rows), half_step(sides.users, remember)
        new = rebuild(sides.users, keep_block, items, users)
        new.frame.count()
        _, jobs, moved, _ = cost.of("rebuilt", lambda: half_step(new, neighbours, items))
        assert (jobs, moved) == (1, 1)
        new.release()


def keep_block(turn: engine.Turn) -> engine.Update:
    return engine.Update(np.empty((len(turn.block["row_key"]), 0)), {}, turn.block)


@kept
def test_plans_do_not_grow_with_the_iterations(
    spark: SparkSession, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that named its predecessors would double with each half-step."""
    cost = Cost(spark, monkeypatch)
    with toy_sides(spark, Layout(2, 2, held, held)) as sides:
        users, items = half_step(sides.users, remember), half_step(sides.items, remember)
        lengths = []
        for turn in range(1, 9):
            before = users, items
            users = half_step(sides.users, remember, items, users)
            items, _, moved, length = cost.of(f"turn {turn} {held}", turn_of(sides, users, items))
            assert moved == (0 if held else 1)
            lengths.append(length)
            for state in before:
                state.release()
        assert lengths[7] == lengths[1]


def turn_of(sides: Sides, users: State, items: State) -> Callable[[], State]:
    return lambda: half_step(sides.items, remember, users, items)
