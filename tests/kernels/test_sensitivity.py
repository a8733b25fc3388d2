"""What a hidden reason could do: bounds that no weights within reach exceed, and the odds that move a mean so far."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dcrec_spark.kernels import certainty
from tests.problems import assert_same
from tests.reference import certainty as dense


@settings(max_examples=40)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 1.0)), min_size=1, max_size=8),
    odds=st.floats(1.0, 20.0),
)
def test_bounds_are_those_of_the_worst_weights(pairs: list[tuple[int, float]], odds: float) -> None:
    value, propensity = (np.array(column, float) for column in zip(*pairs, strict=True))
    mean, *found = certainty.sensitivity_bounds(value, propensity, odds)
    assert found == pytest.approx(dense.sensitivity_bounds(value, propensity, odds), rel=1e-9, abs=1e-12)
    assert found[0] - 1e-9 <= mean <= found[1] + 1e-9
    _, *alone = certainty.sensitivity_bounds(value, propensity, 1.0)
    weights = 1.0 / propensity
    assert alone == pytest.approx([weights @ value / weights.sum()] * 2, rel=1e-9, abs=1e-12)


def test_the_odds_of_a_shift_are_those_that_make_it() -> None:
    odds = np.array([1.0, 1.0001, 1.2, 3.0, 100.0, 1e5])
    shift = (odds - 1.0 / odds) * norm.pdf(norm.ppf(odds / (1.0 + odds)))  # of the mean of a normal variable
    assert_same(certainty.odds_of_shift(shift), odds, 1e-9)
    assert (np.diff(shift) > 0).all()
    ends = certainty.odds_of_shift(np.array([0.0, 1e300, np.inf, np.nan]))
    assert ends[0] == 1.0
    assert np.isfinite(ends[1:3]).all()
    assert np.isnan(ends[3])
