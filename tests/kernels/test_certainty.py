"""Uncertainty of scores, as the dense reference has it, and what a hidden reason could do to an estimate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dcrec_spark.kernels import certainty
from dcrec_spark.kernels.certainty import Noise, Spreads
from dcrec_spark.kernels.ridge_terms import RatingBlock, Shared
from tests.kernels.problems import RidgeProblem, problem_of
from tests.problems import assert_same
from tests.problems import csr as entries_of
from tests.reference import certainty as dense
from tests.reference import ridge

SEEDS = st.integers(0, 2**32)


def every_pair(p: RidgeProblem, is_user: bool) -> RatingBlock:
    h, block = (p.h, p.users) if is_user else (p.h.T, p.items)
    pairs, none = entries_of(np.ones(h.shape)), np.empty(0)
    of_pairs = h.ravel() if block.has_confounder else none
    return RatingBlock(pairs.row_ptr, pairs.col, np.zeros(h.size), np.zeros(h.size), of_pairs, of_pairs, block.exposure)


def fitted(p: RidgeProblem) -> ridge.Unknowns:
    """Two sweeps, and the users solved last, as a fit ends."""
    return ridge.update_users(p.dense, ridge.sweep(p.dense, ridge.sweep(p.dense, p.start)))


def sides(p: RidgeProblem, x: ridge.Unknowns) -> tuple[Spreads, Spreads, Noise]:
    users, items = p.rows(x)
    of_users = certainty.spreads(p.users, p.users_system(x), every_pair(p, True))
    of_items = certainty.spreads(p.items, p.items_system(x), every_pair(p, False))
    predicted = certainty.predictions(p.users, users, items, Shared(x.intercept, x.gamma), p.design)
    sums = [{"leverage": np.array(side.leverage)} for side in (of_users, of_items)]
    return of_users, of_items, certainty.noise({**certainty.residual_sums(p.users, predicted), **sums[0]}, sums[1])


@pytest.mark.parametrize("kind", ["classical", "biases-global", "own", "pooled-everywhere"])
@settings(max_examples=8)
@given(seed=SEEDS)
def test_variances_match_the_dense_reference(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    x = fitted(p)
    of_users, of_items, noise = sides(p, x)
    observed = p.observed
    expected = dense.certainty(p.dense, x, observed, p.h)
    assert_same(of_users.pairs.reshape(observed.shape), expected.user_spread, 1e-8)
    assert_same(of_items.pairs.reshape(observed.shape[::-1]).T, expected.item_spread, 1e-8)
    assert (of_users.leverage, of_items.leverage) == pytest.approx(expected.leverage, rel=1e-9)
    assert noise.variance == pytest.approx(expected.noise, rel=1e-7)
    assert noise.weight == pytest.approx(p.dense.weights[observed].mean(), rel=1e-12)
    assert 0.0 < noise.freedom < observed.sum()
    assert_same(of_users.solved, p.rows(x)[0], 1e-7)


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
