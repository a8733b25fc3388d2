"""What becomes of the exposure model's posterior on single pairs, and propensities from ratings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import exposure
from dcrec_spark.kernels.exposure import Form, Posterior, relative_propensity, solve_scale
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
        of_rows, of_cols = (Posterior.of({"shape": shape, "rate": rate}) for shape, rate in (rows, cols))
        sides = of_rows, Posterior.of_rows(of_cols.rows())
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


COUNTS = st.lists(st.integers(1, 10_000), min_size=5, max_size=5)


@given(COUNTS)
def test_the_mean_propensity_is_the_papers_and_none_is_above_one(counts: list[int]) -> None:
    """Also where most ratings are low, and the scale alone would make a probability of more than 1."""
    count, relative = np.array(counts, float), relative_propensity(np.arange(1.0, 6.0))
    p = np.minimum(1.0, solve_scale(relative, count) * relative)
    assert p @ count / count.sum() == pytest.approx(0.05, rel=1e-9)
    assert (np.diff(p) >= 0).all()
