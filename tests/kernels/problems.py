"""Problems of some size, as the kernels take them."""

import numpy as np

from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import System


def counts_of(
    seed: int, n_rows: int, n_cols: int, share: float, dtype: str = "float64", terms: bool = False
) -> CountBlock:
    """Counts from 0 to 4; row 1 is empty, row 2 full; with ``terms`` a confounder and an offset too."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n_rows, n_cols)) < share
    mask[1], mask[2] = False, True
    row, col = np.nonzero(mask)
    row_ptr = np.searchsorted(row, np.arange(n_rows + 1)).astype(np.int64)
    numbers = [rng.integers(0, 5, len(col)), rng.gamma(0.5, 1.0, len(col)), rng.uniform(0.1, 1.0, len(col))]
    counts, *others = (each.astype(dtype) for each in numbers)
    return (
        CountBlock(row_ptr, col.astype(np.int32), counts, *others)
        if terms
        else CountBlock(row_ptr, col.astype(np.int32), counts)
    )


def factors_of(seed: int, n: int, width: int, dtype: str = "float64") -> Floats:
    """Above 0, of several orders of magnitude."""
    return np.exp(np.random.default_rng(seed).uniform(-4.0, 3.0, (n, width))).astype(dtype)


def system_of(seed: int, block: CountBlock, n_cols: int, width: int, bordered: bool) -> System:
    """Normal equations of the block's rows, some of its curvatures below 0, none that is not positive definite."""
    rng = np.random.default_rng(seed)
    n, nonzeros, dtype = len(block.row_ptr) - 1, len(block.col), block.counts.dtype
    root = rng.standard_normal((width, width))
    arrays = {
        "sources": rng.standard_normal((n_cols, width)),
        "curvature": rng.uniform(-0.01, 2.0, nonzeros),
        "pull": rng.standard_normal(nonzeros),
        "base": root @ root.T + 20.0 * np.eye(width),
        "ridge": rng.uniform(0.5, 2.0, (n, width)),
        "border": 0.1 * rng.standard_normal((n, width if bordered else 0)),
        "right": rng.standard_normal((n, width)),
    }
    return System(**{name: value.astype(dtype) for name, value in arrays.items()}, rank=width - bordered)
