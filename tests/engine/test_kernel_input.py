"""Runs of a block's rows: the kernel's update of the whole block, whatever the runs are."""

import numpy as np
import pytest

from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.kernel_input import KernelInput, Update, update_in_runs

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


def kernel(inputs: KernelInput) -> Update:
    """Products of ratings and sources, added up by row; of held-out pairs as well, and over all rows."""
    drawn = [
        np.array([values[start:end].sum() for start, end in zip(pairs.row_ptr[:-1], pairs.row_ptr[1:], strict=True)])
        for pairs in inputs.block.parts
        for values in [pairs.value("rating") * inputs.inbox[pairs.col, 0]]
    ]
    rows = np.column_stack([inputs.block.row_key, *drawn, inputs.block["exposure"], inputs.memory["before"]])
    memory = {"before": 2 * inputs.memory["before"], "rate": inputs.source_sums["rate"] + inputs.memory["shared"]}
    return Update(rows, {"total": rows.sum(axis=0), "rows": np.array(len(rows))}, memory)


INPUTS = KernelInput(
    BLOCK,
    {"before": np.arange(5.0)[:, None], "shared": np.array([3.0, 4.0, 5.0, 6.0, 7.0])},
    INBOX,
    {"rate": np.array([1.0])},
)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 6, 7])
def test_runs_of_any_length_give_the_whole_update(pairs: int) -> None:
    seen: list[int] = []
    derived: list[int] = []

    def counted(inputs: KernelInput) -> Update:
        seen.append(len(inputs.block.fitted.col))
        inputs.once("length", lambda: derived.append(len(INBOX)))
        return kernel(inputs)

    whole, in_runs = kernel(INPUTS), update_in_runs(counted, INPUTS, pairs)
    assert sum(seen) == 6
    assert max(seen) < pairs + 3  # a run ends with its last row
    assert (len(seen) > 1) == (pairs < 6)
    assert derived == [len(INBOX)]  # once for all runs
    np.testing.assert_array_equal(in_runs.rows, whole.rows)
    for made, expected in ((in_runs.sums, whole.sums), (in_runs.memory, whole.memory)):
        assert made.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(made[name], array)


def test_memory_of_each_row_needs_two_dimensions() -> None:
    """Else runs would leave only that of the last run."""
    with pytest.raises(ValueError, match=r"memory 'key': found an array of 1 dimensions that differs .* give it two"):
        update_in_runs(lambda inputs: Update(kernel(inputs).rows, {}, {"key": inputs.block.row_key}), INPUTS, 2)
