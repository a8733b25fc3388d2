"""Sizes of blocks, and the memory and disk that a fit on the cluster takes.

The engine cuts each side into blocks by :func:`least_blocks` and :func:`block_count`. :func:`plan_cluster` adds up what
these blocks take in the executors' JVMs, in their Python workers and on their disks.

Measured on ``local-cluster``, two executors of one core, 1M ratings of 20,000 users and 5,000 items, exposure rank 10,
rank 50, exchange=blocks: an executor's JVM peaked at 0.73 GB (planned 1.25), a Python worker at 0.50 GB (planned 0.59).
"""

from math import ceil
from typing import NamedTuple

MB, GB = 2**20, 2**30
# Pairs of one block. Spark copies them about six times on the way to Python, and doubles buffers as they grow.
CELL_BYTES = 72 * MB
# A block's pairs, of what a task may take in its executor's heap. In executors of 1 GB that collect with G1, both
# stages lost tasks with blocks of 75 MB. What smaller blocks add to the other collector was not measured apart.
SHARE_OF_CELL = 1 / 16
# A whole side's state that is not cut further, of the same. Each row goes to every block that needs it, so fewer blocks
# send less: with 2 a fit at rank 50 took two thirds of its time with 10.
SHARE_OF_TASK = 1 / 8
# With larger states, cached data take all that Spark allows them: 0.6 of the heap without 300 MB. Java's old generation
# is two thirds of the heap. The difference is left for copies of a block's cell: this share of a task's memory, and two
# thirds of 300 MB for all tasks. Cells of 136 MB ran out of a heap of 6 GB with two tasks.
LEFT_OF_TASK, LEFT_OF_HEAP = 2 / 3 / 0.6 - 1, 200 * MB
# The state of one block where the heap is unknown.
LEAST_STATE_BYTES = 41 * MB
# Rows of the other side that reach a task at once.
INBOX_BYTES = GB
# Of a pair in a block: its row's place in the inbox, and its rating (a byte for stars). It may have an a_hat, and where
# sums over all pairs have a_hat too, one that is not left out of its own. And while it is built.
BYTES_OF_A_PAIR = 4 + 1
BYTES_TO_BUILD_A_PAIR = 160
# Partial sums of a block of users for all heavy items.
HEAVY_BYTES = 64 * MB
# Python worker with its imports, and memory that it does not return between blocks.
WORKER_BYTES = 0.5 * GB
# Copies of a cell in the heap.
_COPIES = 6
# JVM of an executor before it holds data; share of the heap that Spark uses for data; cached data for each executor.
_JVM_BYTES, _DATA_SHARE, _CACHED_BYTES = GB, 0.6, 8 * GB
# Of the heap, what Spark keeps for itself. A plan of at most so many times a JVM without data is for little data.
_RESERVED_BYTES, _LITTLE_DATA = 300 * MB, 1.25
# A pair with its ids in a shuffle, and a row's id and index in the cache.
_PAIR_IN_SHUFFLE, _ID_BYTES = 64, 100
_CHECKPOINT_INTERVAL = 10
# The driver holds the factors of a side up to so many bytes, and passes some copies on.
_DRIVER_BYTES, _HELD_BYTES, _HELD_COPIES = 2 * GB, 64 * MB, 8


def least_blocks(
    own_rows: int,
    source_rows: int,
    ratings: int,
    width: int,
    of_task: float = 0.0,
    tasks: int = 1,
    number_bytes: int = 8,
    a_hats: int = 1,
) -> int:
    """Return the number of blocks with which each fits a task, and its cells Spark's buffers.

    own_rows, source_rows : rows of the side and of the other one.
    ratings : pairs of all blocks. a_hats : that each has, 0 to 2.
    width : numbers that a row sends at most. Its state in the block has half as many again at most.
    of_task : bytes that a task may take in the heap of its executor. 0: unknown. tasks : that share this heap.
    """
    most_pairs = most_state = float(CELL_BYTES)
    if of_task:
        most_state = min(CELL_BYTES, (LEFT_OF_TASK * of_task + LEFT_OF_HEAP / tasks) / _COPIES)
        most_pairs = min(most_state, SHARE_OF_CELL * of_task)
    pairs = ratings * (BYTES_OF_A_PAIR + number_bytes * a_hats) / most_pairs
    state = own_rows * 1.5 * width * number_bytes
    remembered = 1 if state <= SHARE_OF_TASK * of_task else state / (most_state if of_task else LEAST_STATE_BYTES)
    row = width * number_bytes
    needed = ratings * row / INBOX_BYTES if source_rows * row > INBOX_BYTES else 1
    return ceil(max(pairs, remembered, needed))


def block_count(n_rows: int, cores: int, wanted: int | None, least: int) -> int:
    """Return the number of blocks of a side: ``wanted``, or a multiple of ``cores`` that is at least ``least``.

    Few blocks make few, long tasks. Below some ten million pairs the fixed cost of a task dominates.
    """
    return max(1, min(cores * -(-least // cores) if wanted is None else wanted, n_rows))


def pairs_of_a_row(width: int, a_hats: int = 1) -> int:
    """Return the number of pairs from which on an item is heavy, and leaves its pairs to the users' blocks.

    A row below it has room in a block, and takes at most half of an inbox. width, a_hats : of :func:`least_blocks`.
    """
    return min(CELL_BYTES // (BYTES_OF_A_PAIR + 8 * a_hats), INBOX_BYTES // 2 // (8 * width))


def most_heavy(width: int) -> int:
    """Return the number of items that may be heavy: a block of users has half a matrix and a vector for each."""
    size = width // 2 + 1
    return max(1, HEAVY_BYTES // (8 * (size * (size + 1) // 2 + size)))


class Size(NamedTuple):
    """Ratings, and the models that are fitted to them. number_bytes : 8 for float64, 4 for float32."""

    users: int
    items: int
    ratings: int
    rank: int = 10
    exposure_rank: int = 5
    number_bytes: int = 8

    @property
    def width(self) -> int:
        """Numbers that a row sends at most: means and geometric means of its factors, and of gamma."""
        return 2 * max(self.exposure_rank, self.rank + 1)


class ClusterPlan(NamedTuple):
    """Executors, and bytes: heap and overhead of each (Python workers are in the overhead), its disk, the driver.

    sent : by each executor in an iteration, at most.
    """

    executors: int
    cores: int
    heap: float
    overhead: float
    disk: float
    driver: float
    sent: float

    def conf(self) -> dict[str, str]:
        """Return the settings for spark-submit."""
        return {
            "spark.executor.instances": str(self.executors),
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": f"{ceil(self.heap / MB)}m",
            "spark.executor.memoryOverhead": f"{ceil(self.overhead / MB)}m",
            "spark.driver.memory": f"{ceil(self.driver / MB)}m",
        }


def plan_cluster(size: Size, cores: int, executors: int | None = None) -> ClusterPlan:
    """Plan a fit of both stages over blocks. Users and items are taken to have about equally many ratings each.

    cores : of each executor. executors : by default so many that each caches 8 GB of blocks at most.

    Examples
    --------
    >>> plan_cluster(Size(users=70_000, items=10_000, ratings=10_000_000), cores=4).executors
    1
    """
    number, width, rows = size.number_bytes, size.width, size.users + size.items
    row_bytes, pair_bytes = number * width, BYTES_OF_A_PAIR + number
    cached = 2.0 * size.ratings * pair_bytes + rows * (2 * 1.5 * row_bytes + _ID_BYTES)
    executors = executors or max(1, ceil(cached / _CACHED_BYTES))
    of_task = heap = worker = 0.0
    for _ in range(2):  # the fit makes its blocks for the heap that this comes to
        cell = sent = 0.0
        for own, other in ((size.users, size.items), (size.items, size.users)):
            least = least_blocks(own, other, size.ratings, width, of_task, cores, number)
            n_blocks = block_count(own, executors * cores, None, least)
            pairs = ceil(size.ratings / n_blocks)
            inbox, own_rows = min(pairs, other) * row_bytes, ceil(own / n_blocks) * row_bytes
            cell = max(cell, pairs * pair_bytes + 1.5 * own_rows)
            worker = max(worker, pairs * BYTES_TO_BUILD_A_PAIR, pairs * pair_bytes + 3 * (inbox + own_rows))
            sent += min(size.ratings, other * n_blocks) * row_bytes
        heap = heap or _JVM_BYTES + (cached / executors + cores * _COPIES * cell) / _DATA_SHARE
        of_task = _DATA_SHARE * heap / cores
    # Shuffled rows stay until the checkpoint after the next; before the fit all pairs are shuffled for both sides.
    disk = (2 * _CHECKPOINT_INTERVAL * sent + 2 * _PAIR_IN_SHUFFLE * size.ratings) / executors
    overhead = 0.1 * heap + cores * (WORKER_BYTES + worker)
    held = sum(n * row_bytes for n in (size.users, size.items) if n * row_bytes <= _HELD_BYTES)
    driver = _DRIVER_BYTES + _HELD_COPIES * held
    return ClusterPlan(executors, cores, heap, overhead, disk, driver, sent / executors)


def short_of_memory(size: Size, of_task: float, tasks: int, cores: int, data_share: float = _DATA_SHARE) -> str | None:
    """Return what is said if executors have less room for data than :func:`plan_cluster` gives them, else None.

    of_task, tasks : of :func:`least_blocks`. cores : of the whole cluster.
    data_share : the share of the heap that Spark gives to data.
    """
    heap = of_task * tasks / data_share + _RESERVED_BYTES
    planned = plan_cluster(size, tasks, max(1, cores // tasks)).heap
    # A JVM that does not know its memory says nothing, and for little data any heap is enough.
    is_little = planned < _LITTLE_DATA * _JVM_BYTES
    # Java and the copies of a block need as much, even where data may take a larger share.
    planned = max(planned, (planned - _RESERVED_BYTES) * _DATA_SHARE / data_share + _RESERVED_BYTES)
    if not of_task or heap >= planned or is_little:
        return None
    return (
        f"executors are short of memory, and blocks stay on disk: a heap of {heap / GB:.1f} GB is found, and "
        f"{planned / GB:.1f} GB are planned for {size.ratings:,} ratings of {size.users:,} users and {size.items:,} "
        f"items. Set spark.executor.memory={ceil(planned / MB)}m (in local mode spark.driver.memory), or take more "
        "executors"
    )
