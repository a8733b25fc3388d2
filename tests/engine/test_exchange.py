"""The exchange between blocks, without Spark: half-steps are those of a dense loop, however the rows are cut."""

from functools import partial

import numpy as np
import pytest

from dcrec_spark.errors import FitError
from tests.engine.memory_side import MemorySide, memory_sides
from tests.engine.toy_kernels import key_rows, remember, spoil_one
from tests.engine.toy_sides import N_ITEMS, N_USERS, dense_start, dense_sums, neighbours, table

KEYS = np.arange(1000, 1000 + N_USERS), np.arange(3000, 3000 + N_ITEMS)
by_place = pytest.mark.parametrize("broadcast", [True, False], ids=["broadcast", "blocks"])


def sides(n_blocks: tuple[int, int], broadcasts: tuple[bool, bool] = (False, False)) -> tuple[MemorySide, MemorySide]:
    user, item = np.nonzero(table())
    return memory_sides({"user": user, "item": item, "value": table()[user, item]}, KEYS, n_blocks, broadcasts)


@pytest.mark.parametrize("n_blocks", [(1, 1), (2, 3), (5, 3), (N_USERS, N_ITEMS)])
@pytest.mark.parametrize("broadcasts", [(True, True), (True, False), (False, True), (False, False)])
def test_half_steps_equal_a_dense_loop(n_blocks: tuple[int, int], broadcasts: tuple[bool, bool]) -> None:
    """Items, users, items: exactly the same whole numbers, row by row and in the sums over all blocks."""
    users, items = sides(n_blocks, broadcasts)
    start = items.half_step(key_rows)
    moved = users.half_step(neighbours, start)
    later = items.half_step(neighbours, moved)
    of_items = dense_start(KEYS[1])
    of_users = dense_sums(table(), of_items)
    expected = dense_sums(table().T, of_users)
    for side, state, rows in ((items, start, of_items), (users, moved, of_users), (items, later, expected)):
        np.testing.assert_array_equal(side.rows(state), rows)
        np.testing.assert_array_equal(state.sums["total"], rows.sum(axis=0))
    # Each block gets the source's sums over all blocks.
    share = n_blocks[0] / (n_blocks[1] + 1)
    np.testing.assert_allclose(moved.sums["source"], start.sums["total"] * share, rtol=1e-14)


@by_place
def test_memory_returns_to_its_block(broadcast: bool) -> None:
    users, items = sides((2, 3), (broadcast, broadcast))
    source, state = items.half_step(key_rows), None
    for step in range(1, 4):
        state = users.half_step(remember, source if step > 1 else None, state)
        assert state.sums["strangers"] == 0
        assert [memory["step"] for memory in users.memories(state)] == [step, step]


def test_row_that_is_not_finite_is_refused() -> None:
    users, _ = sides((2, 3))
    with pytest.raises(FitError, match="1 of 7 user factors are NaN or infinite"):
        users.half_step(partial(spoil_one, key=int(KEYS[0][4]), entry=np.inf))
