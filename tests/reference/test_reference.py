"""The Gaussian and top-N references: flat objectives, and cases worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from . import ridge, topn
from .poisson import Array

models = pytest.mark.parametrize(
    ("outcome", "confounder", "unobserved_weight"),
    [
        ("probabilistic", "none", None),
        ("probabilistic", "user", 0.37),
        ("probabilistic", "global", None),
        ("weighted", "user", 0.37),
        ("weighted", "global", None),
    ],
)
REGS = {"user_reg": 0.7, "item_reg": 1.3, "confounder_reg": 0.4, "intercept_reg": 0.2}


def small_problem(
    seed: int, outcome: str, confounder: str, unobserved_weight: float | None
) -> tuple[ridge.Problem, ridge.Factors]:
    """A random problem with propensities. User 0 and the last item are unrated, some ratings are zero."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(4, 12)), int(rng.integers(4, 12))
    observed = rng.random((n_users, n_items)) < 0.4
    observed[0], observed[:, -1], observed[1, 1] = False, False, True
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    inverse, a_hat = rng.uniform(0.2, 3.0, observed.shape), rng.gamma(0.5, 1.0, observed.shape)
    problem = ridge.make_problem(
        outcome, confounder, ratings, observed, a_hat, unobserved_weight, inverse, alpha=5.0, **REGS
    )
    gamma = {"user": rng.standard_normal(n_users), "global": np.full(n_users, 0.6), "none": np.zeros(n_users)}
    users, items = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    return problem, ridge.Factors(users, items, gamma[confounder], float(rng.standard_normal()))


def slopes(problem: ridge.Problem, factors: ridge.Factors, field: str, step: float = 1e-3) -> Array:
    """Central differences of J, exact for a quadratic, by each entry of one field (a global gamma is one)."""
    start = np.atleast_1d(np.asarray(getattr(factors, field), dtype=float))
    shared = field == "confounder_weight" and problem.confounder == "global"
    moves = [np.ones_like(start)] if shared else list(np.eye(start.size).reshape(start.size, *start.shape))
    result = []
    for move in moves:
        sides = []
        for sign in (1.0, -1.0):
            moved = start + sign * step * move
            sides.append(
                ridge.objective(problem, replace(factors, **{field: moved[0] if field == "intercept" else moved}))
            )
        result.append((sides[0] - sides[1]) / (2.0 * step))
    return np.array(result)


@models
def test_each_block_is_solved_to_a_flat_objective_and_the_objective_never_rises(
    outcome: str, confounder: str, unobserved_weight: float | None
) -> None:
    problem, factors = small_problem(1, outcome, confounder, unobserved_weight)
    blocks = [
        (ridge.update_users, ["user_preference"] + ["confounder_weight"] * (confounder == "user")),
        (ridge.update_items, ["item_attribute"]),
        (ridge.update_shared, ["intercept"] + ["confounder_weight"] * (confounder == "global")),
    ]
    for _ in range(3):
        for update, fields in blocks:
            before = ridge.objective(problem, factors)
            tilt = max(np.abs(slopes(problem, factors, field)).max() for field in fields)
            factors = update(problem, factors)
            slope = max(np.abs(slopes(problem, factors, field)).max() for field in fields)
            assert slope < 1e-9 * (before + tilt)
            assert ridge.objective(problem, factors) <= before * (1.0 + 1e-12)


def test_the_weights_of_the_table_by_hand() -> None:
    """Two users, two items, ratings 3 and 0 rated, inverse propensities 2 and 0.5."""
    ratings, observed = np.array([[3.0, 9.0], [9.0, 0.0]]), np.eye(2, dtype=bool)
    inverse = np.array([[2.0, 7.0], [7.0, 0.5]])
    plain = ridge.make_problem("weighted", "none", ratings, observed)
    np.testing.assert_array_equal(plain.weights, [[121.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(plain.ratings, [[3.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(plain.mask, np.ones((2, 2)))
    classical = ridge.make_problem("probabilistic", "none", ratings, observed, inverse_propensity=inverse)
    np.testing.assert_array_equal(classical.weights, [[2.0, 0.0], [0.0, 0.5]])
    np.testing.assert_array_equal(classical.mask, np.eye(2))
    deconfounded = ridge.make_problem("probabilistic", "user", ratings, observed, np.ones((2, 2)))
    np.testing.assert_array_equal(deconfounded.weights, np.ones((2, 2)))
    factors = ridge.Factors(np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]]), np.array([1.0, 0.0]), 0.5)
    # residuals: 3 - 1 - 1 - .5, 0 - 0 - 1 - .5, 0 - 0 - 0 - .5, 0 - 2 - 0 - .5; penalties 5 + 2 + 1 + .25
    assert ridge.objective(deconfounded, factors) == pytest.approx(0.25 + 2.25 + 0.25 + 6.25 + 8.25)


def test_top_n_by_hand() -> None:
    """Ties go to the smaller item, seen items are left out, a user may run out of items."""
    scores = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [0.0, -1.0, -2.0, -3.0]])
    seen = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)
    assert topn.top_n(scores, 2) == [[1, 2], [0, 1], [0, 1]]
    assert topn.top_n(scores, 3, seen) == [[2, 3, 0], [0, 1, 2], [3]]


def test_scores_are_one_inner_product_and_split_in_two_parts() -> None:
    rng = np.random.default_rng(0)
    theta, beta, gamma = rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), rng.standard_normal(4)
    pi, lam = rng.gamma(1.0, size=(4, 2)), rng.gamma(1.0, size=(5, 2))
    scores = topn.score_all(theta, beta, gamma, pi, lam, intercept=0.7)
    joined = np.hstack([theta, gamma[:, None] * pi]) @ np.hstack([beta, lam]).T + 0.7
    np.testing.assert_allclose(scores.score, joined, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scores.preference, theta @ beta.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scores.confounder, gamma[:, None] * (pi @ lam.T), rtol=1e-12, atol=1e-14)
