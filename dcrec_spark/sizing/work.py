"""How much work each stage of a fit is, in units whose seconds can be measured, and how many bytes it holds and moves.

N ratings of U users and I items, L factors of the exposure, K of the outcome. Work that the cores share is counted per
core; "fixed" is what a stage takes whatever its size.

    layout      ids are indexed, both sides' blocks are built          N, U + I
    iteration   of stage 1, with its ELBO                              N L, (U + I) L, X_L
    between     users settle, a_hat is attached, the first sweep       N L, N K^2, (U + I) K^3, X_L
    sweep       of stage 2: normal equations, Cholesky                 N K^2, (U + I) K^3, X_K
    tables      of the fitted rows                                     (U + I) (L + K)
    ranking     of all users, none of their items left out             U I (L + K), U

X counts the numbers that both sides send: each row goes once to every block that names it.
"""

from math import ceil
from typing import NamedTuple

# Of a block's pairs. Spark copies them about six times on their way to Python, and doubles buffers as they grow.
CELL_BYTES = 72 * 2**20
# Of what a block remembers of its rows; it sends some times as much. Two tasks with 68 MB each ran out of a heap of
# 6 GB (a million users and items, rank 50), and did not with 41 MB.
REMEMBERED_BYTES = 41 * 2**20
# The rows of the other side that a block needs come to its task all at once.
INBOX_BYTES = 2**30
# Of a pair in a block: where its row is in the inbox, its rating (a byte for stars), its a_hat.
BYTES_OF_A_PAIR = {"float64": 4 + 1 + 8, "float32": 4 + 1 + 4}
BYTES_OF_A_NUMBER = {"float64": 8, "float32": 4}
STAGES = ("layout", "iteration", "between", "sweep", "tables", "ranking")


class Size(NamedTuple):
    """Of the ratings, and of the models that are fitted to them."""

    users: int
    items: int
    ratings: int
    exposure_rank: int
    outcome_rank: int

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
        "iteration": {"NL": n * first, "(U+I)L": rows * first, "X": sent * first},
        "between": {"NL": n * first, "NK2": n * second**2, "(U+I)K3": rows * second**3, "X": sent * first},
        "sweep": {"NK2": n * second**2, "(U+I)K3": rows * second**3, "X": sent * second},
        "tables": {"(U+I)(L+K)": rows * (first + second)},
        "ranking": {"UI(L+K)": size.users * size.items * (first + second), "U": size.users},
    }[stage]
    return {"fixed": 1.0} | {unit: count / cores for unit, count in shared.items()}


def least_blocks(own_rows: int, source_rows: int, ratings: int, width: int) -> int:
    """Return into how many blocks a side is cut, so that each fits into a task, and its cells into Spark's buffers.

    own_rows, source_rows : of the side and of the other one. width : numbers that a row sends at most; what a block
    remembers of one are half as many again, at most.
    """
    pairs = ratings * BYTES_OF_A_PAIR["float64"] / CELL_BYTES
    remembered = own_rows * 1.5 * width * 8 / REMEMBERED_BYTES
    named = ratings * width * 8 / INBOX_BYTES if source_rows * width * 8 > INBOX_BYTES else 1
    return ceil(max(pairs, remembered, named))


def blocks(size: Size, cores: int) -> tuple[int, int]:
    """Return how many blocks users and items have: as many for each core as keep them small enough."""
    sides = (size.users, size.items), (size.items, size.users)
    of_users, of_items = (
        min(own, cores * ceil(least_blocks(own, other, size.ratings, size.width) / cores)) for own, other in sides
    )
    return of_users, of_items


def rows_sent(size: Size, cores: int) -> int:
    """Return how many rows both sides send in an iteration or a sweep, at most."""
    of_users, of_items = blocks(size, cores)
    return min(size.ratings, size.users * of_items) + min(size.ratings, size.items * of_users)


def bytes_of_blocks(size: Size, precision: str = "float64") -> float:
    """Return what the blocks of both sides take on the cluster, about; they are kept for the whole fit."""
    return 2.0 * size.ratings * BYTES_OF_A_PAIR[precision]


def bytes_of_a_task(size: Size, cores: int, precision: str = "float64") -> float:
    """Return how much a Python worker holds at most, about, while it updates the largest block of either side.

    A block; the rows of the other side that its pairs name, twice (as they come, and as an array); its own rows twice.
    """
    number = BYTES_OF_A_NUMBER[precision] * size.width
    sides = zip(blocks(size, cores), (size.users, size.items), (size.items, size.users), strict=True)
    held = []
    for n_blocks, own, read in sides:
        pairs = -(-size.ratings // n_blocks)
        held.append(pairs * BYTES_OF_A_PAIR[precision] + 2 * number * (min(pairs, read) + -(-own // n_blocks)))
    return float(max(held))


def bytes_of_a_sweep(size: Size, cores: int, precision: str = "float64") -> float:
    """Return how much goes over the network in a sweep, at most: each row once to each block that names it."""
    return float(rows_sent(size, cores) * size.width * BYTES_OF_A_NUMBER[precision])
