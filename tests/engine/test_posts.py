"""Posts: what a block says to whom, there and back through Arrow."""

import numpy as np

from dcrec_spark.engine import posts
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.posts import Kind, Post

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
# User block 1 of the example in the module: for the driver, for itself, for item blocks 0 and 1.
OUTBOX = [
    posts.sums(1, {"total": ROWS.sum(axis=0)}),
    posts.memory(1, {"turn": np.array(2)}),
    posts.message(0, 1, ROWS[:1]),
    posts.message(1, 1, ROWS[1:]),
]


def test_an_outbox_says_what_is_for_whom() -> None:
    table = posts.table_of(OUTBOX)
    assert table.drop_columns("data").to_pylist() == [
        {"to_block": None, "from_block": 1, "kind": "sums"},
        {"to_block": 1, "from_block": 1, "kind": "memory"},
        {"to_block": 0, "from_block": 1, "kind": "message"},
        {"to_block": 1, "from_block": 1, "kind": "message"},
    ]


def test_posts_come_back_typed_and_by_sender() -> None:
    """Whatever order Spark brings them in; the posts of one sender keep theirs."""
    first = posts.message(None, 0, ROWS)
    came = posts.posts_in(posts.table_of([*OUTBOX, first]))
    assert came == [first, *OUTBOX]
    assert all(isinstance(post.kind, Kind) for post in came)


def test_what_came_is_read_where_it_is() -> None:
    """An inbox may be most of a worker's memory. Sums are kept on the driver, and hold on to nothing that came too."""
    table = posts.table_of(OUTBOX)
    buffer = table["data"].chunk(0).buffers()[2]
    at = buffer.address
    for post in posts.posts_in(table):
        begin = np.frombuffer(post.data, np.uint8).ctypes.data
        assert at <= begin < at + buffer.size
    total = posts.total_of(posts.posts_in(table))["total"]
    assert not at <= total.ctypes.data < at + buffer.size


def test_no_posts_are_a_table_too() -> None:
    assert posts.table_of([]).schema == posts.table_of(OUTBOX).schema
    assert posts.posts_in(posts.table_of([])) == []


def test_an_inbox_is_the_rows_of_its_messages_one_after_the_other() -> None:
    rows = posts.rows_in(OUTBOX)
    assert rows is not None
    np.testing.assert_array_equal(rows, ROWS)
    assert posts.rows_in(OUTBOX[:2]) is None


def test_a_memory_is_found_by_its_block() -> None:
    memories = posts.memories_in([*OUTBOX, posts.memory(4, {"turn": np.array(7)})])
    assert {block: int(unpack(cell)["turn"]) for block, cell in memories.items()} == {1: 2, 4: 7}


def test_sums_add_up_over_blocks_and_are_not_mixed_with_the_rest() -> None:
    other = Post(None, 2, Kind.SUMS, posts.sums(2, {"total": np.array([0.5, 0.25])}).data)
    np.testing.assert_array_equal(posts.total_of([*OUTBOX, other])["total"], [9.5, 12.25])
