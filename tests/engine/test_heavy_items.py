"""Heavy items: no pair is lost, every block gets the rows that it needs, and half-steps are those of a dense loop."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.blocks import first_place, read_block
from dcrec_spark.engine.heavy_items import Heavy, add_scores, with_parts
from tests.engine.memory_side import memory_sides
from tests.engine.test_build import Ratings, random_ratings
from tests.engine.test_cluster_side import cost_of, planned
from tests.engine.test_exchange import SOME
from tests.engine.toy_kernels import Splits, key_rows
from tests.engine.toy_sides import PLACES, dense_start, dense_sums, neighbours, rows_of, table, toy_sides


@st.composite
def with_heavy(draw: st.DrawFn) -> tuple[Ratings, Heavy]:
    """Users as rows, items as columns, some of these heavy: none, all, those without pairs too."""
    ratings = draw(random_ratings())
    idx = np.array(sorted(draw(st.sets(st.integers(0, ratings.n_cols - 1)))), np.int64)
    return ratings, Heavy(idx, np.array([(ratings.col == i).sum() for i in idx], np.int64))


@settings(max_examples=40)
@given(with_heavy())
def test_either_side_sends_what_the_other_needs(drawn: tuple[Ratings, Heavy]) -> None:
    """Heavy items go to all blocks of users, and call for no user."""
    ratings, items = drawn
    pairs = {"user": ratings.row, "item": ratings.col, "rating": ratings.value}
    keys = np.arange(ratings.n_rows), np.arange(ratings.n_cols)
    sides = memory_sides(pairs, keys, (ratings.row_blocks, ratings.col_blocks), heavy=items)
    of_users, of_items = ([read_block(cell) for cell in side.blocks] for side in sides)
    rows, columns = (ratings.n_rows, ratings.row_blocks), (ratings.n_cols, ratings.col_blocks)
    for targets, sources, counts in ((of_users, of_items, columns), (of_items, of_users, rows)):
        for number, target in enumerate(targets):
            inbox = [first_place(*counts, np.int64(n)) + source.routes[number] for n, source in enumerate(sources)]
            np.testing.assert_array_equal(np.concatenate(inbox), target.need_at)


@pytest.mark.parametrize("broadcasts", [PLACES[0], PLACES[3]], ids=["broadcast", "blocks"])
def test_spark_runs_the_same_half_steps_with_one_job_more(spark: SparkSession, broadcasts: tuple[bool, bool]) -> None:
    """Half-steps move no more messages than without heavy items; their scores are one job."""
    with toy_sides(spark, (2, 3), SOME) as built:
        sides = planned(built.broadcasting(*broadcasts))
        sides.users.frame.count()
        sides.items.frame.count()
        moved = int(not broadcasts[0])
        items = sides.items.half_step(key_rows)
        kernel = with_parts(neighbours, Splits(), None)
        users, cost = cost_of(spark, f"users {broadcasts}", lambda: sides.users.half_step(kernel, items))
        assert cost[:2] == (1, moved)
        later, cost = cost_of(spark, f"items {broadcasts}", lambda: sides.items.half_step(neighbours, users))
        assert cost[:2] == (1, moved)
        of_users = dense_sums(table(), dense_start(sides.item_keys))
        np.testing.assert_array_equal(rows_of(sides.items, later), dense_sums(table().T, of_users))
        later = later.with_sums({**later.sums, "scores": np.array(0.0)})
        score = partial(add_scores, sides.users, Splits(), None, users)
        scored, cost = cost_of(spark, f"scores {broadcasts}", lambda: score(later))
        assert cost[:2] == (1, moved)
        scores = (table() * (of_users @ rows_of(sides.items, later).T))[:, SOME.idx]
        assert scored.sums["scores"] == scores.sum()
        light = later.with_sums({name: part for name, part in later.sums.items() if name != heavy_items.ROWS})
        assert score(light) is light
