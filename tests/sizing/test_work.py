"""How much a stage has to do, and how many bytes a fit holds and moves."""

import numpy as np
import pytest

from dcrec_spark.engine.build import block_count, local_side
from dcrec_spark.engine.cells import unpack
from dcrec_spark.sizing.work import (
    CELL_BYTES,
    INBOX_BYTES,
    STAGES,
    Size,
    blocks,
    bytes_of_a_sweep,
    bytes_of_a_task,
    bytes_of_blocks,
    least_blocks,
    rows_sent,
    work,
)

SIZE = Size(users=70_000, items=10_000, ratings=10_000_000, exposure_rank=10, outcome_rank=50)


@pytest.mark.parametrize("stage", STAGES)
def test_cores_share_all_but_what_is_fixed(stage: str) -> None:
    """And what is sent, which grows with the number of blocks."""
    one, four = ({unit: n for unit, n in work(stage, SIZE, cores).items() if unit != "X"} for cores in (1, 4))
    assert one.pop("fixed") == four.pop("fixed") == 1
    assert {unit: 4 * count for unit, count in four.items()} == one


def test_normal_equations_grow_with_the_square_of_the_rank_and_solving_with_its_cube() -> None:
    rank_50, rank_100 = work("sweep", SIZE, 1), work("sweep", SIZE._replace(outcome_rank=100), 1)
    assert [rank_100[unit] / rank_50[unit] for unit in ("NK2", "(U+I)K3")] == [4, 8]


def test_a_stage_that_there_is_not() -> None:
    with pytest.raises(KeyError):
        work("lunch", SIZE, 1)


@pytest.mark.parametrize("users", [70_000, 10**7, 10**9])
@pytest.mark.parametrize("ratings", [1000, 10**7, 10**9])
def test_blocks_are_as_many_as_the_layout_makes(users: int, ratings: int) -> None:
    size = SIZE._replace(users=users, ratings=ratings)
    rows = ((size.users, size.items), (size.items, size.users))
    made = [block_count(own, 8, None, least_blocks(own, other, ratings, size.width)) for own, other in rows]
    assert list(blocks(size, cores=8)) == made


def test_blocks_are_cut_until_each_fits() -> None:
    """72 MB hold 5.8 million pairs, 41 MB 36,000 rows with 150 numbers each; others' rows are read by the gigabyte."""
    assert least_blocks(10, 10, ratings=5_800_000, width=10) == 1
    assert least_blocks(10, 10, ratings=6_000_000, width=10) == 2
    assert least_blocks(10**6, 10, ratings=1000, width=100) == 28
    assert least_blocks(10, 10**7, ratings=10**8, width=100) == 75


def test_blocks_take_so_many_bytes() -> None:
    """But for where each row begins, which is little where rows have some ratings."""
    rng = np.random.default_rng(0)
    users, items, n = 500, 400, 40_000
    pair = rng.choice(users * items, n, replace=False)
    numbers = {"rating": rng.integers(1, 6, n).astype(float), "a_hat": rng.random(n)}
    sides = [
        local_side(
            "user",
            {"row": pair // items, "col": pair % items, **numbers},
            np.arange(users),
            items,
            [*numbers],
            "float64",
        ),
        local_side(
            "item",
            {"row": pair % items, "col": pair // items, **numbers},
            np.arange(items),
            users,
            [*numbers],
            "float64",
        ),
    ]
    held = sum(array.nbytes for side in sides for array in unpack(side.data).values())
    said = bytes_of_blocks(Size(users, items, n, 10, 10))
    assert said <= held <= 1.1 * said


@pytest.mark.parametrize("users", [10**5, 10**7, 10**9])
@pytest.mark.parametrize("ratings", [10**6, 10**8, 10**10])
@pytest.mark.parametrize("rank", [10, 100])
def test_a_task_is_bounded_whatever_the_size(users: int, ratings: int, rank: int) -> None:
    """Twice what it reads at once, a block, and what is remembered and sent of its rows."""
    assert bytes_of_a_task(Size(users, 10**6, ratings, rank, rank), 64) <= 2 * INBOX_BYTES + 3 * CELL_BYTES


def test_a_sweep_sends_no_row_more_often_than_it_is_named() -> None:
    few = Size(users=10**6, items=10**6, ratings=1000, exposure_rank=1, outcome_rank=9)
    assert bytes_of_a_sweep(few, 64) == 2 * 1000 * 20 * 8
    dense = Size(users=1000, items=100, ratings=10**5, exposure_rank=1, outcome_rank=9)
    assert rows_sent(dense, 4) == 4 * 1100
