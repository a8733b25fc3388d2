"""A block worked on in runs of rows: what a kernel makes of it all at once, whatever the runs are."""

from typing import Any

import numpy as np
import pytest

from dcrec_spark.engine import turn
from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.turn import Turn, Update, updated_in_runs

# Rows of 2, 0, 3, 1 and 0 pairs; the second and the last have one that is held out.
BLOCK = Block(
    {
        "row_key": np.array([10, 11, 12, 13, 14]),
        "need_at": np.array([0, 2, 3]),
        "route_ptr": np.array([0, 3]),
        "route_pos": np.array([0, 2, 3]),
        "exposure": np.arange(10.0).reshape(5, 2),
        "row_ptr": np.array([0, 2, 2, 5, 6, 6]),
        "col": np.array([0, 1, 0, 1, 2, 2]),
        "rating": np.array([1, 2, 3, 4, 5, 6]),
        "held_row_ptr": np.array([0, 0, 1, 1, 1, 2]),
        "held_col": np.array([2, 0]),
        "held_rating": np.array([7, 8]),
    }
)
INBOX = np.array([[1.0], [10.0], [100.0]])


def kernel(now: Turn) -> Update:
    """Products of ratings and sources, added up by row; of held-out pairs as well, and over all rows."""
    drawn = [
        np.array([values[start:end].sum() for start, end in zip(pairs.row_ptr[:-1], pairs.row_ptr[1:], strict=True)])
        for pairs in now.block.parts
        for values in [pairs.value("rating") * now.inbox[pairs.col, 0]]
    ]
    rows = np.column_stack([now.block.row_key, *drawn, now.block["exposure"], now.memory["before"]])
    memory = {"before": 2 * now.memory["before"], "rate": now.source_sums["rate"] + now.memory["shared"]}
    return Update(rows, {"total": rows.sum(axis=0), "rows": np.array(len(rows))}, memory)


TURN = Turn(
    BLOCK,
    {"before": np.arange(5.0)[:, None], "shared": np.array([3.0, 4.0, 5.0, 6.0, 7.0])},
    INBOX,
    {"rate": np.array([1.0])},
)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 6, 7])
def test_runs_of_any_length_are_the_whole(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PAIRS_OF_A_RUN", pairs)
    seen: list[int] = []

    def counted(now: Turn) -> Update:
        seen.append(len(now.block.fitted.col))
        return kernel(now)

    whole, in_runs = kernel(TURN), updated_in_runs(counted, TURN)
    assert sum(seen) == 6
    assert max(seen) < pairs + 3  # a run ends with its last row
    assert (len(seen) > 1) == (pairs < 6)
    np.testing.assert_array_equal(in_runs.rows, whole.rows)
    for made, expected in ((in_runs.sums, whole.sums), (in_runs.memory, whole.memory)):
        assert made.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(made[name], array)


def test_what_is_made_of_the_inbox_alone_is_made_once_for_all_runs_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PAIRS_OF_A_RUN", 1)
    made: list[Any] = []

    def doubled(now: Turn) -> Any:
        made.append(2 * now.inbox)
        return made[-1]

    def careful(now: Turn) -> Update:
        np.testing.assert_array_equal(now.once("doubled", lambda: doubled(now)), 2 * INBOX)
        return kernel(now)

    updated_in_runs(careful, TURN)
    assert len(made) == 1
    updated_in_runs(careful, TURN)
    assert len(made) == 2  # the next turn has another inbox
    careful(TURN)
    assert len(made) == 3


def test_a_number_of_each_row_has_two_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody knows whether it belongs to the rows, and runs would leave that of the last."""
    monkeypatch.setattr(turn, "PAIRS_OF_A_RUN", 2)
    with pytest.raises(ValueError, match=r"memory 'key': found an array of 1 dimensions that differs .* give it two"):
        updated_in_runs(lambda now: Update(kernel(now).rows, {}, {"key": now.block.row_key}), TURN)


def test_a_memory_named_rows_is_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PAIRS_OF_A_RUN", 2)
    update = updated_in_runs(lambda now: Update(rows := kernel(now).rows, {}, {"rows": rows}), TURN)
    assert update.memory["rows"] is update.rows
