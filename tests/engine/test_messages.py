"""Messages of blocks, to Arrow and back."""

import numpy as np

from dcrec_spark.engine import messages
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.messages import Kind, Message

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
# User block 1 of the example in the module: for the driver, for itself, for item blocks 0 and 1.
OUTBOX = [
    Message.of(None, 1, Kind.SUMS, **{"total": ROWS.sum(axis=0)}),
    Message.of(1, 1, Kind.MEMORY, **{"step": np.array(2)}),
    Message.of(0, 1, Kind.ROWS, rows=ROWS[:1]),
    Message.of(1, 1, Kind.ROWS, rows=ROWS[1:]),
]


def test_table_names_receiver_sender_and_kind() -> None:
    table = messages.to_table(OUTBOX)
    assert table["data"].num_chunks == len(OUTBOX)
    assert table.drop_columns("data").to_pylist() == [
        {"to_block": None, "from_block": 1, "kind": "sums"},
        {"to_block": 1, "from_block": 1, "kind": "memory"},
        {"to_block": 0, "from_block": 1, "kind": "rows"},
        {"to_block": 1, "from_block": 1, "kind": "rows"},
    ]


def test_messages_are_read_typed_and_in_the_order_of_their_senders() -> None:
    """In whatever order Spark brings them; the messages of one sender keep theirs."""
    first = Message.of(None, 0, Kind.ROWS, rows=ROWS)
    came = messages.from_table(messages.to_table([*OUTBOX, first]))
    assert came == [first, *OUTBOX]
    assert all(isinstance(message.kind, Kind) for message in came)
    assert messages.from_table(messages.to_table([])) == []


def test_data_is_read_without_a_copy() -> None:
    """An inbox may be most of a worker's memory. Sums stay on the driver, and keep no message in memory."""
    table = messages.to_table(OUTBOX).combine_chunks()
    buffer = table["data"].chunk(0).buffers()[2]
    at = buffer.address
    for message in messages.from_table(table):
        begin = np.frombuffer(message.data, np.uint8).ctypes.data
        assert at <= begin < at + buffer.size
    total = messages.add_up(messages.from_table(table))["total"]
    assert not at <= total.ctypes.data < at + buffer.size


def test_an_inbox_has_rows_memories_by_block_and_sums_over_blocks() -> None:
    rows = messages.read_rows(OUTBOX)
    assert rows is not None
    np.testing.assert_array_equal(rows, ROWS)
    assert messages.read_rows(OUTBOX[:2]) is None
    memories = messages.read_memories([*OUTBOX, Message.of(4, 4, Kind.MEMORY, **{"step": np.array(7)})])
    assert {block: int(unpack(cell)["step"]) for block, cell in memories.items()} == {1: 2, 4: 7}
    other = Message(None, 2, Kind.SUMS, Message.of(None, 2, Kind.SUMS, **{"total": np.array([0.5, 0.25])}).data)
    np.testing.assert_array_equal(messages.add_up([*OUTBOX, other])["total"], [9.5, 12.25])
