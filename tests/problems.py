"""Small random problems, as the kernels and the engine take them and as dense tables for the references."""

from typing import NamedTuple

import numpy as np

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser
from tests.reference import ridge as dense
from tests.reference.poisson import Array

REG = Regulariser(user=0.7, item=1.3, confounder=0.4, intercept=0.2)


class Csr(NamedTuple):
    """The nonzero entries of a mask, row by row."""

    row_ptr: Array
    row: Array
    col: Array


def csr(mask: Array) -> Csr:
    row, col = np.nonzero(mask)
    pointer = np.searchsorted(row, np.arange(len(mask) + 1)).astype(np.int64)
    return Csr(pointer, row, col.astype(np.int32))


def count_block(counts: Array, dtype: str = "float64") -> CountBlock:
    """The rows of a table of counts; every column is in the inbox."""
    entries = csr(counts)
    return CountBlock(entries.row_ptr, entries.col, counts[entries.row, entries.col].astype(dtype))


def random_counts(rng: np.random.Generator, n_users: int, n_items: int, largest: int = 1) -> Array:
    """User 0 and the last item without exposure, at least one pair exposed."""
    counts = rng.integers(1, largest + 1, (n_users, n_items)) * (rng.random((n_users, n_items)) < 0.4)
    counts[0], counts[:, -1], counts[1, 1] = 0, 0, largest
    return counts.astype(np.float64)


class RatingProblem(NamedTuple):
    """One problem three times: both sides' blocks, and the dense reference's tables with factors to start from."""

    users: RatingBlock
    items: RatingBlock
    design: Design
    reg: Regulariser
    dense: dense.Problem
    factors: dense.Factors


def rating_problem(
    rng: np.random.Generator, design: Design, confounder: bool, rank: int = 3, heaviest: float = 3.0
) -> RatingProblem:
    """Weights of any size below `heaviest`, some below w0; user 0 and the last item are unrated."""
    n_users, n_items = int(rng.integers(3, 12)), int(rng.integers(3, 12))
    observed = random_counts(rng, n_users, n_items) > 0
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    weights = np.where(observed, rng.uniform(0.05, heaviest, observed.shape), design.unobserved)
    pi = rng.gamma(0.5, 1.0, (n_users, 2 * confounder))
    lam = rng.gamma(0.5, 1.0, (n_items, 2 * confounder))
    tables = dense.Problem(
        ratings,
        weights,
        np.where(observed, 1.0, float(design.everywhere)),
        pi @ lam.T,
        ("user" if design.per_user else "global") if confounder else "none",
        *REG[:4],
    )
    gamma = rng.standard_normal(n_users if design.per_user else 1) if confounder else 0.0
    factors = dense.Factors(
        rng.standard_normal((n_users, rank)),
        rng.standard_normal((n_items, rank)),
        np.broadcast_to(gamma, n_users).copy(),
        float(rng.standard_normal()),
    )
    users = rating_block(observed, ratings, weights, pi @ lam.T, pi)
    items = rating_block(observed.T, ratings.T, weights.T, (pi @ lam.T).T, lam)
    return RatingProblem(users, items, design, REG, tables, factors)


def rating_block(observed: Array, ratings: Array, weights: Array, a_hat: Array, exposure: Array) -> RatingBlock:
    """The rows of tables; every column is in the inbox."""
    entries = csr(observed)
    at = entries.row, entries.col
    of_pairs = a_hat[at] if exposure.shape[1] else np.empty(0)
    return RatingBlock(entries.row_ptr, entries.col, ratings[at], weights[at], of_pairs, exposure)


def assert_same(actual: Array | float, expected: Array | float, tolerance: float) -> None:
    """Equal to `tolerance` of the largest entry: sums over all pairs cancel, so small ones lose digits."""
    expected = np.asarray(expected, dtype=float)
    largest = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * largest)
