"""A parameter out of its range is refused when it is set, by name."""

import re
from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization

# The estimators ask the JVM for nothing, but pyspark.ml wants a session before it makes their parameters.
pytestmark = pytest.mark.usefixtures("spark")

SHARED = [
    ("rank", 0),
    ("rank", 2.5),
    ("rank", True),
    ("rank", float("inf")),
    ("maxIter", -1),
    ("tol", -1.0),
    ("tol", float("nan")),
    ("checkpointInterval", 0),
    ("numUserBlocks", 0),
    ("numItemBlocks", -3),
    ("exchange", "x"),
    ("precision", "float16"),
    ("userCol", ""),
    ("itemCol", 3),
]
EXPOSURE_ONLY = [
    ("countCol", ""),
    ("exposureCol", ""),
    ("userShapePrior", 0.0),
    ("userRatePrior", 0.0),
    ("itemShapePrior", -1.0),
    ("itemRatePrior", float("inf")),
]
OUTCOME_ONLY = [
    ("ratingCol", ""),
    ("outcome", "x"),
    ("adjustment", "all"),
    ("exposureRank", 0),
    ("alpha", -0.1),
    ("alpha", "40"),
    ("unobservedWeight", -1.0),
    ("userReg", -1.0),
    ("itemReg", float("nan")),
    ("confounderReg", float("inf")),
    ("interceptReg", -1.0),
    ("fitIntercept", 1),
    ("preferenceCol", ""),
    ("confounderCol", ""),
    ("coldStartStrategy", "guess"),
]


@pytest.mark.parametrize(("name", "value"), SHARED + EXPOSURE_ONLY)
def test_exposure_parameters_out_of_range_are_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{name}: found {re.escape(repr(value))}, expected"):
        PoissonFactorization(**{name: value})


@pytest.mark.parametrize(("name", "value"), SHARED + OUTCOME_ONLY)
def test_outcome_parameters_out_of_range_are_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{name}: found {re.escape(repr(value))}, expected"):
        DeconfoundedMF(**{name: value})


@pytest.mark.parametrize("estimator", [PoissonFactorization, DeconfoundedMF])
def test_an_unknown_parameter_is_refused(estimator: type) -> None:
    with pytest.raises(TypeError, match="ranc"):
        estimator(ranc=3)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    estimator = DeconfoundedMF(rank=1, maxIter=0, tol=0.0, alpha=0.0, unobservedWeight=0.0, numUserBlocks=1)
    assert estimator.getOrDefault("alpha") == 0.0
    assert PoissonFactorization(userShapePrior=0.01, checkpointInterval=1).getOrDefault("userShapePrior") == 0.01


def test_numbers_of_numpy_are_numbers() -> None:
    """A grid of parameters is often made with np.arange."""
    estimator = DeconfoundedMF(rank=np.int64(4), alpha=np.float32(0.5), userReg=3)
    found = [estimator.getOrDefault(name) for name in ("rank", "alpha", "userReg")]
    assert [(type(value), value) for value in found] == [(int, 4), (float, 0.5), (float, 3.0)]


def test_a_changed_copy_is_checked_too() -> None:
    estimator = DeconfoundedMF()
    assert estimator.copy({estimator.rank: 3}).getOrDefault("rank") == 3
    assert estimator.getOrDefault("rank") == 10
    with pytest.raises(TypeError, match="rank: found 0, expected"):
        estimator._set(rank=0)


@pytest.mark.parametrize("estimator", [PoissonFactorization, DeconfoundedMF])
def test_every_parameter_of_the_constructor_is_explained(estimator: type) -> None:
    explained = estimator().explainParams()
    for name in ("userCol", "rank", "tol", "seed", "exchange", "checkpointInterval"):
        assert f"{name}: " in explained
