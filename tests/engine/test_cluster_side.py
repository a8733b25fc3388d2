"""Half-steps on Spark: those of a dense loop, in one job each, whether results are broadcast or stay on the cluster."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine.ascent import LiveStates
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.errors import FitError
from tests.engine.toy_kernels import key_rows, remember, spoil_one, sum_neighbours
from tests.engine.toy_sides import N_ITEMS, N_USERS, dense_start, dense_sums, neighbours, rows_of, table, toy_sides
from tests.sides import Layout, Sides

PLACES = [(True, True), (True, False), (False, True), (False, False)]
LAYOUTS = [Layout(2, 3, *held) for held in PLACES]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)
by_place = pytest.mark.parametrize("held", [True, False], ids=["broadcast", "blocks"])

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
            return built[blocks].broadcasting(layout)

        yield laid_out


@layouts
def test_half_steps_equal_a_dense_loop(toy: ToySides, layout: Layout) -> None:
    """Items, users, items: exactly the same whole numbers, row by row and in the sums over all blocks."""
    sides = toy(layout)
    items = sides.items.half_step(key_rows)
    users = sides.users.half_step(neighbours, items)
    later = sides.items.half_step(neighbours, users)
    expected = dense_start(sides.item_keys)
    np.testing.assert_array_equal(items.sums["total"], expected.sum(axis=0))
    assert items.sums["rows"] == N_ITEMS
    assert (items.outbox is None) == layout.items_broadcast
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


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["broadcast", "blocks"])
def test_more_blocks_than_rows_change_nothing(toy: ToySides, held: tuple[bool, bool]) -> None:
    """Blocks without a row do not exist; nothing is sent to them, and nothing expected of them."""
    sides = toy(Layout(N_USERS + 2, N_ITEMS + 1, *held))
    users = sides.users.half_step(neighbours, sides.items.half_step(key_rows))
    items = sides.items.half_step(neighbours, users)
    expected = dense_sums(table(), dense_start(sides.item_keys))
    np.testing.assert_array_equal(rows_of(sides.users, users), expected)
    np.testing.assert_array_equal(rows_of(sides.items, items), dense_sums(table().T, expected))


@by_place
def test_memory_returns_to_its_block(toy: ToySides, held: bool) -> None:
    sides = toy(Layout(2, 3, held, held))
    items = sides.items.half_step(key_rows)
    users = None
    for _ in range(3):
        users = sides.users.half_step(remember, items, users)
        assert users.sums["strangers"] == 0
    left = {row.block: unpack(row.data) for row in sides.users.memories(users).collect()}
    assert sorted(left) == [0, 1]
    for block, memory in left.items():
        assert memory["step"] == 3
        np.testing.assert_array_equal(memory["mark"], sides.user_keys[block::2])


@by_place
def test_memory_returns_without_a_source(toy: ToySides, held: bool) -> None:
    sides = toy(Layout(2, 3, held, held))
    second = sides.users.half_step(remember, previous=sides.users.half_step(remember))
    assert [unpack(row.data)["step"] for row in sides.users.memories(second).collect()] == [2, 2]
    assert second.sums["strangers"] == 0


def files_of(session: SparkSession) -> tuple[int, int]:
    """Broadcasts on the driver's disk, and reliable checkpoints."""
    context = session.sparkContext
    directory = Path(str(context.getCheckpointDir()).removeprefix("file:"))
    return len(list(Path(context._temp_dir).iterdir())), len(list(directory.glob("rdd-*")))


@pytest.mark.parametrize("users_held", [True, False], ids=["broadcast-users", "blocks"])
def test_released_state_takes_its_own_data_along(spark: SparkSession, toy: ToySides, users_held: bool) -> None:
    """A checkpoint is the same state, and needs nothing of what was before it."""
    sides = toy(Layout(2, 3, users_held, False))
    broadcasts, checkpoints = files_of(spark)
    with LiveStates() as live:
        items = live.add(sides.items.half_step(key_rows))
        users = live.add(sides.users.half_step(neighbours, items))
        later = live.add(sides.items.half_step(neighbours, users))
        live.keep_only([later])
        needed = {need for need in later.needs if isinstance(need, Broadcast)}
        assert len(needed) == (1 if users_held else 3)
        assert files_of(spark) == (broadcasts + len(needed), checkpoints)
        ended = later.checkpoint()
        live.add(ended)
        live.keep_only([ended])
        assert files_of(spark) == (broadcasts, checkpoints + 1)
        expected = dense_sums(table().T, dense_sums(table(), dense_start(sides.item_keys)))
        np.testing.assert_array_equal(rows_of(sides.items, ended), expected)
        users = live.add(sides.users.half_step(neighbours, ended))
        np.testing.assert_array_equal(rows_of(sides.users, users), dense_sums(table(), expected))
        last = sides.items.half_step(neighbours, users).checkpoint()
        live.add(last)
        live.keep_only([last])
        assert files_of(spark)[1] == checkpoints + 1
    assert files_of(spark)[1] == checkpoints


@pytest.mark.parametrize(("held", "entry"), [(True, np.nan), (False, np.inf)], ids=["broadcast-nan", "blocks-infinity"])
def test_row_that_is_not_finite_ends_the_fit_and_leaves_nothing(
    spark: SparkSession, toy: ToySides, held: bool, entry: float
) -> None:
    sides = toy(Layout(2, 3, held, held))
    sides.users.frame.count()  # which caches it
    before, cached = files_of(spark), len(spark.sparkContext._jsc.getPersistentRDDs())
    with pytest.raises(FitError, match=r"1 of 7 user factors are NaN or infinite"):
        sides.users.half_step(partial(spoil_one, key=int(sides.user_keys[4]), entry=entry))
    assert files_of(spark) == before
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == cached


@pytest.mark.parametrize("held", [PLACES[0], PLACES[3]], ids=["broadcast", "blocks"])
def test_rebuilt_blocks_are_the_memories_of_the_kernel(toy: ToySides, held: tuple[bool, bool]) -> None:
    """In place of its old blocks, one block in each partition as before."""
    sides = toy(Layout(2, 3, *held))
    items, users = sides.items.half_step(key_rows), sides.users.half_step(remember)
    rebuilt = sides.users.rebuild(remember, items, users)
    steps = {row.block: int(unpack(row.data)["step"]) for row in rebuilt.frame.collect()}
    assert steps == {0: 2, 1: 2}
    assert rebuilt.frame.rdd.glom().map(len).collect() == [1, 1]
    assert (rebuilt.n_rows, rebuilt.n_blocks, rebuilt.broadcasts) == (N_USERS, 2, held[0])
    rebuilt.release()


def test_error_in_a_kernel_reaches_the_driver(toy: ToySides) -> None:
    sides = toy(Layout(2, 3, False, False))
    items = sides.items.half_step(key_rows)
    with pytest.raises(Exception, match="shift"):  # Spark wraps it; the missing name is what helps
        sides.users.half_step(sum_neighbours, items)


# What a half-step costs


class PlannedSide(ClusterSide):
    """A side that notes the plans of its half-steps."""

    plans: ClassVar[list[DataFrame]] = []

    def plan(self, *args: Any) -> DataFrame:
        self.plans.append(super().plan(*args))
        return self.plans[-1]


def planned(sides: Sides) -> Sides:
    users, items = (PlannedSide(s.name, s.n_rows, s.n_blocks, s.frame, s.broadcasts) for s in sides[:2])
    return sides._replace(users=users, items=items)


class Cost(NamedTuple):
    """Jobs and exchanges of a half-step, as Spark counted and planned them, and the length of its logical plan."""

    jobs: int
    exchanges: int
    plan_length: int


def cost_of(spark: SparkSession, name: str, step: Callable[[], Any]) -> tuple[Any, Cost]:
    """Return the step's result and its cost."""
    context = spark.sparkContext
    context.setJobGroup(name, name)
    state = step()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = context.statusTracker().getJobIdsForGroup(name)
    execution = PlannedSide.plans[-1]._jdf.queryExecution()
    plan = re.sub(r"\d+", "", execution.optimizedPlan().toString())
    return state, Cost(len(jobs), exchanges(execution.executedPlan()), len(plan))


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


@pytest.mark.parametrize("held", PLACES, ids=["both", "users", "items", "neither"])
def test_half_step_is_one_job_and_moves_only_messages(
    spark: SparkSession, toy: ToySides, held: tuple[bool, bool]
) -> None:
    """One exchange if a result that stays on the cluster is read, none if all is broadcast; the blocks do not move."""
    users_held, items_held = held
    sides = planned(toy(Layout(2, 3, *held)))
    sides.users.frame.count()
    sides.items.frame.count()
    items, cost = cost_of(spark, f"start {held}", lambda: sides.items.half_step(key_rows))
    assert cost[:2] == (1, 0)
    users, cost = cost_of(spark, f"source {held}", lambda: sides.users.half_step(neighbours, items))
    assert cost[:2] == (1, 0 if items_held else 1)
    users = sides.users.half_step(remember, items)
    _, cost = cost_of(spark, f"source and memory {held}", lambda: sides.users.half_step(remember, items, users))
    assert cost[:2] == (1, 0 if items_held and users_held else 1)


def test_blocks_do_not_move_after_a_rebuild(spark: SparkSession, toy: ToySides) -> None:
    sides = planned(toy(Layout(2, 3, False, False)))
    items, users = sides.items.half_step(key_rows), sides.users.half_step(remember)
    rebuilt = sides.users.rebuild(keep_block, items, users)
    _, cost = cost_of(spark, "rebuilt", lambda: rebuilt.half_step(neighbours, items))
    assert cost[:2] == (1, 1)
    rebuilt.release()


def keep_block(inputs: KernelInput) -> Update:
    return Update(np.empty((len(inputs.block["row_key"]), 0)), {}, inputs.block)


@by_place
def test_plans_do_not_grow_with_the_iterations(spark: SparkSession, toy: ToySides, held: bool) -> None:
    """A plan that contained its predecessors would double with each half-step."""
    sides = planned(toy(Layout(2, 3, held, held)))
    users, items = sides.users.half_step(remember), sides.items.half_step(remember)
    lengths = []
    for sweep in range(1, 6):
        before = users, items
        users = sides.users.half_step(remember, items, users)
        step = partial(sides.items.half_step, remember, users, items)
        items, cost = cost_of(spark, f"sweep {sweep} {held}", step)
        assert cost.exchanges == (0 if held else 1)
        lengths.append(cost.plan_length)
        for state in before:
            state.release()
    assert lengths[4] == lengths[1]
