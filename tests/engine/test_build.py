"""Nonzeros as CSR blocks: nothing lost, no order that depends on chance, routes that fit the needs."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.engine.blocks import first_place, index_at, rows_in_block
from dcrec_spark.engine.build import BlockPlan, build_block
from dcrec_spark.engine.cells import Array, Arrays, unpack
from tests.engine.memory_side import block_parts


class Ratings(NamedTuple):
    """Triplets of a (n_rows, n_cols) table, and how many blocks either side has."""

    row: Array
    col: Array
    value: Array
    n_rows: int
    n_cols: int
    row_blocks: int
    col_blocks: int


def key_of(rows: Array) -> Array:
    return np.asarray(1000 + 7 * rows, np.int64)


def shuffled(ratings: Ratings, block: int, seed: int = 0) -> list[Arrays]:
    """What one partition holds before it becomes a block: its rows, and its nonzeros in three parts."""
    order = np.random.default_rng(seed).permutation(len(ratings.row))
    parts = []
    for places in np.array_split(order, 3):
        pairs = {"row": ratings.row[places], "col": ratings.col[places], "rating": ratings.value[places]}
        key = key_of(np.arange(ratings.n_rows)) if not parts else np.empty(0, np.int64)
        parts += block_parts(pairs, "row", "col", key, block, ratings.row_blocks)
    return parts


def build(ratings: Ratings, block: int, seed: int = 0) -> pa.RecordBatch:
    plan = BlockPlan(ratings.row_blocks, (ratings.n_cols, ratings.col_blocks), ["rating"], "float64")
    return build_block(block, shuffled(ratings, block, seed), plan)


@st.composite
def random_ratings(draw: st.DrawFn) -> Ratings:
    """Any density from nothing to everything; as many blocks as rows at most, as the layout sees to."""
    n_rows, n_cols = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    row, col = np.nonzero(rng.random((n_rows, n_cols)) < draw(st.sampled_from([0.0, 0.1, 0.4, 1.0])))
    row_blocks, col_blocks = draw(st.integers(1, n_rows)), draw(st.integers(1, n_cols))
    return Ratings(row, col, rng.integers(0, 6, len(row)) * 1.0, n_rows, n_cols, row_blocks, col_blocks)


def test_the_docstrings_example() -> None:
    """Two user blocks, three item blocks; five items: block 0 has items 0 and 3, block 1 items 1 and 4."""
    ratings = Ratings(np.array([0, 2, 0]), np.array([1, 3, 4]), np.array([5.0, 4.0, 3.0]), 3, 5, 2, 3)
    batch = build(ratings, 0)
    assert batch.select(["block", "nonzeros", "duplicate_row", "duplicate_col"]).to_pylist() == [
        {"block": 0, "nonzeros": 3, "duplicate_row": None, "duplicate_col": None}
    ]
    expected = {
        "row_key": [1000, 1014],
        "row_ptr": [0, 2, 3],
        "need_at": [1, 2, 3],
        "col": [1, 2, 0],
        "route_ptr": [0, 1, 2, 2],
        "route_pos": [1, 0],
        "rating": [5.0, 3.0, 4.0],
    }
    actual = unpack(batch["data"][0].as_py())
    assert {name: array.tolist() for name, array in actual.items()} == expected


few = settings(max_examples=40)


@few
@given(random_ratings())
def test_blocks_together_hold_every_nonzero_and_every_row(ratings: Ratings) -> None:
    places = np.concatenate(
        [np.arange(block, ratings.n_cols, ratings.col_blocks) for block in range(ratings.col_blocks)]
    )
    pairs_of_blocks = {}
    for block in range(ratings.row_blocks):
        arrays = unpack(build(ratings, block)["data"][0].as_py())
        rows = np.arange(block, ratings.n_rows, ratings.row_blocks)
        np.testing.assert_array_equal(arrays["row_key"], key_of(rows))
        owner = np.repeat(rows, np.diff(arrays["row_ptr"]))
        column = places[arrays["need_at"]][arrays["col"]]
        pairs_of_blocks.update(zip(zip(owner.tolist(), column.tolist(), strict=True), arrays["rating"], strict=True))
    pairs = zip(ratings.row.tolist(), ratings.col.tolist(), strict=True)
    assert pairs_of_blocks == dict(zip(pairs, ratings.value, strict=True))


@few
@given(random_ratings(), st.integers(1, 2**32))
def test_the_order_in_which_nonzeros_arrive_does_not_matter(ratings: Ratings, seed: int) -> None:
    for block in range(ratings.row_blocks):
        assert build(ratings, block, seed=seed).equals(build(ratings, block))


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
