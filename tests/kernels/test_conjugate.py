"""Conjugate gradients: each step the best of what it reaches, none uphill, and in the end Cholesky's solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import ridge, ridge_sums, solvers
from dcrec_spark.kernels.ridge_terms import RatingBlock, Shared, System
from dcrec_spark.kernels.solvers import descend
from tests.kernels.problems import counts_of, system_of
from tests.kernels.test_ridge import problem_of, rows_of
from tests.problems import assert_same
from tests.reference.poisson import Array
from tests.reference.rows import row_equations

SEEDS = st.integers(0, 2**32)
kinds = pytest.mark.parametrize("kind", ["classical", "biases-everywhere-by-count", "pooled", "pooled-everywhere"])
examples = settings(max_examples=10)
Problem = tuple[RatingBlock, System, Array]


def problems_of(seed: int, kind: str) -> tuple[Problem, Problem]:
    """Block and equations of users and of items, and somewhere to start; some rows have no ratings."""
    p = problem_of(seed, kind)
    users, items = rows_of(p, p.start)
    shared = Shared(p.start.intercept, p.start.gamma)
    user_sums = ridge_sums.user_sums(users, p.users.exposure, p.design)
    item_sums = ridge_sums.item_sums(items, p.items.exposure, p.design)
    of_users = ridge.users_system(p.users, items, item_sums, shared, p.design, p.reg)
    of_items = ridge.items_system(p.items, users, user_sums, shared, p.design, p.reg)
    rng = np.random.default_rng(seed)
    return (
        (p.users, of_users, rng.standard_normal(of_users.right.shape)),
        (p.items, of_items, rng.standard_normal(of_items.right.shape)),
    )


def losses(block: RatingBlock, system: System, rows: Array) -> Array:
    """What the objective has of each row, but for a constant."""
    return np.array([x @ a @ x - 2.0 * b @ x for x, (a, b) in zip(rows, row_equations(block, system), strict=True)])


def assert_near(found: Array, expected: Array, start: Array, tolerance: float) -> None:
    """Equal to the tolerance of the largest number on the way: rows may end at zero."""
    np.testing.assert_allclose(found, expected, atol=tolerance * max(np.abs(start).max(), np.abs(expected).max()))


@kinds
@examples
@given(seed=SEEDS)
def test_many_steps_end_where_cholesky_does(seed: int, kind: str) -> None:
    """Preference, bias and confounder weight in one system, as it is solved."""
    for block, system, start in problems_of(seed, kind):
        assert_near(descend(block, system, start, 60), solvers.solve_rows(block, system), start, 1e-8)


@kinds
@examples
@given(seed=SEEDS)
def test_steps_end_where_the_loss_is_smallest_of_all_that_they_reach(seed: int, kind: str) -> None:
    for block, system, start in problems_of(seed, kind):
        for steps in (1, 2):
            expected = [best_of(steps, x, *row) for x, row in zip(start, row_equations(block, system), strict=True)]
            assert_near(descend(block, system, start, steps), np.array(expected), start, 1e-7)


def best_of(steps: int, x: Array, a: Array, b: Array) -> Array:
    """The point of smallest loss in start + span{D r, (D A) D r, ...}: r the residual, 1 / D the diagonal of A."""
    scaled = a / np.diag(a)[:, None]
    residual = b - a @ x
    reach = [residual / np.diag(a)]
    for _ in range(steps - 1):
        reach.append(scaled @ reach[-1])
    directions, _ = np.linalg.qr(np.column_stack(reach))
    return np.asarray(x + directions @ np.linalg.solve(directions.T @ a @ directions, directions.T @ residual))


@kinds
@examples
@given(seed=SEEDS)
def test_no_step_raises_the_loss_of_a_row_and_neither_does_a_long_one(seed: int, kind: str) -> None:
    for block, system, start in problems_of(seed, kind):
        before = losses(block, system, start)
        rounding = 1e-9 * (1.0 + np.abs(before))
        for steps in range(1, 6):
            reached = descend(block, system, start, steps)
            after = losses(block, system, reached)
            assert (after <= before + rounding).all()
            assert (
                losses(block, system, start + 1.7 * (reached - start)) <= losses(block, system, start) + rounding
            ).all()
            before = after


def test_a_row_that_is_not_positive_definite_is_nan_alone() -> None:
    counts = counts_of(0, 4, 700, 0.2)
    block = RatingBlock(counts.row_ptr, counts.col, counts.counts, counts.counts, np.empty(0), np.empty((4, 0)))
    system = system_of(3, counts, 700, 5, bordered=False)
    system.curvature[: counts.row_ptr[1]] = -50.0
    found = descend(block, system, np.zeros((4, 5)), 60)
    assert np.isnan(found[0]).all()
    assert_same(found[1:], solvers.solve_rows(block, system)[1:], 1e-9)
