"""What is allowed is taken, as a plain number. What is refused is in the contract of every estimator."""

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization

# The estimators ask the JVM for nothing, but pyspark.ml wants a session before it makes their parameters.
pytestmark = pytest.mark.usefixtures("spark")


def test_the_ends_of_the_ranges_are_allowed() -> None:
    estimator = DeconfoundedMF(rank=1, maxIter=0, tol=0.0, alpha=0.0, unobservedWeight=0.0, numUserBlocks=1)
    assert estimator.getOrDefault("alpha") == 0.0
    assert PoissonFactorization(userShapePrior=0.01, checkpointInterval=1).getOrDefault("userShapePrior") == 0.01


def test_numbers_of_numpy_are_numbers() -> None:
    """A grid of parameters is often made with np.arange."""
    estimator = DeconfoundedMF(rank=np.int64(4), alpha=np.float32(0.5), userReg=3)
    found = [estimator.getOrDefault(name) for name in ("rank", "alpha", "userReg")]
    assert [(type(value), value) for value in found] == [(int, 4), (float, 0.5), (float, 3.0)]
