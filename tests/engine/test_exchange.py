"""The exchange between blocks, without Spark: half-steps are those of a dense loop, however the rows are cut."""

import numpy as np
import pytest

from dcrec_spark.engine.heavy_items import Heavy, add_scores, with_parts
from dcrec_spark.engine.messages import Kind, Message, from_table, to_table
from tests.engine.memory_side import MemorySide, memory_sides
from tests.engine.toy_kernels import Splits, key_rows, remember
from tests.engine.toy_sides import KEYS, N_ITEMS, N_USERS, PLACES, dense_start, dense_sums, neighbours, table

SOME = Heavy(np.array([1, 3]), (table() > 0).sum(axis=0)[[1, 3]])
layouts = pytest.mark.parametrize(
    ("n_blocks", "broadcasts"),
    [*(((2, 3), place) for place in PLACES), ((1, 1), PLACES[3]), ((5, 3), PLACES[3]), ((N_USERS, N_ITEMS), PLACES[3])],
)


def sides(
    n_blocks: tuple[int, int], broadcasts: tuple[bool, bool], heavy: Heavy | None = None
) -> tuple[MemorySide, MemorySide]:
    user, item = np.nonzero(table())
    pairs = {"user": user, "item": item, "value": table()[user, item]}
    return memory_sides(pairs, KEYS, n_blocks, broadcasts, heavy=heavy)


@layouts
@pytest.mark.parametrize("heavy", [None, SOME], ids=["light", "heavy"])
def test_half_steps_equal_a_dense_loop(
    n_blocks: tuple[int, int], broadcasts: tuple[bool, bool], heavy: Heavy | None
) -> None:
    """Items, users, items: exactly the same whole numbers, those of heavy items from all blocks of users."""
    users, items = sides(n_blocks, broadcasts, heavy)
    start = items.half_step(key_rows)
    moved = users.half_step(with_parts(neighbours, Splits(), None) if heavy else neighbours, start)
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


@layouts
def test_user_blocks_score_pairs_with_heavy_items(n_blocks: tuple[int, int], broadcasts: tuple[bool, bool]) -> None:
    """By the new rows of the items; the scores are added to those of the items' own pairs."""
    users, items = sides(n_blocks, broadcasts, SOME)
    of_users, of_items = users.half_step(key_rows), items.half_step(key_rows)
    of_items = of_items.with_sums({**of_items.sums, "scores": np.array(1.0)})
    after = add_scores(users, Splits(), None, of_users, of_items)
    scores = (table() * (dense_start(KEYS[0]) @ dense_start(KEYS[1]).T))[:, SOME.idx]
    assert after.sums["scores"] == 1.0 + scores.sum()
    np.testing.assert_array_equal(after.sums["total"], of_items.sums["total"])


@pytest.mark.parametrize("broadcast", [True, False], ids=["broadcast", "blocks"])
def test_memory_returns_to_its_block(broadcast: bool) -> None:
    users, items = sides((2, 3), (broadcast, broadcast))
    source, state = items.half_step(key_rows), None
    for step in range(1, 4):
        state = users.half_step(remember, source if step > 1 else None, state)
        assert state.sums["strangers"] == 0
        assert [memory["step"] for memory in users.memories(state)] == [step, step]


def test_messages_are_read_in_the_order_of_their_senders() -> None:
    """In whatever order Spark brings them; the messages of one sender keep theirs."""
    kinds = (None, Kind.SUMS), (1, Kind.MEMORY), (0, Kind.ROWS), (1, Kind.ROWS)
    sent = [Message.of(to, 1, kind, rows=np.arange(3.0)) for to, kind in kinds]
    first = Message.of(None, 0, Kind.ROWS, rows=np.arange(2.0))
    assert from_table(to_table([*sent, first])) == [first, *sent]
    assert from_table(to_table([])) == []
