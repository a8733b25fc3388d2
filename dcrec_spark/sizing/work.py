"""How much work each stage of a fit is, in units whose seconds can be measured, and how many bytes it holds and moves.

N ratings of U users and I items, L factors of the exposure, K of the outcome. Work that the cores share is counted per
core; "fixed" is what a stage takes whatever its size.

    layout      ids are indexed, both sides' blocks are built          N, U + I
    iteration   of stage 1, with its ELBO                              N L, (U + I) L
    between     users settle, a_hat is attached, the first sweep       N L, N K^2, (U + I) K^3
    sweep       of stage 2: normal equations, Cholesky                 N K^2, (U + I) K^3
    tables      of the fitted rows                                     (U + I) (L + K)
    ranking     of all users, none of their items left out             U I (L + K), U
"""

from typing import NamedTuple

# As dcrec_spark.models.fitting.spark_layout lays them out.
BLOCK_NONZEROS = 2_000_000
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


def work(stage: str, size: Size, cores: int) -> dict[str, float]:
    """Return unit -> how many of it the stage is.

    Raises
    ------
    KeyError : there is no such stage.
    """
    n, rows, first, second = size.ratings, size.rows, size.exposure_rank, size.outcome_rank
    # The statistics of K factors beside a rating, and what it takes to solve for a row.
    shared = {
        "layout": {"N": n, "U+I": rows},
        "iteration": {"NL": n * first, "(U+I)L": rows * first},
        "between": {"NL": n * first, "NK2": n * second**2, "(U+I)K3": rows * second**3},
        "sweep": {"NK2": n * second**2, "(U+I)K3": rows * second**3, "N": n},
        "tables": {"(U+I)(L+K)": rows * (first + second)},
        "ranking": {"UI(L+K)": size.users * size.items * (first + second), "U": size.users},
    }[stage]
    return {"fixed": 1.0} | {unit: count / cores for unit, count in shared.items()}


def blocks(size: Size, cores: int) -> int:
    """Return how many blocks a side has: as many for each core as keep them small enough."""
    return cores * max(1, -(-size.ratings // (cores * BLOCK_NONZEROS)))


def bytes_of_blocks(size: Size, precision: str = "float64") -> float:
    """Return what the blocks of both sides take on the cluster, about; they are kept for the whole fit."""
    return 2.0 * size.ratings * BYTES_OF_A_PAIR[precision]


def bytes_of_a_task(size: Size, cores: int, precision: str = "float64") -> float:
    """Return how much a Python worker holds at most, about, while it updates the largest block.

    A block, the rows of the other side that its pairs name, twice (as they come, and as an array), and its own rows.
    """
    n_blocks = blocks(size, cores)
    pairs = -(-size.ratings // n_blocks)
    width = max(size.exposure_rank * 2, size.outcome_rank + 1) * BYTES_OF_A_NUMBER[precision]
    named = max(min(pairs, size.users), min(pairs, size.items))
    own = max(size.users, size.items) / n_blocks
    return pairs * BYTES_OF_A_PAIR[precision] + (2 * named + 2 * own) * width


def bytes_of_a_sweep(size: Size, cores: int, precision: str = "float64") -> float:
    """Return how much goes over the network in a sweep, at most: each row once to each block that names it."""
    n_blocks = blocks(size, cores)
    width = (size.outcome_rank + 1) * BYTES_OF_A_NUMBER[precision]
    return float(sum(min(size.ratings, rows * n_blocks) for rows in (size.users, size.items)) * width)
