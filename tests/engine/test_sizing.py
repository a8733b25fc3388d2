"""Sizes of blocks, and the memory that ``dcrec plan`` prints."""

import numpy as np
import pytest

from dcrec_spark.engine.build import build_process_side
from dcrec_spark.engine.sizing import (
    BYTES_OF_A_PAIR,
    GB,
    MB,
    Size,
    block_count,
    least_blocks,
    most_heavy,
    pairs_of_a_row,
    plan_cluster,
    short_of_memory,
)

# Peak of a Python worker in GB, of whole fits over blocks on two cores: users, items, ratings, both ranks.
MEASURED = [
    (20_000, 5_000, 1_000_000, 50, 0.50),
    (59_720, 9_999, 2_000_000, 30, 0.44),
    (283_876, 19_986, 3_000_000, 50, 0.97),
    (69_998, 10_000, 10_000_000, 50, 1.09),
    (699_938, 50_000, 100_000_000, 10, 1.27),
    (984_005, 960_984, 20_000_000, 10, 0.93),
]


@pytest.mark.parametrize(
    ("n_rows", "wanted", "least", "expected"),
    [(1000, None, 1, 4), (1000, None, 10, 12), (1000, 7, 1, 7), (3, None, 10, 3), (0, None, 1, 1)],
)
def test_blocks_are_a_multiple_of_the_cores(n_rows: int, wanted: int | None, least: int, expected: int) -> None:
    assert block_count(n_rows, 4, wanted, least) == expected


def test_blocks_are_cut_until_each_fits() -> None:
    """72 MB hold 5.8 million pairs; 41 MB hold the state of 36,000 rows of width 100; an inbox holds 1 GB.

    Where a task's memory is known, a side's state below an eighth of it is not cut. Else a block's state has room in
    the heap that Spark does not hold data in, which the tasks of an executor share. Pairs have a sixteenth.
    """
    assert least_blocks(10, 10, ratings=5_800_000, width=10) == 1
    assert least_blocks(10, 10, ratings=6_000_000, width=10) == 2
    assert least_blocks(10**6, 10, ratings=1000, width=100) == 28
    assert least_blocks(10, 10**7, ratings=10**8, width=100) == 75
    of_tasks = [least_blocks(10**6, 10, ratings=1000, width=100, of_task=gb * GB) for gb in (0.4, 1.2, 8, 10)]
    assert of_tasks == [28, 21, 16, 1]
    assert least_blocks(10**6, 10, ratings=1000, width=100, of_task=1.2 * GB, number_bytes=4) == 11
    assert least_blocks(10**6, 10, ratings=1000, width=100, of_task=1.2 * GB, tasks=4) == 37
    assert [least_blocks(10, 10, ratings=6_000_000, width=10, of_task=gb * GB) for gb in (0.4, 1.6)] == [3, 2]
    assert least_blocks(10, 10, ratings=6_000_000, width=10, of_task=0.4 * GB, a_hats=2) == 5
    assert most_heavy(22) > most_heavy(202) >= 1
    for a_hats in (0, 1, 2):  # an item that is not heavy has room in a block
        assert least_blocks(10, 10, ratings=pairs_of_a_row(2, a_hats), width=2, a_hats=a_hats) == 1


def test_executors_with_too_little_heap_are_told_what_the_fit_needs() -> None:
    """With blocks in memory, two executors of 4 GB ran out of it, and two of 6 GB did not."""
    size = Size(700_000, 50_000, 100_000_000, rank=50, number_bytes=4)
    data_of = {heap: 0.6 * (heap * GB - 300 * MB) for heap in (4, 6)}
    planned = plan_cluster(size, cores=1, executors=2)
    assert 4 * GB < planned.heap < 6 * GB
    told = short_of_memory(size, data_of[4], tasks=1, cores=2)
    assert told is not None
    assert "a heap of 4.0 GB is found, and 4.2 GB are planned for 100,000,000 ratings" in told
    assert f"spark.executor.memory={planned.conf()['spark.executor.memory']}" in told
    assert short_of_memory(size, data_of[6], tasks=1, cores=2) is None
    # With spark.memory.fraction=0.4 the same 6 GB have room for less data. With 0.9 the plan stays.
    told = short_of_memory(size, data_of[6] * 0.4 / 0.6, tasks=1, cores=2, data_share=0.4)
    assert told is not None
    assert "a heap of 6.0 GB is found, and 6.2 GB are planned" in told
    told = short_of_memory(size, data_of[4] * 0.9 / 0.6, tasks=1, cores=2, data_share=0.9)
    assert told is not None
    assert "a heap of 4.0 GB is found, and 4.2 GB are planned" in told
    assert short_of_memory(size, 0.0, tasks=1, cores=2) is None  # unknown
    assert short_of_memory(Size(20_000, 5_000, 100_000), 0.6 * (GB - 300 * MB), tasks=1, cores=2) is None  # little data


def test_pairs_take_their_bytes_in_both_blocks() -> None:
    rng = np.random.default_rng(0)
    users, items, n = 500, 400, 40_000
    user, item = np.divmod(rng.choice(users * items, n, replace=False), items)
    values = {"rating": rng.integers(1, 6, n).astype(float), "a_hat": rng.random(n)}
    sides = [
        build_process_side(name, {"row": row, "col": col, **values}, np.arange(n_rows), n_source, [*values], "float64")
        for name, row, col, n_rows, n_source in (("user", user, item, users, items), ("item", item, user, items, users))
    ]
    size = sum(array.nbytes for side in sides for array in side.block.values())
    assert 1.0 <= size / (2 * n * (BYTES_OF_A_PAIR + 8)) <= 1.1


@pytest.mark.parametrize(("users", "items", "ratings", "rank", "peak"), MEASURED)
def test_workers_get_what_they_took_or_a_bit_more(users: int, items: int, ratings: int, rank: int, peak: float) -> None:
    plan = plan_cluster(Size(users, items, ratings, rank, rank), cores=2, executors=1)
    worker = (plan.overhead - 0.1 * plan.heap) / 2 / GB
    assert peak <= worker < 2 * peak
