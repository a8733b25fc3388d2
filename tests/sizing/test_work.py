"""How much a stage has to do, and how many bytes a fit holds and moves."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.engine.build import build_process_side
from dcrec_spark.engine.cells import unpack
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.sizing.work import (
    BYTES_OF_A_PAIR,
    BYTES_TO_BUILD_A_PAIR,
    CELL_BYTES,
    HEAVY_BYTES,
    INBOX_BYTES,
    REMEMBERED_BYTES,
    STAGES,
    WORKER_BYTES,
    Size,
    block_count,
    blocks,
    bytes_of_a_sweep,
    bytes_of_a_worker,
    bytes_of_blocks,
    least_blocks,
    pairs_of_a_block,
    rows_sent,
    work,
)
from tests.sides import Layout, sides_of

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


@pytest.mark.parametrize(
    ("n_rows", "cores", "wanted", "least", "expected"),
    [
        (1000, 4, None, 1, 4),  # one for each core
        (1000, 4, None, 10, 12),  # as many for each core as are needed
        (1000, 4, 7, 1, 7),  # what was asked for
        (3, 4, None, 10, 3),  # never more than rows
        (3, 4, 7, 1, 3),
        (0, 4, None, 1, 1),
    ],
)
def test_block_count(n_rows: int, cores: int, wanted: int | None, least: int, expected: int) -> None:
    assert block_count(n_rows, cores, wanted, least) == expected


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
        build_process_side(
            "user",
            {"row": pair // items, "col": pair % items, **numbers},
            np.arange(users),
            items,
            [*numbers],
            "float64",
        ),
        build_process_side(
            "item",
            {"row": pair % items, "col": pair // items, **numbers},
            np.arange(items),
            users,
            [*numbers],
            "float64",
        ),
    ]
    held = sum(array.nbytes for side in sides for array in side.block.values())
    said = bytes_of_blocks(Size(users, items, n, 10, 10))
    assert said <= held <= 1.1 * said


@pytest.mark.parametrize("users", [10**5, 10**7, 10**9])
@pytest.mark.parametrize("ratings", [10**6, 10**8, 10**10])
@pytest.mark.parametrize("rank", [10, 100])
def test_a_worker_is_bounded_whatever_the_size(users: int, ratings: int, rank: int) -> None:
    """Three times what it reads at once and its own rows, and a block."""
    said = bytes_of_a_worker(Size(users, 10**6, ratings, rank, rank), 64)
    assert said <= WORKER_BYTES + 3 * INBOX_BYTES + 3 * REMEMBERED_BYTES + CELL_BYTES


def test_a_heavy_user_is_held_whole() -> None:
    """His pairs stay in one block, however many blocks there are: what it takes to build them comes on top."""
    size = Size(10**6, 10**8, 10**10, 10, 50)
    heavy = size._replace(heaviest=60_000_000)
    assert bytes_of_a_worker(heavy, 256) >= WORKER_BYTES + 60_000_000 * BYTES_TO_BUILD_A_PAIR
    assert bytes_of_a_worker(size._replace(heaviest=1000), 256) == pytest.approx(bytes_of_a_worker(size, 256), rel=1e-3)


@pytest.mark.parametrize("rank", [10, 50, 200])
def test_a_heavy_item_asks_for_no_more_however_heavy(rank: int) -> None:
    """Half of what other rows' pairs name, and what all blocks of users have added up for it: 16 GB at rank 200."""
    size = Size(10**8, 10**6, 10**10, rank, rank)
    without = bytes_of_a_worker(size, 256)
    said = [bytes_of_a_worker(size._replace(heaviest=heaviest), 256) for heaviest in (10**7, 10**8)]
    of_parts = blocks(size, 256)[0] * 8 * (rank + 2) * (rank + 5) // 2
    assert said[0] == said[1] <= 2 * without + 3 * max(HEAVY_BYTES, of_parts)


def test_no_block_of_items_has_more_than_its_share_and_one_item_that_is_not_split(spark: SparkSession) -> None:
    """Pairs and their bytes, of blocks as a fit builds them; users' blocks have all pairs."""
    observed = np.random.default_rng(3).random((300, 40)) < np.geomspace(1.0, 0.02, 40)
    n, n_blocks, whole = int(observed.sum()), 20, 60
    pairs_of_items = observed.sum(axis=0)
    idx = np.flatnonzero(pairs_of_items > whole)
    values = {"rating": np.full(observed.shape, 3.0), "a_hat": np.random.default_rng(4).random(observed.shape)}
    heavy, layout = Heavy(idx, pairs_of_items[idx]), Layout(2, n_blocks, False, False)
    with sides_of(spark, observed, values, layout, heavy=heavy) as sides:
        built = [unpack(row.data) for row in sides.items.frame.collect()]
        of_users = sum(row.nonzeros for row in sides.users.frame.collect())
    most = pairs_of_a_block(n, n_blocks, whole)
    assert of_users == n
    for block in built:
        assert len(block["col"]) <= most < pairs_of_items.max()
        assert sum(block[name].nbytes for name in ("col", "rating", "a_hat")) <= most * BYTES_OF_A_PAIR


SEEN = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "sizes.json").read_text())


OVER_BLOCKS = [name for name, run in SEEN.items() if run["exchange"] == "blocks" and "worker_peak_gb" in run]


@pytest.mark.parametrize("run", OVER_BLOCKS)
def test_no_worker_took_more_than_is_said(run: str) -> None:
    """Nor less than half of it: peaks of whole fits, as they were measured."""
    size = Size(*(SEEN[run][name] for name in ("users", "items", "ratings", "rank", "rank")))
    said = bytes_of_a_worker(size, SEEN[run]["cores"]) / 2**30
    assert said / 2 <= SEEN[run]["worker_peak_gb"] <= said


def test_a_sweep_sends_no_row_more_often_than_it_is_named() -> None:
    few = Size(users=10**6, items=10**6, ratings=1000, exposure_rank=1, outcome_rank=9)
    assert bytes_of_a_sweep(few, 64) == 2 * 1000 * 20 * 8
    dense = Size(users=1000, items=100, ratings=10**5, exposure_rank=1, outcome_rank=9)
    assert rows_sent(dense, 4) == 4 * 1100
