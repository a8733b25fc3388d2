"""Blocks: where rows stand, and what the arrays of a block mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.engine.blocks import first_place, index_at, rows_in_block
from dcrec_spark.engine.build import build_process_side


def test_a_block_is_read_by_what_its_arrays_mean() -> None:
    """Held-out pairs share the inbox of the fit's; a block without them has none."""
    pairs = {
        "row": np.array([0, 0, 1]),
        "col": np.array([2, 4, 1]),
        "rating": np.array([5.0, 3.0, 4.0]),
        "held_out": np.array([False, True, False]),
    }
    block = build_process_side("user", pairs, np.array([70, 71]), 5, ["rating"], "float64").block
    assert block.row_key.tolist() == [70, 71]
    assert block.need_at.tolist() == [1, 2, 4]
    expected = ([0, 1, 2], [1, 0], [5, 4]), ([0, 1, 1], [2], [3])
    for part, (row_ptr, col, rating) in zip((block.fitted, block.held_out), expected, strict=True):
        assert part.row_ptr.tolist() == row_ptr
        assert part.col.tolist() == col
        assert part.value("rating").tolist() == rating
        assert part.has("rating")
        assert not part.has("a_hat")
    assert [part.named("a_hat") for part in block.parts] == ["a_hat", "held_a_hat"]
    del pairs["held_out"]
    alone = build_process_side("user", pairs, np.array([70, 71]), 5, ["rating"], "float64").block
    assert [part.named("a_hat") for part in alone.parts] == ["a_hat"]
    with pytest.raises(KeyError):
        alone.held_out.value("rating")


@given(st.integers(1, 300), st.integers(1, 40))
def test_places_of_the_blocks_follow_each_other_and_lead_back_to_indices(n_rows: int, n_blocks: int) -> None:
    """Even blocks, no gaps, also where there are more blocks than rows."""
    sizes = [rows_in_block(n_rows, n_blocks, block) for block in range(n_blocks)]
    assert sizes == [len(range(block, n_rows, n_blocks)) for block in range(n_blocks)]
    starts = first_place(n_rows, n_blocks, np.arange(n_blocks))
    np.testing.assert_array_equal(starts, np.cumsum([0, *sizes[:-1]]))
    n_blocks, idx = min(n_blocks, n_rows), np.arange(n_rows)
    places = first_place(n_rows, n_blocks, idx % n_blocks) + idx // n_blocks
    assert sorted(places) == list(idx)
    np.testing.assert_array_equal(index_at(n_rows, n_blocks, places), idx)
