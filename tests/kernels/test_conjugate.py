"""Conjugate gradients: each step the best of what it reaches, and in the end Cholesky's solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels.ridge_terms import RowSystems
from dcrec_spark.kernels.solvers import descend
from tests.kernels.problems import problem_of, row_equations
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
kinds = pytest.mark.parametrize("kind", ["classical", "biases-everywhere-by-count", "pooled", "pooled-everywhere"])
examples = settings(max_examples=10)
Problem = tuple[RowSystems, Array]


def problems_of(seed: int, kind: str) -> tuple[Problem, Problem]:
    """Equations of users and of items, and somewhere to start; some rows have no ratings."""
    p, rng = problem_of(seed, kind), np.random.default_rng(seed)
    of_users, of_items = p.users_system(p.start), p.items_system(p.start)
    users, items = (rng.standard_normal(of.right.shape) for of in (of_users, of_items))
    return (of_users, users), (of_items, items)


def assert_near(found: Array, expected: Array, start: Array, tolerance: float) -> None:
    """Equal to the tolerance of the largest number on the way: rows may end at zero."""
    np.testing.assert_allclose(found, expected, atol=tolerance * max(np.abs(start).max(), np.abs(expected).max()))


@kinds
@examples
@given(seed=SEEDS)
def test_steps_end_where_the_loss_is_smallest_of_all_that_they_reach(seed: int, kind: str) -> None:
    for system, start in problems_of(seed, kind):
        for steps in (1, 2):
            expected = [best_of(steps, x, *row) for x, row in zip(start, row_equations(system), strict=True)]
            assert_near(descend(system, start, steps), np.array(expected), start, 1e-7)


def best_of(steps: int, x: Array, a: Array, b: Array) -> Array:
    """The point of smallest loss in start + span{D r, (D A) D r, ...}: r the residual, 1 / D the diagonal of A."""
    scaled = a / np.diag(a)[:, None]
    residual = b - a @ x
    reach = [residual / np.diag(a)]
    for _ in range(steps - 1):
        reach.append(scaled @ reach[-1])
    directions, _ = np.linalg.qr(np.column_stack(reach))
    return np.asarray(x + directions @ np.linalg.solve(directions.T @ a @ directions, directions.T @ residual))
