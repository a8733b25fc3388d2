"""How much work each stage of a fit is, in units whose seconds can be measured, and how many bytes it holds and moves.

N ratings of U users and I items, L factors of the exposure, K of the outcome. Work that the cores share is counted per
core; "fixed" is what a stage takes whatever its size.

    layout      ids are indexed, both sides' blocks are built          N, U + I
    iteration   of stage 1, with its ELBO                              N, N L, (U + I) L, X_L
    between     users settle, a_hat is attached, the first sweep       N L, N K^2, (U + I) K^3, X_L
    sweep       of stage 2: normal equations, Cholesky                 N, N K^2, (U + I) K^3, X_K
    tables      of the fitted rows                                     (U + I) (L + K)
    ranking     of all users, none of their items left out             U I (L + K), U

X counts the numbers that both sides send: each row goes once to every block that names it.
"""

from math import ceil
from typing import NamedTuple

# Of a block's pairs. Spark copies them about six times on their way to Python, and doubles buffers as they grow.
CELL_BYTES = 72 * 2**20
# Of what a block remembers of its rows; it sends some times as much. Two tasks with 68 MB each ran out of a heap of
# 6 GB (a million users and items, rank 50); with 41 MB they got through four iterations of stage 1, and were stopped.
REMEMBERED_BYTES = 41 * 2**20
# The rows of the other side that a block needs come to its task all at once.
INBOX_BYTES = 2**30
# Of a pair in a block: where its row is in the inbox, its rating (a byte for stars), its a_hat. While it is built: what
# was seen where pairs decide.
BYTES_OF_A_PAIR = 4 + 1 + 8
BYTES_TO_BUILD_A_PAIR = 160
# Of what a block of users adds up for all heavy items.
HEAVY_BYTES = 64 * 2**20
# Of a Python worker that has imported what it needs, and of memory that it does not give back between blocks: with
# 100M ratings, of which each had nine, it took 1.27 GB at most.
WORKER_BYTES = 0.5 * 2**30
STAGES = ("layout", "iteration", "between", "sweep", "tables", "ranking")


class Size(NamedTuple):
    """Of the ratings, and of the models that are fitted to them.

    heaviest : ratings of the user or the item that has most of them.
    """

    users: int
    items: int
    ratings: int
    exposure_rank: int
    outcome_rank: int
    heaviest: int = 0

    @property
    def rows(self) -> int:
        """Of both sides."""
        return self.users + self.items

    @property
    def width(self) -> int:
        """Numbers that a row sends at most: means and geometric means of its factors, and of gamma."""
        return 2 * max(self.exposure_rank, self.outcome_rank + 1)


def work(stage: str, size: Size, cores: int) -> dict[str, float]:
    """Return unit -> how many of it the stage is.

    Raises
    ------
    KeyError : there is no such stage.
    """
    n, rows, first, second = size.ratings, size.rows, size.exposure_rank, size.outcome_rank
    sent = rows_sent(size, cores)
    shared = {
        "layout": {"N": n, "U+I": rows},
        "iteration": {"N": n, "NL": n * first, "(U+I)L": rows * first, "X": sent * first},
        "between": {"NL": n * first, "NK2": n * second**2, "(U+I)K3": rows * second**3, "X": sent * first},
        "sweep": {"N": n, "NK2": n * second**2, "(U+I)K3": rows * second**3, "X": sent * second},
        "tables": {"(U+I)(L+K)": rows * (first + second)},
        "ranking": {"UI(L+K)": size.users * size.items * (first + second), "U": size.users},
    }[stage]
    return {"fixed": 1.0} | {unit: count / cores for unit, count in shared.items()}


def least_blocks(own_rows: int, source_rows: int, ratings: int, width: int) -> int:
    """Return into how many blocks a side is cut, so that each fits into a task, and its cells into Spark's buffers.

    own_rows, source_rows : of the side and of the other one. width : numbers that a row sends at most; what a block
    remembers of one are half as many again, at most.
    """
    pairs = ratings * BYTES_OF_A_PAIR / CELL_BYTES
    remembered = own_rows * 1.5 * width * 8 / REMEMBERED_BYTES
    named = ratings * width * 8 / INBOX_BYTES if source_rows * width * 8 > INBOX_BYTES else 1
    return ceil(max(pairs, remembered, named))


def pairs_of_a_row(width: int) -> int:
    """Return how many pairs an item may have in its block: with what they name no more than half of what others do.

    width : numbers that a row sends at most. Items with more are heavy, and leave theirs to the users' blocks.
    """
    return min(CELL_BYTES // BYTES_OF_A_PAIR, INBOX_BYTES // 2 // (8 * width))


def most_heavy(width: int) -> int:
    """Return how many items may be heavy: a block of users adds up half a matrix for each, as wide as rows at most."""
    return max(1, HEAVY_BYTES // _bytes_of_sums(width))


def _bytes_of_sums(width: int) -> int:
    """Return what is added up for one item: half of a symmetric matrix, and a vector."""
    size = width // 2 + 1
    return 8 * (size * (size + 1) // 2 + size)


def block_count(n_rows: int, cores: int, wanted: int | None, least: int) -> int:
    """Choose the number of blocks: what was asked for, else as many for each core as keep blocks small enough.

    Few blocks make few, long tasks: below some ten million nonzeros the fixed cost of a task decides.

    Parameters
    ----------
    n_rows : of the side. cores : tasks that run side by side. wanted : what was asked for, or None.
    least : how many blocks keep each small enough.
    """
    return max(1, min(cores * -(-least // cores) if wanted is None else wanted, n_rows))


def blocks(size: Size, cores: int) -> tuple[int, int]:
    """Return how many blocks users and items have, where nobody asks for a number."""
    sides = (size.users, size.items), (size.items, size.users)
    of_users, of_items = (
        block_count(own, cores, None, least_blocks(own, other, size.ratings, size.width)) for own, other in sides
    )
    return of_users, of_items


def rows_sent(size: Size, cores: int) -> int:
    """Return how many rows both sides send in an iteration or a sweep, at most."""
    of_users, of_items = blocks(size, cores)
    return min(size.ratings, size.users * of_items) + min(size.ratings, size.items * of_users)


def bytes_of_blocks(size: Size) -> float:
    """Return what the blocks of both sides take on the cluster, about; they are kept for the whole fit."""
    return 2.0 * size.ratings * BYTES_OF_A_PAIR


def bytes_of_a_worker(size: Size, cores: int) -> float:
    """Return how much a Python worker takes at most, about: to build the largest block, or to update it.

    Building sorts a block's pairs. Updating holds the block, three times its rows and those that its pairs name, and as
    often what is added up for heavy items.
    """
    n_blocks = blocks(size, cores)
    sides = zip(n_blocks, (size.users, size.items), heaviest_whole(size), _sums_of_heavy(size, n_blocks), strict=True)
    held = []
    for (n, own, heaviest, sums), read in zip(sides, (size.items, size.users), strict=True):
        pairs = pairs_of_a_block(size.ratings, n, heaviest)
        rows = min(pairs, read) + -(-own // n)
        held += [pairs * BYTES_TO_BUILD_A_PAIR, pairs * BYTES_OF_A_PAIR + 3 * (8 * size.width * rows + sums)]
    return WORKER_BYTES + max(held)


def pairs_of_a_block(ratings: int, n_blocks: int, heaviest: int) -> int:
    """Return how many pairs a block has at most, about: an even share, and those of the heaviest row in it."""
    return min(ratings, -(-ratings // n_blocks) + heaviest)


def heaviest_whole(size: Size) -> tuple[int, int]:
    """Return how many pairs the heaviest user has at most, and the heaviest item that is not split.

    No more items than :func:`most_heavy` are taken to have more.
    """
    return min(size.heaviest, size.items), min(size.heaviest, pairs_of_a_row(size.width))


def _sums_of_heavy(size: Size, n_blocks: tuple[int, int]) -> tuple[float, float]:
    """Return what a block of users adds up for heavy items at most, and what comes of it to a block of items."""
    whole = pairs_of_a_row(size.width)
    if size.heaviest <= whole:
        return 0.0, 0.0
    heavy, of_one = min(most_heavy(size.width), size.ratings // whole), _bytes_of_sums(size.width)
    return heavy * of_one, -(-heavy // n_blocks[1]) * n_blocks[0] * of_one


def bytes_of_a_sweep(size: Size, cores: int) -> float:
    """Return how much goes over the network in a sweep, at most: each row once to each block that names it."""
    return float(rows_sent(size, cores) * size.width * 8)
