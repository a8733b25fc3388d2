"""Half-steps on Spark: those of a dense loop, in one job each, whether results are broadcast or stay on the cluster."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.engine.ascent import LiveStates
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.errors import FitError
from tests.engine.toy_kernels import key_rows, remember, spoil_one
from tests.engine.toy_sides import (
    N_ITEMS,
    N_USERS,
    PLACES,
    Sides,
    dense_start,
    dense_sums,
    neighbours,
    rows_of,
    table,
    toy_sides,
)
from tests.frames import persisted, persisted_before

# The exchange is tested without Spark, in test_exchange.py; here one layout of each kind, and more blocks than rows.
LAYOUTS = [((2, 3), (True, False)), ((N_USERS + 2, N_ITEMS + 1), (False, False))]
by_place = pytest.mark.parametrize("held", [True, False], ids=["broadcast", "blocks"])

ToySides = Callable[[tuple[int, int], tuple[bool, bool]], Sides]


@pytest.fixture(scope="module")
def toy(spark: SparkSession) -> Iterator[ToySides]:
    """Sides laid out as asked; those of equal numbers of blocks share them, whoever holds their results."""
    with ExitStack() as stack:
        built = cache(lambda n_blocks: stack.enter_context(toy_sides(spark, n_blocks)))
        yield lambda n_blocks, broadcasts: built(n_blocks).broadcasting(*broadcasts)


@pytest.mark.parametrize(("n_blocks", "broadcasts"), LAYOUTS)
def test_half_steps_equal_a_dense_loop(toy: ToySides, n_blocks: tuple[int, int], broadcasts: tuple[bool, bool]) -> None:
    sides = toy(n_blocks, broadcasts)
    items = sides.items.half_step(key_rows)
    users = sides.users.half_step(neighbours, items)
    later = sides.items.half_step(neighbours, users)
    assert items.sums["rows"] == N_ITEMS
    assert (items.outbox is None) == broadcasts[1]
    of_items = dense_start(sides.item_keys)
    of_users = dense_sums(table(), of_items)
    expected = dense_sums(table().T, of_users)
    for side, state, rows in (
        (sides.items, items, of_items),
        (sides.users, users, of_users),
        (sides.items, later, expected),
    ):
        np.testing.assert_array_equal(rows_of(side, state), rows)
        np.testing.assert_array_equal(state.sums["total"], rows.sum(axis=0))


def files_of(session: SparkSession) -> tuple[int, int]:
    """Broadcasts on the driver's disk, and reliable checkpoints."""
    context = session.sparkContext
    directory = Path(str(context.getCheckpointDir()).removeprefix("file:"))
    return len(list(Path(context._temp_dir).iterdir())), len(list(directory.glob("rdd-*")))


@pytest.mark.parametrize("users_held", [True, False], ids=["broadcast-users", "blocks"])
def test_released_state_takes_its_own_data_along(spark: SparkSession, toy: ToySides, users_held: bool) -> None:
    """A checkpoint is the same state, and needs nothing of what was before it."""
    sides = toy((2, 3), (users_held, False))
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
def test_row_that_is_not_finite_leaves_nothing(spark: SparkSession, toy: ToySides, held: bool, entry: float) -> None:
    sides = toy((2, 3), (held, held))
    sides.users.frame.count()  # which caches it
    before, cached = files_of(spark), persisted_before(spark)
    with pytest.raises(FitError, match=r"1 of 7 user factors are NaN or infinite"):
        sides.users.half_step(partial(spoil_one, key=int(sides.user_keys[4]), entry=entry))
    assert files_of(spark) == before
    assert persisted(spark) == cached


class PlannedSide(ClusterSide):
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
    context = spark.sparkContext
    context.setJobGroup(name, name)
    state = step()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = context.statusTracker().getJobIdsForGroup(name)
    execution = PlannedSide.plans[-1]._jdf.queryExecution()
    plan = re.sub(r"\d+", "", execution.optimizedPlan().toString())
    return state, Cost(len(jobs), exchanges(execution.executedPlan()), len(plan))


def exchanges(node: Any, is_root: bool = True) -> int:
    """Shuffles of a plan as it ran. A result that is kept ran as the plan of its cache, found at the root.

    Caches that a plan reads ran before.
    """
    if is_root and node.nodeName().startswith("InMemoryTableScan"):
        node = node.relation().cachedPlan()
    assert node.nodeName() != "AdaptiveSparkPlan"  # it would hide what is below it, and move blocks
    below = sum(exchanges(node.children().apply(i), False) for i in range(node.children().size()))
    return below + (node.nodeName() == "Exchange")


@pytest.mark.parametrize("held", PLACES)
def test_half_step_is_one_job_of_messages(spark: SparkSession, toy: ToySides, held: tuple[bool, bool]) -> None:
    """One exchange if a result that stays on the cluster is read, none if all is broadcast; the blocks do not move."""
    users_held, items_held = held
    sides = planned(toy((2, 3), held))
    sides.users.frame.count()
    sides.items.frame.count()
    items, cost = cost_of(spark, f"start {held}", lambda: sides.items.half_step(key_rows))
    assert cost[:2] == (1, 0)
    users, cost = cost_of(spark, f"source {held}", lambda: sides.users.half_step(neighbours, items))
    assert cost[:2] == (1, 0 if items_held else 1)
    users = sides.users.half_step(remember, items)
    _, cost = cost_of(spark, f"source and memory {held}", lambda: sides.users.half_step(remember, items, users))
    assert cost[:2] == (1, 0 if items_held and users_held else 1)


@by_place
def test_rebuilt_blocks_are_the_kernels_memories_in_place(spark: SparkSession, toy: ToySides, held: bool) -> None:
    sides = planned(toy((2, 3), (held, held)))
    items, users = sides.items.half_step(key_rows), sides.users.half_step(remember)
    rebuilt = sides.users.rebuild(keep_block, items, users)
    assert rebuilt.frame.rdd.glom().map(len).collect() == [1, 1]
    assert (rebuilt.n_rows, rebuilt.n_blocks, rebuilt.broadcasts) == (N_USERS, 2, held)
    state, cost = cost_of(spark, f"rebuilt {held}", lambda: rebuilt.half_step(neighbours, items))
    assert cost[:2] == (1, 0 if held else 1)
    np.testing.assert_array_equal(rows_of(rebuilt, state), dense_sums(table(), dense_start(sides.item_keys)))
    rebuilt.release()


def test_what_stays_out_of_memory_is_the_same(spark: SparkSession) -> None:
    with toy_sides(spark, (2, 3), on_disk=True) as sides:
        items = sides.items.half_step(key_rows)
        users = sides.users.half_step(remember, items)
        rebuilt = sides.users.rebuild(keep_block, items, users)
        state = rebuilt.half_step(neighbours, items)
        assert state.outbox is not None
        for frame in (sides.items.frame, rebuilt.frame, state.outbox.cached):
            assert (frame.storageLevel.useDisk, frame.storageLevel.useMemory) == (True, False)
        np.testing.assert_array_equal(rows_of(rebuilt, state), dense_sums(table(), dense_start(sides.item_keys)))
        rebuilt.release()
        for half_step in (items, users, state):
            half_step.release()


def keep_block(inputs: KernelInput) -> Update:
    return Update(np.empty((len(inputs.block["row_key"]), 0)), {}, inputs.block)


@by_place
def test_plans_do_not_grow_with_the_iterations(spark: SparkSession, toy: ToySides, held: bool) -> None:
    """A plan that contained its predecessors would double with each half-step."""
    sides = planned(toy((2, 3), (held, held)))
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
