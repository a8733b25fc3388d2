"""What an index finds is ranked as the exact kernel ranks it, and nothing but what it does not find is missing."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.kernels import column_index
from dcrec_spark.kernels.column_index import Axes, ColumnIndex, top_n_indexed
from dcrec_spark.kernels.topn import Cap, Ranked, top_n
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)


class Problem(NamedTuple):
    """Arguments of both kernels."""

    preference: tuple[Array, Array]
    confounder: tuple[Array, Array]
    intercept: float
    seen_ptr: Array
    seen_col: Array

    @property
    def sides(self) -> tuple[Array, Array]:
        rows, cols = (np.hstack(parts) for parts in zip(self.preference, self.confounder, strict=True))
        return rows, cols

    def index(self) -> ColumnIndex:
        rows, cols = self.sides
        return ColumnIndex(cols, Axes.of(rows))

    def exact(self, n: int, cap: Cap | None = None) -> Ranked:
        return top_n(n, *self, cap=cap)

    def indexed(self, n: int, share: float, cap: Cap | None = None) -> Ranked:
        return top_n_indexed(n, share, self.index(), *self, cap=cap)


def problem(
    seed: int, n_rows: int = 7, n_cols: int = 60, seen: float = 0.3, whole: bool = False, clusters: int = 0
) -> Problem:
    """Confounders of another scale than preferences, as fits have them. whole : numbers, so that scores are equal."""
    rng = np.random.default_rng(seed)

    def draw(rows: int, width: int, scale: float) -> Array:
        if whole:
            return rng.integers(-1, 2, (rows, width)).astype(float)
        return rng.standard_normal((rows, width)) * scale

    left_out = rng.random((n_rows, n_cols)) < seen
    row, col = np.nonzero(left_out)
    preference, confounder = (
        (draw(n_rows, 5, 1.0), draw(n_cols, 5, 2.0)),
        (
            np.abs(draw(n_rows, 3, 0.01)),
            np.abs(draw(n_cols, 3, 30.0)),
        ),
    )
    if clusters:
        near = rng.integers(0, clusters, n_cols)
        preference = preference[0], preference[1][near] + 0.1 * preference[1]
    return Problem(preference, confounder, 0.5, np.searchsorted(row, np.arange(n_rows + 1)), col)


def assert_same(one: Ranked, other: Ranked) -> None:
    for name, actual, expected in zip(Ranked._fields, one, other, strict=True):
        np.testing.assert_array_equal(actual, expected, err_msg=name)


def recall(found: Ranked, exact: Ranked) -> float:
    pairs, wanted = (set(zip(lists.row.tolist(), lists.col.tolist(), strict=True)) for lists in (found, exact))
    return len(pairs & wanted) / len(wanted)


@given(SEEDS, st.integers(1, 70), st.integers(1, 60), st.sampled_from([0.0, 0.3, 0.9, 1.0]))
def test_a_search_of_all_lists_is_the_exact_ranking(seed: int, n: int, n_cols: int, seen: float) -> None:
    """To the last bit, whatever was seen, from one column and one place to more places than there are columns."""
    given_problem = problem(seed, n_cols=n_cols, seen=seen)
    assert_same(given_problem.indexed(n, 1.0), given_problem.exact(n))


@given(SEEDS, st.integers(1, 6), st.floats(0.01, 1.0))
def test_what_is_found_has_its_exact_scores_in_their_order(seed: int, n: int, share: float) -> None:
    given_problem = problem(seed, n_cols=300)
    found = given_problem.indexed(n, share)
    (rows, cols), preferred = given_problem.sides, given_problem.preference
    np.testing.assert_array_equal(found.score, found.preference + found.confounder + 0.5)
    np.testing.assert_allclose(found.score, np.einsum("nf,nf->n", rows[found.row], cols[found.col]) + 0.5, rtol=1e-9)
    one_by_one = np.einsum("nk,nk->n", preferred[0][found.row], preferred[1][found.col])
    np.testing.assert_array_equal(found.preference, one_by_one)
    for row in range(len(rows)):
        of_row = found.row == row
        assert found.rank[of_row].tolist() == list(range(1, n + 1))
        assert (np.diff(found.score[of_row]) <= 0).all()
        seen = given_problem.seen_col[slice(*given_problem.seen_ptr[row : row + 2])]
        assert not set(found.col[of_row].tolist()) & set(seen.tolist())
        assert len(set(found.col[of_row].tolist())) == n


@given(SEEDS, st.integers(8, 20))
def test_equal_scores_are_ordered_by_column(seed: int, n: int) -> None:
    """Of whole numbers, so that many are equal. All sixteen columns are candidates, so none can be the wrong one."""
    given_problem = problem(seed, n_cols=16, whole=True)
    assert column_index.SPARE * n >= 16
    assert_same(given_problem.indexed(n, 1.0), given_problem.exact(n))


@given(SEEDS, st.integers(1, 6), st.floats(0.01, 0.3))
def test_no_list_is_shorter_than_the_exact_one(seed: int, n: int, share: float) -> None:
    """Who has seen all that a short search finds is ranked by all columns; who has few left gets these."""
    given_problem = problem(seed, n_cols=200, seen=0.97)
    found, exact = given_problem.indexed(n, share), given_problem.exact(n)
    np.testing.assert_array_equal(np.bincount(found.row, minlength=7), np.bincount(exact.row, minlength=7))


def test_who_has_seen_all_that_a_search_finds_gets_the_exact_list() -> None:
    given_problem = problem(3, n_rows=1, n_cols=400, seen=0.0)
    nearest = np.sort(given_problem.index().candidates(given_problem.sides[0], 400, 0.01)[1])
    assert 0 < len(nearest) < 100
    seen = given_problem._replace(seen_ptr=np.array([0, len(nearest)]), seen_col=nearest)
    assert_same(seen.indexed(5, 0.01), seen.exact(5))


@given(SEEDS, st.integers(1, 6), st.integers(1, 3))
def test_no_more_of_a_group_than_the_cap_and_every_list_as_full_as_can_be(seed: int, n: int, most: int) -> None:
    given_problem = problem(seed, n_cols=120)
    cap = Cap(np.random.default_rng(seed).integers(-1, 3, 120), most)
    assert_same(given_problem.indexed(n, 1.0, cap), given_problem.exact(n, cap))
    found, exact = given_problem.indexed(n, 0.05, cap), given_problem.exact(n, cap)
    np.testing.assert_array_equal(np.bincount(found.row, minlength=7), np.bincount(exact.row, minlength=7))
    groups = cap.groups[found.col]
    for row in range(7):
        of_row = groups[(found.row == row) & (groups >= 0)]
        assert np.bincount(of_row, minlength=1).max() <= most


def test_a_row_is_given_the_same_candidates_whoever_is_beside_it() -> None:
    """BLAS takes many rows at once and rounds them differently; far from zero that leads to another list."""
    rng = np.random.default_rng(0)
    cols, rows = rng.standard_normal((3000, 8)), rng.standard_normal((20_000, 8))
    cols[:, 0] += 3000.0
    index = ColumnIndex(cols, Axes.of(rows))
    row, together = index.candidates(rows, 10, 0.02)
    for first in range(0, 20_000, 5000):
        few, alone = index.candidates(rows[first : first + 5000], 10, 0.02)
        here = (row >= first) & (row < first + 5000)
        np.testing.assert_array_equal(few, row[here] - first)
        np.testing.assert_array_equal(alone, together[here])


@pytest.mark.parametrize("pairs", [1, 64])
def test_ranking_in_pieces_changes_nothing(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one row at a time to all that want as many candidates at once."""
    given_problem = problem(5, n_rows=64, n_cols=3000)
    index = given_problem.index()
    together = top_n_indexed(5, 0.02, index, *given_problem)
    monkeypatch.setattr(column_index, "PAIRS", pairs)
    assert_same(top_n_indexed(5, 0.02, index, *given_problem), together)


def test_the_same_columns_make_the_same_index() -> None:
    given_problem = problem(6, n_rows=40, n_cols=5000)
    first, second = (top_n_indexed(5, 0.01, given_problem.index(), *given_problem) for _ in range(2))
    assert recall(first, given_problem.exact(5)) < 1.0  # so that another index would show
    assert_same(first, second)


def test_more_lists_find_more_and_few_find_most_where_columns_are_alike() -> None:
    """Two hundred kinds of columns: of a twentieth of the lists nine in ten of the best, of a fifth nearly all."""
    given_problem = problem(7, n_rows=200, n_cols=20_000, seen=0.01, clusters=200)
    exact, index = given_problem.exact(10), given_problem.index()
    found = [recall(top_n_indexed(10, share, index, *given_problem), exact) for share in (0.01, 0.05, 0.2)]
    assert found == sorted(found)
    assert found[1] > 0.9
    assert found[2] > 0.99


def test_axes_keep_products_and_make_every_direction_alike() -> None:
    rows, cols = problem(8, n_rows=500).sides
    axes = Axes.of(rows)
    turned = rows @ axes.of_rows
    np.testing.assert_allclose(turned @ (cols @ axes.of_cols).T, rows @ cols.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(turned.T @ turned / len(rows), np.eye(rows.shape[1]), atol=1e-8)


@pytest.mark.parametrize("sample", [np.zeros((0, 4)), np.zeros((3, 4))], ids=["none", "zeros"])
def test_axes_of_nobody_are_left_as_they_are(sample: Array) -> None:
    np.testing.assert_array_equal(Axes.of(sample).of_cols, np.eye(4))


def test_rows_and_columns_of_zeros_are_ranked_too() -> None:
    given_problem = problem(9)
    given_problem.preference[0][2] = given_problem.confounder[0][2] = 0.0
    given_problem.preference[1][4] = given_problem.confounder[1][4] = 0.0
    found = given_problem.indexed(3, 1.0)
    assert (found.score[found.row == 2] == 0.5).all()
    others = found.row != 2
    assert_same(found.at(others), (exact := given_problem.exact(3)).at(exact.row != 2))


def test_nobody_to_rank_for() -> None:
    nobody = problem(10)._replace(seen_ptr=np.zeros(1, np.int64), seen_col=np.zeros(0, np.int64))
    preference, confounder = ((part[0][:0], part[1]) for part in (nobody.preference, nobody.confounder))
    index = problem(10).index()
    empty = nobody._replace(preference=preference, confounder=confounder)
    assert [len(column) for column in top_n_indexed(3, 0.5, index, *empty)] == [0] * 6
