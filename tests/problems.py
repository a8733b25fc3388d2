"""Small random tables, as blocks for the kernels, and comparison of arrays."""

from typing import NamedTuple

import numpy as np

from dcrec_spark.kernels.csr import CountBlock
from tests.reference.poisson import Array


class Csr(NamedTuple):
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


def assert_same(actual: Array | float, expected: Array | float, tolerance: float) -> None:
    """Equal to `tolerance` of the largest entry: sums over all pairs cancel, so small ones lose digits."""
    expected = np.asarray(expected, dtype=float)
    largest = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * largest)
