"""Heavy rows: no pair is lost, every block gets what it needs, and half-steps are those of a dense loop."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dcrec_spark.engine import heavy
from dcrec_spark.engine.blocks import Block, first_place
from dcrec_spark.engine.build import HeavyRows, build_block
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.half_step import half_step
from dcrec_spark.engine.heavy import Heavy
from dcrec_spark.engine.spread import adding_parts, scored
from tests.engine.test_build import Ratings, block_table, key_of, random_ratings
from tests.engine.test_half_step import Cost
from tests.engine.toy_kernels import Spread, key_rows, remember
from tests.engine.toy_sides import dense_start, dense_sums, neighbours, rows_of, table
from tests.sides import Layout, Sides, sides_of

PLACES = [(True, True), (True, False), (False, True), (False, False)]
HEAVY = Heavy(np.array([1, 3]), (table() > 0).sum(axis=0)[[1, 3]])
ToySides = Callable[[Layout], Sides]


# Blocks


@st.composite
def with_heavy(draw: st.DrawFn) -> tuple[Ratings, Heavy]:
    """Users as rows, items as columns, some of these heavy: none, all, those without pairs too."""
    ratings = draw(random_ratings())
    idx = np.array(sorted(draw(st.sets(st.integers(0, ratings.n_cols - 1)))), np.int64)
    return ratings, Heavy(idx, np.array([(ratings.col == i).sum() for i in idx], np.int64))


def block_of(ratings: Ratings, heavies: HeavyRows, block: int) -> Block:
    source = ratings.n_cols, ratings.col_blocks
    cell: pa.RecordBatch = build_block(
        block_table(ratings, block), ratings.row_blocks, source, ["rating"], "float64", heavies
    )
    return Block(unpack(cell["data"][0].as_py()))


def sides(ratings: Ratings, items: Heavy) -> tuple[list[Block], list[Block]]:
    """The blocks of users and of items; as the engine builds them, these are given no pair of heavy ones."""
    light = ~np.isin(ratings.col, items.idx)
    rest = ratings._replace(row=ratings.row[light], col=ratings.col[light], value=ratings.value[light])
    users = [block_of(ratings, HeavyRows(others=items), block) for block in range(ratings.row_blocks)]
    of_items = rest.mirrored()
    return users, [block_of(of_items, HeavyRows(own=items), block) for block in range(of_items.row_blocks)]


few = settings(max_examples=40)


@few
@given(with_heavy())
def test_either_side_sends_what_the_other_needs(drawn: tuple[Ratings, Heavy]) -> None:
    """Heavy items go to all blocks of users, and call for no user."""
    ratings, items = drawn
    of_users, of_items = sides(ratings, items)
    rows, columns = (ratings.n_rows, ratings.row_blocks), (ratings.n_cols, ratings.col_blocks)
    for targets, sources, counts in ((of_users, of_items, columns), (of_items, of_users, rows)):
        for number, target in enumerate(targets):
            inbox = [first_place(*counts, np.int64(n)) + source.routes[number] for n, source in enumerate(sources)]
            np.testing.assert_array_equal(np.concatenate(inbox), target.need_at)


@few
@given(with_heavy())
def test_each_pair_with_a_heavy_item_is_in_one_block_of_users(drawn: tuple[Ratings, Heavy]) -> None:
    """Either way round, with its rating; what is light is in both sides."""
    ratings, items = drawn
    of_users, of_items = sides(ratings, items)
    is_heavy = np.isin(ratings.col, items.idx)
    expected = sorted(zip(ratings.row[is_heavy], ratings.col[is_heavy], ratings.value[is_heavy], strict=True))
    by_user, by_item = [], []
    for number, block in enumerate(of_users):
        users = np.arange(number, ratings.n_rows, ratings.row_blocks)
        met, turned = heavy.met(block).fitted, heavy.turned(block).fitted
        user = np.repeat(users, np.diff(met.row_ptr))
        by_user += zip(user, items.idx[met.col], met.value("rating"), strict=True)
        item = np.repeat(items.idx, np.diff(turned.row_ptr))
        by_item += zip(users[turned.col], item, turned.value("rating"), strict=True)
    assert sorted(by_user) == sorted(by_item) == expected
    assert sum(len(block.fitted.col) for block in of_items) == (~is_heavy).sum()


@few
@given(with_heavy())
def test_heavy_items_keep_their_place(drawn: tuple[Ratings, Heavy]) -> None:
    """And their block knows which they are, and how many pairs they have elsewhere."""
    ratings, items = drawn
    found = []
    for number, block in enumerate(sides(ratings, items)[1]):
        idx = np.arange(number, ratings.n_cols, ratings.col_blocks)
        np.testing.assert_array_equal(block.row_key, key_of(idx))
        found += zip(block[heavy.SLOT], idx[block[heavy.ROW]], block[heavy.FITTED_PAIRS], strict=True)
    assert sorted(found) == [(slot, *pair) for slot, pair in enumerate(zip(*items, strict=True))]


# Half-steps


@pytest.fixture(scope="module")
def toy(spark: SparkSession) -> Iterator[ToySides]:
    """Sides with two heavy items, laid out as asked."""
    with ExitStack() as stack:
        built = {
            blocks: stack.enter_context(
                sides_of(spark, table() > 0, {"value": table()}, Layout(*blocks, True, True), heavy=HEAVY)
            )
            for blocks in ((2, 3), (1, 1))
        }

        def laid_out(layout: Layout) -> Sides:
            users, items, *keys = built[layout[:2]]
            return Sides(replace(users, held=layout.users_held), replace(items, held=layout.items_held), *keys)

        yield laid_out


LAYOUTS = [*(Layout(2, 3, *held) for held in PLACES), Layout(1, 1, *PLACES[3])]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_half_steps_are_those_of_a_dense_loop(toy: ToySides, layout: Layout) -> None:
    """Exactly the same whole numbers, those of heavy items from all blocks of users."""
    laid_out = toy(layout)
    items = half_step(laid_out.items, key_rows)
    users = half_step(laid_out.users, adding_parts(neighbours, Spread(), None), items)
    later = half_step(laid_out.items, neighbours, users)
    of_users = dense_sums(table(), dense_start(laid_out.item_keys))
    expected = dense_sums(table().T, of_users)
    np.testing.assert_array_equal(rows_of(laid_out.users, users), of_users)
    np.testing.assert_array_equal(rows_of(laid_out.items, later), expected)
    np.testing.assert_array_equal(later.sums["total"], expected.sum(axis=0))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_pairs_with_heavy_items_are_scored_where_the_users_are(toy: ToySides, layout: Layout) -> None:
    """By the items as they have moved, and added to what the items have of their own pairs."""
    laid_out = toy(layout)
    users, items = half_step(laid_out.users, key_rows), half_step(laid_out.items, key_rows)
    items = replace(items, sums={**items.sums, "scores": np.array(1.0)})
    after = scored(laid_out.users, Spread(), None, users, items)
    of_users, of_items = dense_start(laid_out.user_keys), dense_start(laid_out.item_keys)
    scores = (table() * (of_users @ of_items.T))[:, HEAVY.idx]
    assert after.sums["scores"] == 1.0 + scores.sum()
    np.testing.assert_array_equal(after.sums["total"], items.sums["total"])


@pytest.mark.parametrize("held", PLACES, ids=["both-held", "users-held", "items-held", "both-placed"])
def test_what_heavy_items_cost(
    spark: SparkSession, toy: ToySides, held: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-steps move no more often than others; their scores are one job, without them none."""
    users_held, items_held = held
    cost = Cost(spark, monkeypatch)
    laid_out = toy(Layout(2, 3, *held))
    laid_out.users.frame.count()
    laid_out.items.frame.count()
    items = half_step(laid_out.items, key_rows)
    kernel = adding_parts(neighbours, Spread(), None)
    users, jobs, moved, _ = cost.of(f"users {held}", lambda: half_step(laid_out.users, kernel, items))
    assert (jobs, moved) == (1, 0 if items_held else 1)
    later, jobs, moved, _ = cost.of(f"items {held}", lambda: half_step(laid_out.items, neighbours, users))
    assert (jobs, moved) == (1, 0 if users_held else 1)
    later = replace(later, sums={**later.sums, "scores": np.array(0.0)})
    _, jobs, moved, _ = cost.of(f"scores {held}", lambda: scored(laid_out.users, Spread(), None, users, later))
    assert (jobs, moved) == (1, 0 if users_held else 1)
    sums = {name: part for name, part in later.sums.items() if name != heavy.ROWS}
    light = replace(later, sums=sums)
    assert scored(laid_out.users, Spread(), None, users, light) is light


def test_other_steps_than_those_that_split_are_left_as_they_are() -> None:
    assert adding_parts(remember, object(), None) is remember
