"""What becomes of the exposure model's posterior on single pairs, compared with the dense reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import exposure, topn
from dcrec_spark.kernels.exposure import Form, Posterior
from tests.problems import assert_same, random_counts
from tests.problems import csr as csr_of
from tests.reference import exposure as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)


def draw(seed: int) -> tuple[Array, tuple[Array, Array], tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    counts = random_counts(rng, int(rng.integers(3, 8)), int(rng.integers(3, 8)), largest=3)
    users, items = ((rng.gamma(2.0, 1.0, (n, 2)) + 0.05, rng.gamma(2.0, 1.0, (n, 2)) + 0.1) for n in counts.shape)
    return counts, users, items


@settings(max_examples=20)
@given(seed=SEEDS)
def test_single_pairs_match_the_dense_reference_from_either_side(seed: int) -> None:
    """A pair's numbers are the same in the blocks of users and of items. Its own exposure only ever raised a_hat."""
    counts, users, items = draw(seed)
    expected = dense.leave_one_out(users, items, counts)
    for table, rows, cols, wanted in ((counts, users, items, expected), (counts.T, items, users, expected.T)):
        entries = csr_of(table)
        sides = Posterior.of(*rows), Posterior.of_rows(Posterior.of(*cols).rows())
        at = entries.row, entries.col
        found = exposure.leave_one_out(entries.row_ptr, entries.col, table[at], *sides)
        assert_same(found, wanted[at], 1e-9)
        a_hat = (sides[0].mean @ sides[1].mean.T)[at]
        assert ((found >= 0) & (found < a_hat)).all()
        nothing = exposure.leave_one_out(entries.row_ptr, entries.col, np.zeros(len(a_hat)), *sides)
        np.testing.assert_allclose(nothing, a_hat, rtol=1e-12)


@settings(max_examples=20)
@given(seed=SEEDS)
def test_vectors_give_the_standardised_confounder_of_every_pair(seed: int) -> None:
    _, users, items = draw(seed)
    pi, lam = users[0] / users[1], items[0] / items[1]
    mean, scale = dense.standardised(pi @ lam.T)
    form = Form("identity", 0.0, mean, scale)
    h = form.row_vectors(pi, True) @ form.row_vectors(lam, False).T
    assert_same(h, form.of(pi @ lam.T), 1e-12)
    assert (h.mean(), h.std()) == pytest.approx((0.0, 1.0), abs=1e-9)
    assert Form().row_vectors(pi, True) is pi


@pytest.mark.parametrize("of_items", [False, True], ids=["users", "items"])
@settings(max_examples=15)
@given(seed=SEEDS)
def test_a_ranking_with_a_link_is_that_of_the_whole_table(seed: int, of_items: bool) -> None:
    """Also with rows and columns exchanged, where the weight belongs to the columns; ties by column."""
    rng = np.random.default_rng(seed)
    theta, beta, pi, lam = (rng.integers(0, 3, (n, 2)).astype(float) for n in (6, 9, 6, 9))
    gamma = rng.integers(-1, 2, 6).astype(float)
    form = Form("log", 0.5, 0.3, 1.5)
    confounder: Any = np.column_stack([pi, gamma]), np.column_stack([lam, np.zeros(9)])
    scores = theta @ beta.T + gamma[:, None] * form.of(pi @ lam.T) + 0.5
    preference = theta, beta
    if of_items:
        confounder, preference, scores = confounder[::-1], (beta, theta), scores.T
    nothing = np.zeros(len(scores) + 1, np.int64), np.zeros(0, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topn, "SCORES", 20)
        found = topn.top_n(4, preference, confounder, 0.5, nothing, form)
    for row in range(len(scores)):
        order = np.lexsort((np.arange(scores.shape[1]), -np.round(scores[row], 9)))[:4]
        mine = found.row == row
        assert found.score[mine] == pytest.approx(scores[row, order], abs=1e-12)
        assert np.array_equal(found.col[mine], order)
    assert found.score == pytest.approx(found.preference + found.confounder + 0.5, abs=1e-12)
