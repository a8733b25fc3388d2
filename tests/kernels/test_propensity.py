"""Propensities from ratings: the mean over all pairs is what was asked for, and none is above 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.kernels.exposure import relative_propensity, solve_scale

COUNTS = st.lists(st.integers(1, 10_000), min_size=5, max_size=5)


def test_the_rule_of_the_paper_by_hand() -> None:
    """Ratings 1 to 5, as many of each: k (1/64 + 1/16 + 1/4 + 1 + 1) / 5 = 0.05."""
    relative = relative_propensity(np.arange(1.0, 6.0), decay=0.25, pivot=4.0)
    np.testing.assert_allclose(relative, [1 / 64, 1 / 16, 1 / 4, 1, 1])
    assert solve_scale(relative, np.ones(5), 0.05) == pytest.approx(0.25 / (2 + 21 / 64))


@given(COUNTS, st.floats(0.001, 0.9), st.floats(0.05, 1.0))
def test_the_mean_is_the_target_and_no_propensity_is_above_one(counts: list[int], target: float, decay: float) -> None:
    """Also where most ratings are low, and the scale alone would make a probability of more than 1."""
    count = np.array(counts, float)
    relative = relative_propensity(np.arange(1.0, 6.0), decay, 4.0)
    p = np.minimum(1.0, solve_scale(relative, count, target) * relative)
    assert p @ count / count.sum() == pytest.approx(target, rel=1e-9)
    assert (np.diff(p) >= 0).all()
