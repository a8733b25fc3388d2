"""The blocked product ranks as the dense reference does, whatever it holds at a time."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.kernels import topn
from tests.reference import topn as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)


class Ranking(NamedTuple):
    """Arguments of top_n, and the seen pairs as a table for the reference."""

    preference: tuple[Array, Array]
    confounder: tuple[Array, Array]
    intercept: float
    seen: Array

    def fast(self, n: int, cap: topn.Cap | None = None) -> topn.Ranked:
        row, col = np.nonzero(self.seen)
        pointer = np.searchsorted(row, np.arange(len(self.seen) + 1))
        return topn.top_n(n, self.preference, self.confounder, self.intercept, (pointer, col), cap=cap)

    def dense(self, n: int, cap: topn.Cap | None = None) -> list[dense.Recommendation]:
        scores = dense.score_all(self.preference, self.confounder, self.intercept)
        return dense.recommend(scores, n, self.seen > 0, *(cap or ()))


def ranking(seed: int, exact: bool) -> Ranking:
    """``exact``: whole numbers, so that many scores are equal, and no sum is rounded."""
    rng = np.random.default_rng(seed)
    n_rows, n_cols = int(rng.integers(1, 8)), int(rng.integers(1, 12))

    def draw(rows: int, width: int) -> Array:
        if exact:
            return rng.integers(-1, 2, (rows, width)).astype(float)
        return rng.standard_normal((rows, width))

    seen = rng.random((n_rows, n_cols)) < rng.random()
    preference, confounder = ((draw(n_rows, width), draw(n_cols, width)) for width in (3, 2))
    return Ranking(preference, confounder, float(rng.integers(-2, 3)), seen)


def assert_same_lists(actual: topn.Ranked, expected: list[dense.Recommendation], tolerance: float = 0.0) -> None:
    assert actual.row.tolist() == [e.user_idx for e in expected]
    assert actual.rank.tolist() == [e.rank for e in expected]
    assert actual.col.tolist() == [e.item_idx for e in expected]
    for name in ("score", "preference", "confounder"):
        values = [getattr(e, name) for e in expected]
        np.testing.assert_allclose(getattr(actual, name), values, rtol=0, atol=tolerance)


@given(SEEDS, st.integers(1, 14))
def test_equal_scores_are_ordered_by_column(seed: int, n: int) -> None:
    problem = ranking(seed, exact=True)
    assert_same_lists(problem.fast(n), problem.dense(n))


def without_confounder(rows: Array, cols: Array, seen: Array | None = None) -> Ranking:
    shape, none = (len(rows), len(cols)), (np.zeros((len(rows), 0)), np.zeros((len(cols), 0)))
    return Ranking((rows, cols), none, 0.0, np.zeros(shape) if seen is None else seen)


@given(SEEDS, st.sampled_from([1e-300, 1e-160, 1e-40, 1e-20, 1.0, 1e20, 1e35, 1e140]))
def test_single_precision_hides_nothing(seed: int, size: float) -> None:
    """Forty scores that single precision cannot tell apart, or cannot hold, next to a column a million times longer."""
    rng = np.random.default_rng(seed)
    rows, cols = rng.standard_normal((3, 4)), np.tile(rng.standard_normal(4), (41, 1))
    cols[1:] *= 1.0 + 1e-12 * rng.permutation(40)[:, None]
    cols[0] *= -1e6
    problem = without_confounder(rows, size * cols)
    assert_same_lists(problem.fast(5), problem.dense(5), 1e-9 * size)


@given(SEEDS, st.integers(1, 5), st.integers(1, 40))
def test_holding_fewer_scores_at_a_time_changes_nothing(seed: int, n: int, held: int) -> None:
    problem = ranking(seed, exact=True)
    whole = problem.fast(n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topn, "SCORES", held)
        in_pieces = problem.fast(n)
    for one, other in zip(whole, in_pieces, strict=True):
        np.testing.assert_array_equal(one, other)


@given(SEEDS)
def test_equal_columns_are_chosen_in_order_whatever_the_rounding_of_the_product(seed: int) -> None:
    """A product of matrices may round the scores of equal columns differently, by where they stand."""
    rng = np.random.default_rng(seed)
    rank, n_cols = int(rng.integers(1, 30)), int(rng.integers(5, 150))
    rows = rng.standard_normal((int(rng.integers(1, 9)), rank))
    cols = np.tile(rng.standard_normal(rank), (n_cols, 1))
    actual = without_confounder(rows, cols).fast(3)
    assert actual.col.reshape(-1, 3).tolist() == [[0, 1, 2]] * len(rows)


@given(SEEDS, st.integers(1, 6), st.integers(1, 3), st.integers(1, 4))
def test_no_more_of_a_group_than_the_cap_and_lists_are_full(seed: int, n: int, most: int, n_groups: int) -> None:
    """A list goes as deep as it takes: with one group of all columns it ends at the cap."""
    given_ranking = ranking(seed, exact=True)
    groups = np.random.default_rng(seed).integers(-1, n_groups, len(given_ranking.preference[1]))
    cap = topn.Cap(groups, most)
    assert_same_lists(given_ranking.fast(n, cap), given_ranking.dense(n, cap))


def test_a_wide_catalogue_of_one_large_group_is_gone_through_to_its_end() -> None:
    """The best 900 columns are of one group: the rest of each list lies below them."""
    scores = np.arange(1000.0, 0.0, -1.0)[:, None]
    groups = np.where(np.arange(1000) < 900, 7, -1)
    ranked = without_confounder(np.ones((3, 1)), scores).fast(4, topn.Cap(groups, 2))
    assert ranked.col.reshape(3, 4).tolist() == [[0, 1, 900, 901]] * 3
    assert ranked.rank.reshape(3, 4).tolist() == [[1, 2, 3, 4]] * 3


def test_numbers_beyond_single_precision_lose_no_list() -> None:
    """1.4 times its smallest number is rounded to once, two of 0.6 times to twice. Lengths may overflow."""
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    small = without_confounder(np.ones((1, 2)), smallest * np.array([[0.6, 0.6], [1.4, 0.0], [0.1, 0.1]]))
    assert small.fast(1).col.tolist() == [1]
    rows, cols = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [1e200, 0.0], [0.0, 3.0]])
    large = without_confounder(rows, cols)
    assert_same_lists(large.fast(2), large.dense(2))
