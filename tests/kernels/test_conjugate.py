"""Conjugate gradients: each step the best of what it reaches, and in the end Cholesky's solution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels.solvers import descend
from tests.kernels.problems import problem_of, row_equations
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("kind", ["classical", "biases-everywhere-by-count", "pooled", "covariates-everywhere"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_steps_end_where_the_loss_is_smallest_of_all_that_they_reach(seed: int, kind: str) -> None:
    """Of users and of items, some of which have no ratings, to the largest number on the way: rows may end at zero."""
    p, rng = problem_of(seed, kind), np.random.default_rng(seed)
    for system in (p.users_system(p.start), p.items_system(p.start)):
        start = rng.standard_normal(system.shape)
        for steps in (1, 2):
            rows = zip(start, row_equations(system), strict=True)
            expected = np.array([best_of(steps, x, *row) for x, row in rows])
            largest = max(np.abs(start).max(), np.abs(expected).max())
            np.testing.assert_allclose(descend(system, start, steps), expected, atol=1e-7 * largest)


def best_of(steps: int, x: Array, a: Array, b: Array) -> Array:
    """The point of smallest loss in start + span{D r, (D A) D r, ...}: r the residual, 1 / D the diagonal of A."""
    scaled = a / np.diag(a)[:, None]
    residual = b - a @ x
    reach = [residual / np.diag(a)]
    for _ in range(steps - 1):
        reach.append(scaled @ reach[-1])
    directions, _ = np.linalg.qr(np.column_stack(reach))
    return np.asarray(x + directions @ np.linalg.solve(directions.T @ a @ directions, directions.T @ residual))
